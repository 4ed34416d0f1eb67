"""Whether the law holds over the batch sizes of a converged fit.

Lack of fit is a likelihood ratio with an F calibration, ``F = (exp(L/N) - 1) df2/df1`` with L twice
the gain of the larger model: for exact runs this is the classical replicate F test. Where the
larger model fits exactly, though it has runs to spare, F is infinite and p is 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.fit.censored import CensoredData
from twoclock.fit.estimate import Estimates, Problem
from twoclock.fit.identify import exponent_set, has_maximum
from twoclock.fit.newton import ON_LINE, solve
from twoclock.notes import Note
from twoclock.results import Curvature, LackOfFit

Floats = NDArray[np.float64]

_ALPHA = 0.05  # p-value below which lack of fit is warned about


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


def curvature(problem: Problem, found: Estimates) -> Curvature | None:
    """Test the law against an added square of centred log B (no replicates needed).

    Returns None with fewer than four batch sizes or no degree of freedom left.
    """
    n, p, loglik = len(problem), problem.data.design.shape[1], float(found.fit.loglik[0])
    if len(np.unique(problem.batch_size)) < p + 2 or n <= p + 1 or not np.isfinite(loglik):
        return None
    bent = np.column_stack([problem.data.design, problem.data.log_b**2])
    gain = _gain(problem, bent, loglik)
    if gain is None:
        return None
    test = _f_test(gain, n, 1, n - p - 1)
    return Curvature(test.statistic, test.df1, test.df2, test.p, residual_signs(problem, found))


def _gain(problem: Problem, design: Floats, loglik: float) -> float | None:
    """Return twice the log-likelihood gained by `design`; inf when it fits exactly."""
    data = replace(problem.data, design=design)
    # a cell that is censored on one side only fits perfectly by moving away: it adds nothing
    if design.shape[1] > problem.data.design.shape[1] + 1 or _is_free(design):
        data = _without_one_sided_cells(problem, data)
    if not len(data):
        return None
    if not bool(data.exact.all()) and not has_maximum(data):
        return np.inf if _repeats(data) and exponent_set(data, 0) is not None else None
    fit = solve(data, np.ones((1, len(data))), loglinear=problem.loglinear, error=problem.error)
    if np.isposinf(fit.loglik[0]):
        return np.inf if _repeats(data) else None
    if not fit.converged[0] or not np.isfinite(fit.loglik[0]):
        return None
    return max(0.0, 2.0 * (float(fit.loglik[0]) - loglik))


def _repeats(data: CensoredData) -> bool:
    """Return whether there are more exact runs than coefficients to fit them with.

    Only then does a fit without any spread tell something: it need not have been exact.
    """
    exact = data.design[data.exact]
    return len(exact) > int(np.linalg.matrix_rank(exact)) if len(exact) else False


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
    if np.isinf(gain):
        return LackOfFit(np.inf, float(df1), float(df2), 0.0)
    statistic = float(np.expm1(min(gain / n, 700.0))) * df2 / df1
    return LackOfFit(statistic, float(df1), float(df2), float(stats.f.sf(statistic, df1, df2)))


def law_notes(replicate: LackOfFit | None, bend: Curvature | None) -> list[Note]:
    """Return the warnings that the law does not hold over these batch sizes."""
    notes = []
    if replicate is not None and replicate.p < _ALPHA:
        told = (
            f"F = {replicate.statistic:.3g} on {replicate.df1:g} and {replicate.df2:g}, "
            f"p = {replicate.p:.2g}"
            if np.isfinite(replicate.statistic)
            else "the seeds of each size agree exactly, the sizes are off the line; if responses "
            "were rounded to validations, give them as intervals"
        )
        message = (
            "lack of fit: the batch sizes scatter about the power law by more than their seeds do "
            f"({told})"
        )
        notes.append(Note("lack_of_fit", message))
    if bend is not None and bend.p < _ALPHA:
        message = (
            f"lack of fit: log R is curved in log B (p = {bend.p:.2g}; residuals by batch size "
            f"{bend.pattern}): the exponent holds locally, do not extrapolate it"
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
