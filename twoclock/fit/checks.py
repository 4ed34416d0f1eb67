"""Checks of a converged fit: does the law hold, and what does the exponent hang on.

Lack of fit is a likelihood ratio with an F calibration, ``F = (exp(L/N) - 1) df2/df1`` with L twice
the gain of the larger model: for exact runs this is the classical replicate F test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.fit.censored import CensoredData
from twoclock.fit.estimate import Estimates, Problem, estimate, exponent_of
from twoclock.fit.identify import has_maximum
from twoclock.fit.newton import ON_LINE, solve
from twoclock.fit.resample import deletions
from twoclock.notes import Note
from twoclock.results import Influence, LackOfFit

Floats = NDArray[np.float64]
CellMeans = tuple[float, float | None, float | None]

_ALPHA = 0.05  # p-value below which lack of fit is warned about
_DRIVES = 0.5  # share of the jackknife variance that makes one run the driver
_MATTERS = 0.05  # a change of the exponent smaller than this is not worth a warning


def lack_of_fit(problem: Problem, loglik: float) -> LackOfFit | None:
    """Test the law against a free mean per batch size (replicates needed).

    Parameters
    ----------
    problem : Problem
        The runs.
    loglik : float
        Log-likelihood of the law, nats.

    Returns
    -------
    LackOfFit or None
        None without replicates or without a batch size to spare.
    """
    sizes, member = np.unique(problem.batch_size, return_inverse=True)
    n, k, p = len(problem), len(sizes), problem.data.design.shape[1]
    if n <= k or k <= p or not np.isfinite(loglik):
        return None
    free = np.asarray(member[:, None] == np.arange(k), dtype=np.float64)
    gain = _gain(problem, free, loglik)
    return None if gain is None else _f_test(gain, n, k - p, n - k)


def curvature(problem: Problem, loglik: float) -> LackOfFit | None:
    """Test the law against an added square of centred log B (no replicates needed).

    Returns None with fewer than four batch sizes or no degree of freedom left.
    """
    n, p = len(problem), problem.data.design.shape[1]
    if len(np.unique(problem.batch_size)) < p + 2 or n <= p + 1 or not np.isfinite(loglik):
        return None
    bent = np.column_stack([problem.data.design, problem.data.log_b**2])
    gain = _gain(problem, bent, loglik)
    return None if gain is None else _f_test(gain, n, 1, n - p - 1)


def _gain(problem: Problem, design: Floats, loglik: float) -> float | None:
    """Return twice the log-likelihood gained by `design`; inf when it fits exactly."""
    data = replace(problem.data, design=design)
    # a cell that is censored on one side only fits perfectly by moving away: it adds nothing
    if design.shape[1] > problem.data.design.shape[1] + 1 or _is_free(design):
        data = _without_one_sided_cells(problem, data)
    if not len(data):
        return None
    if not bool(data.exact.all()) and not has_maximum(data):
        return None
    fit = solve(data, np.ones((1, len(data))), loglinear=problem.loglinear, error=problem.error)
    if not fit.converged[0] or not np.isfinite(fit.loglik[0]):
        return None  # no spread left within the batch sizes: nothing to compare with
    return max(0.0, 2.0 * (float(fit.loglik[0]) - loglik))


def _is_free(design: Floats) -> bool:
    return bool(np.isin(design, (0.0, 1.0)).all())


def _without_one_sided_cells(problem: Problem, data: CensoredData) -> CensoredData:
    keep = np.ones(len(problem), dtype=bool)
    for size in np.unique(problem.batch_size):
        cell = problem.batch_size == size
        keep[cell] = not (data.right[cell].all() or data.left[cell].all())
    kept = data.take(keep)
    return replace(kept, design=kept.design[:, kept.design.any(axis=0)])


def _f_test(gain: float, n: int, df1: int, df2: int) -> LackOfFit:
    statistic = float(np.expm1(min(gain / n, 700.0))) * df2 / df1
    return LackOfFit(statistic, float(df1), float(df2), float(stats.f.sf(statistic, df1, df2)))


def law_notes(problem: Problem, found: Estimates, replicate: LackOfFit | None) -> list[Note]:
    """Return the warnings that the law does not hold over these batch sizes."""
    loglik = float(found.fit.loglik[0])
    bend = curvature(problem, loglik)
    notes = []
    if replicate is not None and replicate.p < _ALPHA:
        message = (
            f"lack of fit: the batch sizes scatter about the power law by more than their seeds do "
            f"(F = {replicate.statistic:.3g} on {replicate.df1:g} and {replicate.df2:g}, "
            f"p = {replicate.p:.2g})"
        )
        notes.append(Note("lack_of_fit", message))
    if bend is not None and bend.p < _ALPHA:
        signs = residual_signs(problem, found)
        message = (
            f"lack of fit: log R is curved in log B (p = {bend.p:.2g}; residuals by batch size "
            f"{signs}): the exponent holds locally; compare the other laws"
        )
        notes.append(Note("lack_of_fit", message))
    return notes


def residual_signs(problem: Problem, found: Estimates) -> str:
    """Return the signs of the mean residual of each batch size, ascending (``+ - - +``).

    Censored runs enter by their finite end or the middle of their interval.
    """
    data = problem.data
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (data.lower + data.upper)
    y = np.where(data.left, data.upper, np.where(data.right, data.lower, middle))
    off = y - data.design @ found.fit.beta[0]
    means = [off[problem.batch_size == b].mean() for b in np.unique(problem.batch_size)]
    return " ".join("0" if abs(m) < ON_LINE else "+" if m > 0 else "-" for m in means)


def leave_out(
    problem: Problem, found: Estimates, groups: NDArray[np.int64] | None
) -> tuple[list[object], Estimates]:
    """Refit without each group of runs in turn (without each run when `groups` is None)."""
    keys = np.arange(len(problem)) if groups is None else groups
    names, weights = deletions(keys)
    at = found.fit.natural(0, loglinear=problem.loglinear)
    start = at if np.isfinite(at).all() else None
    return names, estimate(problem, weights, start=start)


def influence_of(
    problem: Problem,
    by_size: tuple[list[object], Estimates],
    by_run: tuple[list[object], Estimates],
) -> tuple[Influence, ...]:
    """Return the influence table: batch sizes first, then runs."""
    c = problem.column
    sizes = [
        Influence({"batch_size": name}, _value(by_size[1], i, c))
        for i, name in enumerate(by_size[0])
    ]
    runs = [
        Influence({"run_id": problem.run_ids[i]}, _value(by_run[1], i, c))
        for i in range(len(problem))
    ]
    return tuple(sizes + runs)


def _value(found: Estimates, row: int, column: int) -> float | None:
    return float(found.fit.beta[row, column]) if found.ok[row] else None


def driver_notes(
    problem: Problem, exponent: float, half_width: float | None, influence: tuple[Influence, ...]
) -> list[Note]:
    """Name the run and the batch size on which the exponent hangs.

    A run drives the slope when it alone makes over half of the jackknife variance and moves the
    exponent by over 0.05; a batch size does when the exponent is not identified without it, or
    leaves the headline interval, or changes sign by over 0.05.
    """
    notes = []
    runs = [item for item in influence if "run_id" in item.drop]
    change = np.array([np.nan if i.exponent is None else i.exponent - exponent for i in runs])
    total = float(np.nansum(change**2))
    if len(runs) > 4 and total > 0.0:
        worst = int(np.nanargmax(np.abs(change)))
        size = abs(float(change[worst]))
        if size**2 > _DRIVES * total and size > _MATTERS:
            run = str(runs[worst].drop["run_id"])
            message = (
                f"run {run} (B={int(problem.batch_size[worst])}) drives the slope: "
                f"{exponent:+.3f} with it, {exponent + change[worst]:+.3f} without; kept"
            )
            notes.append(Note("driven_by_run", message, runs=(run,)))
    for item in influence:
        if "batch_size" not in item.drop or len(np.unique(problem.batch_size)) < 3:
            continue
        moved = None if item.exponent is None else item.exponent - exponent
        if moved is None:
            told = "not identified without it"
        elif abs(moved) > _MATTERS and _crosses(exponent, moved, half_width):
            told = f"{exponent + moved:+.3f} without it"
        else:
            continue
        message = f"B={item.drop['batch_size']} drives the slope: {exponent:+.3f} with it, {told}"
        notes.append(Note("driven_by_batch_size", message))
    return notes


def _crosses(exponent: float, moved: float, half_width: float | None) -> bool:
    beyond = half_width is not None and abs(moved) > half_width
    return beyond or exponent * (exponent + moved) < 0.0


def cell_means(problem: Problem) -> CellMeans | None:
    """Regress the fitted level of each batch size on log B, sizes weighted equally.

    Returns
    -------
    tuple or None
        Slope, its standard error and the two-sided 95 % half width by t on sizes - 2 degrees of
        freedom (both None below four sizes); None with fewer than three sizes that have a level.
    """
    sizes, levels = [], []
    for size in np.unique(problem.batch_size):
        level = _level(problem.data.take(problem.batch_size == size))
        if level is not None:
            sizes.append(np.log(float(size)))
            levels.append(level)
    k = len(sizes)
    if k < 3:
        return None
    x = np.array(sizes) - np.mean(sizes)
    y = np.array(levels)
    slope = float(x @ y / (x @ x))
    if k < 4:
        return slope, None, None
    rest = y - y.mean() - slope * x
    se = float(np.sqrt(rest @ rest / (k - 2) / (x @ x)))
    return slope, se, float(stats.t.ppf(0.975, k - 2)) * se


def _level(data: CensoredData) -> float | None:
    """Return the mean log R of one cell: of exact runs their mean, else by likelihood."""
    if bool(data.exact.all()):
        return float(data.lower.mean())
    one = replace(data, design=np.ones((len(data), 1)))
    if has_maximum(one):
        fit = solve(one, np.ones((1, len(data))))
        return float(fit.beta[0, 0]) if fit.converged[0] else None
    low, high = float(data.lower.max()), float(data.upper.min())
    return 0.5 * (low + high) if low <= high and np.isfinite([low, high]).all() else None


def sensitivity(
    problem: Problem, every: Problem, found: Estimates, means: CellMeans | None
) -> dict[str, float | None]:
    """Return the exponent under other choices (the last two are wrong answers, shown as such).

    Parameters
    ----------
    problem, every : Problem
        The headline's runs, and those with the floor-bound cells.
    found : Estimates
        The headline fit.
    means : tuple or None
        From `cell_means`.
    """
    data = problem.data
    out: dict[str, float | None] = {}
    out["all_cells"] = (
        exponent_of(every.with_sigma(loglinear=problem.loglinear))
        if len(every) > len(problem)
        else _value(found, 0, problem.column)
    )
    out["sigma_constant"] = exponent_of(problem.with_sigma(loglinear=False))
    if problem.can_loglinear():
        out["sigma_loglinear"] = exponent_of(problem.with_sigma(loglinear=True))
    out["cell_means"] = None if means is None else means[0]
    if bool((data.left | data.right).any()):
        inside = data.exact | data.interval
        known = replace(problem, data=data.take(inside), batch_size=problem.batch_size[inside])
        out["without_censored"] = exponent_of(known) if inside.any() else None
        ends = np.where(data.left, data.upper, data.lower)
        capped = replace(
            data,
            lower=np.where(data.left, ends, data.lower),
            upper=np.where(data.right, ends, data.upper),
        )
        out["caps_as_events"] = exponent_of(replace(problem, data=capped))
    return out
