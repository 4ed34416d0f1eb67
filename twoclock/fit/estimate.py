"""Point estimates of one law on one set of runs, for the data themselves and for any reweighting.

A `Problem` is the runs of a headline (or of a variant of it) as arrays. Which estimate is reported,
with which interval and remarks, is for `twoclock.fit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.fit.censored import CensoredData
from twoclock.fit.identify import DEGENERATE, IDENTIFIED, Classes, classify
from twoclock.fit.likelihood import log_likelihood
from twoclock.fit.newton import BatchFit, solve
from twoclock.laws import PowerLaw

Floats = NDArray[np.float64]

_LOG_RATIOS = (0.0, 1.5, -1.5, 3.0, -3.0)  # of sigma at the largest B over that at the smallest
_RETRIES = 20  # draws that did not converge from the full fit and are tried from their own guess
_SHARE_RIGHT = 0.1  # DESIGN section 3: from this share of right-censored runs on
_REPLICATED = 3  # cells with two or more runs that a log-linear sigma needs


@dataclass(frozen=True, eq=False)
class Problem:
    """Runs, law and error law, as arrays.

    Parameters
    ----------
    law : PowerLaw
        The law.
    center : float
        Mean log B over the runs (nats).
    batch_size : ndarray of int, shape (n,)
        B of each run, responses.
    run_ids : tuple of str
        Run of each row.
    data : CensoredData
        Log intervals and design.
    loglinear : bool
        Log sigma linear in log B.
    error : str
        Error law.
    """

    law: PowerLaw
    center: float
    batch_size: NDArray[np.int64]
    run_ids: tuple[str, ...]
    data: CensoredData
    loglinear: bool = False
    error: str = "lognormal"

    @classmethod
    def of(cls, rows: pd.DataFrame, law: PowerLaw, *, error: str = "lognormal") -> Problem:
        """Build the problem of some rows of an events table (at least one)."""
        size = rows["batch_size"].to_numpy(dtype=np.int64)
        log_b = np.log(size.astype(np.float64))
        center = float(log_b.mean())
        with np.errstate(divide="ignore"):  # log 0 = -inf is left-censoring
            lower = np.log(rows["lower"].to_numpy(dtype=np.float64))
            upper = np.log(rows["upper"].to_numpy(dtype=np.float64))
        design = law.design(size.astype(np.float64), center=center)
        data = CensoredData(design, lower, upper, log_b - center)
        ids = tuple(str(run) for run in rows["run_id"])
        return cls(law, center, size, ids, data, error=error)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.data)

    @property
    def column(self) -> int:
        """Position of alpha among the coefficients."""
        return self.law.parameter_names.index("alpha")

    @property
    def ones(self) -> Floats:
        """Weights of the data themselves, shape (1, n)."""
        return np.ones((1, len(self)))

    def with_sigma(self, *, loglinear: bool) -> Problem:
        """Return the problem with sigma constant, or log-linear in B."""
        return replace(self, loglinear=loglinear)

    def replicated(self) -> int:
        """Return how many batch sizes have two or more runs."""
        return int((np.unique(self.batch_size, return_counts=True)[1] >= 2).sum())

    def suits_loglinear(self) -> bool:
        """Return whether a log-linear sigma is to be tried: censored enough, replicated enough."""
        return self.can_loglinear() and float(self.data.right.mean()) >= _SHARE_RIGHT

    def can_loglinear(self) -> bool:
        """Return whether a log-linear sigma has anything to rest on."""
        return self.replicated() >= _REPLICATED


@dataclass(frozen=True, eq=False)
class Estimates:
    """Fits of many weightings of one problem, with what each could tell.

    Parameters
    ----------
    fit : BatchFit
        Fits; NaN where no maximum exists or none was reached.
    classes : Classes
        Why not, and the sets of exponents.
    """

    fit: BatchFit
    classes: Classes

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Draws with an estimate, shape (draws,)."""
        return self.fit.converged


def estimate(problem: Problem, weights: Floats, *, start: Floats | None = None) -> Estimates:
    """Fit every row of `weights`, leaving out the rows for which no maximum exists.

    Parameters
    ----------
    problem : Problem
        The runs.
    weights : ndarray, shape (draws, n)
        How often each run counts.
    start : ndarray, shape (q,), optional
        (beta, log sigma[, delta]) to start from: the full fit.

    Returns
    -------
    Estimates
        One row a draw. Exact runs on one line keep their exponent, with sigma 0.
    """
    classes = classify(problem.data, weights)
    draws, p = len(weights), problem.data.design.shape[1]
    fit = BatchFit(
        np.full((draws, p), np.nan),
        np.full(draws, np.nan),
        np.full(draws, np.nan),
        np.full(draws, np.nan),
        np.zeros(draws, dtype=bool),
    )
    rows = np.flatnonzero(classes.code == IDENTIFIED)
    if len(rows):
        _put(fit, rows, _solve_with_retry(problem, weights[rows], start))
    lines = np.flatnonzero(classes.code == DEGENERATE)
    if len(lines):
        _put(fit, lines, _on_line(problem, weights[lines], classes.low[lines]))
    fit.beta[~fit.converged] = np.nan
    return Estimates(fit, classes)


