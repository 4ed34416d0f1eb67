"""What the exponent of a converged fit hangs on: runs, batch sizes and choices.

Whether the law holds at all is for `twoclock.fit.lawcheck`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.fit.censored import CensoredData
from twoclock.fit.estimate import Estimates, Problem, estimate, exponent_of, model_covariance
from twoclock.fit.identify import has_maximum
from twoclock.fit.newton import solve
from twoclock.fit.resample import deletions
from twoclock.notes import Note
from twoclock.results import Exponent, Influence

Floats = NDArray[np.float64]
CellMeans = tuple[float, float, float]

_DRIVES = 0.5  # share of the jackknife variance that makes one run the driver
_MATTERS = 0.05  # a change of the exponent smaller than this is not worth a warning


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
    problem: Problem, exponent: Exponent, influence: tuple[Influence, ...]
) -> list[Note]:
    """Name the run and the batch size on which the exponent hangs.

    A run drives the slope when it alone makes over half of the jackknife variance and moves the
    exponent by over 0.05. A batch size does when the exponent is not identified without it, or
    when the exponent without it lies outside the headline interval and the headline exponent
    outside the interval of the runs without it (model-based t interval at the same level); of
    several the one that moves the exponent most. The second condition is what noise seldom meets:
    of data sets from a true power law (3 to 5 sizes, 2 to 5 seeds) 0 to 25 % meet the first, 0 to
    3 % meet both. A size that stands on one run widens the jackknife: its run is named instead.
    """
    return [
        *_run_driver(problem, exponent.estimate, influence),
        *_size_drivers(problem, exponent, influence),
    ]


def _run_driver(problem: Problem, exponent: float, influence: tuple[Influence, ...]) -> list[Note]:
    runs = [item for item in influence if "run_id" in item.drop]
    change = np.array([np.nan if i.exponent is None else i.exponent - exponent for i in runs])
    total = float(np.nansum(change**2))
    if len(runs) <= 4 or not total > 0.0:
        return []
    worst = int(np.nanargmax(np.abs(change)))
    size = abs(float(change[worst]))
    if size**2 <= _DRIVES * total or size <= _MATTERS:
        return []
    run = str(runs[worst].drop["run_id"])
    message = (
        f"run {run} (B={int(problem.batch_size[worst])}) drives the slope: "
        f"{exponent:+.3f} with it, {exponent + change[worst]:+.3f} without; kept"
    )
    return [Note("driven_by_run", message, runs=(run,))]


def _size_drivers(
    problem: Problem, exponent: Exponent, influence: tuple[Influence, ...]
) -> list[Note]:
    without = {
        int(item.drop["batch_size"]): item.exponent
        for item in influence
        if "batch_size" in item.drop
    }
    if len(without) < 3:
        return []
    start = f"{exponent.estimate:+.3f} with it"
    told = {
        size: f"B={size} drives the slope: {start}, not identified without it"
        for size, value in without.items()
        if value is None
    }
    moved = {
        size: abs(value - exponent.estimate)
        for size, value in without.items()
        if value is not None and _stands_apart(problem, exponent, size, value)
    }
    if moved:
        size = max(moved, key=lambda name: moved[name])
        told[size] = f"B={size} drives the slope: {start}, {without[size]:+.3f} without it"
    return [Note("driven_by_batch_size", message) for message in told.values()]


def _stands_apart(problem: Problem, exponent: Exponent, size: int, value: float) -> bool:
    """Return whether the exponents with and without a batch size exclude each other."""
    lower, upper = exponent.lower, exponent.upper
    if lower is None or upper is None or lower <= value <= upper:
        return False
    keep = problem.batch_size != size
    rest = replace(problem, data=problem.data.take(keep), batch_size=problem.batch_size[keep])
    n, p = len(rest), rest.data.design.shape[1]
    found = estimate(rest, rest.ones)
    covariance = model_covariance(rest, found)
    if n <= p or not found.ok[0]:
        return False
    if covariance is None:
        return bool(np.isneginf(found.fit.log_sigma[0]))  # the others lie on a line exactly
    se = float(np.sqrt(covariance[rest.column, rest.column] * n / (n - p)))
    half = float(stats.t.ppf(0.5 + exponent.level / 2.0, n - p)) * se
    return abs(exponent.estimate - value) > half


def cell_means(problem: Problem, *, level: float = 0.95) -> CellMeans | None:
    """Regress the fitted level of each batch size on log B, sizes weighted equally.

    Returns
    -------
    tuple or None
        Slope, its standard error and the two-sided half width by t on sizes - 2 degrees of
        freedom; None with fewer than three sizes that have a level.
    """
    sizes, levels = [], []
    for size in np.unique(problem.batch_size):
        mean = _level(problem.data.take(problem.batch_size == size))
        if mean is not None:
            sizes.append(np.log(float(size)))
            levels.append(mean)
    k = len(sizes)
    if k < 3:
        return None
    x = np.array(sizes) - np.mean(sizes)
    y = np.array(levels)
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    se = float(np.sqrt(rest @ rest / (k - 2) / (x @ x)))
    return slope, se, float(stats.t.ppf(0.5 + level / 2.0, k - 2)) * se


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