def _solve_with_retry(problem: Problem, weights: Floats, start: Floats | None) -> BatchFit:
    """Solve; draws that do not converge from `start` are tried once more from their own guess.

    Not with a log-linear sigma: there it means that the draw has no maximum near the full fit.
    """
    tilted, error = problem.loglinear, problem.error
    found = solve(problem.data, weights, loglinear=tilted, error=error, start=start)
    if tilted:
        return found
    for row in np.flatnonzero(~found.converged)[:_RETRIES]:
        keep = weights[row] > 0
        part, w = problem.data.take(keep), weights[[row]][:, keep]
        again = solve(part, w, error=error, max_iterations=200)
        _put(found, np.array([row]), again)
    return found


def _put(into: BatchFit, rows: NDArray[np.intp], found: BatchFit) -> None:
    into.beta[rows], into.log_sigma[rows] = found.beta, found.log_sigma
    into.slope[rows], into.loglik[rows] = found.slope, found.loglik
    into.converged[rows] = found.converged


def _on_line(problem: Problem, weights: Floats, alpha: Floats) -> BatchFit:
    """Return the line through exact runs: sigma 0, no likelihood."""
    exact = problem.data.exact
    total = np.maximum(weights[:, exact].sum(axis=1), 1.0)
    y, x = problem.data.lower[exact], problem.data.design[exact, problem.column]
    level = (weights[:, exact] @ y - alpha * (weights[:, exact] @ x)) / total
    n = len(weights)
    beta = np.column_stack([level, alpha])
    return BatchFit(beta, np.full(n, -np.inf), np.zeros(n), np.full(n, np.inf), np.ones(n, bool))


def model_covariance(problem: Problem, estimates: Estimates) -> Floats | None:
    """Return the inverse observed information of the coefficients, shape (p, p)."""
    p = problem.data.design.shape[1]
    at = estimates.fit.natural(0, loglinear=problem.loglinear)
    if not np.isfinite(at).all():
        return None
    _, _, hessian = log_likelihood(problem.data, at, error=problem.error)
    try:
        covariance = np.asarray(np.linalg.inv(-hessian)[:p, :p], dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return covariance if bool((np.diag(covariance) > 0).all()) else None


def aicc(loglik: float, parameters: int, n: int) -> float | None:
    """Return ``-2 l + 2 k + 2 k (k + 1)/(n - k - 1)``; None where n <= k + 1 or l is not finite.

    Examples
    --------
    >>> aicc(-10.0, 3, 10), aicc(-10.0, 3, 4)
    (30.0, None)
    """
    if n <= parameters + 1 or not np.isfinite(loglik):
        return None
    return -2.0 * loglik + 2.0 * parameters * n / (n - parameters - 1.0)


def choose_sigma(problem: Problem, sigma: str) -> tuple[Problem, Estimates]:
    """Return the problem with its headline sigma, and its fit (see `FitSettings.sigma`)."""
    constant = problem.with_sigma(loglinear=False)
    plain = estimate(constant, problem.ones)
    try_other = sigma == "loglinear" or (sigma == "auto" and problem.suits_loglinear())
    if not (plain.ok[0] and np.isfinite(plain.fit.loglik[0]) and try_other):
        return constant, plain
    tilted = problem.with_sigma(loglinear=True)
    other = _best_tilted(tilted, plain)
    if other is None:
        return constant, plain
    k, n = problem.data.design.shape[1] + 1, len(problem)
    one = aicc(float(plain.fit.loglik[0]), k, n)
    two = aicc(float(other.fit.loglik[0]), k + 1, n)
    better = two is not None and (one is None or two < one)
    return (tilted, other) if sigma == "loglinear" or better else (constant, plain)


def _best_tilted(problem: Problem, plain: Estimates) -> Estimates | None:
    """Fit a log-linear sigma from several slopes: it can have more than one maximum."""
    at = plain.fit.natural(0, loglinear=False)
    span = float(np.ptp(problem.data.log_b))
    starts = np.array([np.append(at, log_ratio / span) for log_ratio in _LOG_RATIOS])
    ones = np.ones((len(starts), len(problem)))
    fits = solve(problem.data, ones, loglinear=True, error=problem.error, start=starts)
    height = np.where(fits.converged, fits.loglik, -np.inf)
    best = int(np.argmax(height))
    if not np.isfinite(height[best]):
        return None
    one = BatchFit(
        fits.beta[[best]],
        fits.log_sigma[[best]],
        fits.slope[[best]],
        fits.loglik[[best]],
        fits.converged[[best]],
    )
    return Estimates(one, plain.classes)


def exponent_of(problem: Problem) -> float | None:
    """Return the exponent alone, or None where the data give no point."""
    plain = problem.with_sigma(loglinear=False)
    found = estimate(plain, problem.ones)
    if problem.loglinear and found.ok[0] and np.isfinite(found.fit.loglik[0]):
        tilted = _best_tilted(problem, found)
        if tilted is None:
            return None
        found = tilted
    return float(found.fit.beta[0, problem.column]) if found.ok[0] else None
