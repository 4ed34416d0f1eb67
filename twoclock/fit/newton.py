"""Newton solver of the censored likelihood for many weightings of the same runs at once.

One row of the weight matrix is one fit (a bootstrap draw, a deleted run, the data themselves). In
(gamma, theta) the problem is concave, so Newton with step halving converges from anywhere whenever
a maximum exists; whether it exists is decided beforehand by `twoclock.fit.identify`, never guessed
from a step count. With log sigma linear in log B the Hessian is made definite first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoclock.fit.censored import Block, CensoredData, blocks_of
from twoclock.fit.errorlaws import ERROR_LAWS, ErrorLaw
from twoclock.fit.likelihood import Sums, evaluate, inner_parameters

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

ON_LINE = 1e-10
"""Distance from the line, in nats of responses, below which exact runs count as on it."""

_CHUNK = 40_000  # weight-matrix elements in work at once: the temporaries stay in the cache
_DONE = 1e-10  # squared Newton decrement before the last full step: 1e-5 standard errors
_VANISHED = 1e-5  # a theta this many times smaller than at the start runs to zero
_LOG_RATIO = 12.0  # a log-linear sigma beyond this log ratio over the sizes has no maximum
_ROUNDING = 1e-9  # a step may lose this share of the log-likelihood to rounding


@dataclass(frozen=True, eq=False)
class BatchFit:
    """Maximum-likelihood fits, one row a draw; NaN where a fit did not converge.

    Parameters
    ----------
    beta : ndarray, shape (draws, p)
        Coefficients of the mean of log R.
    log_sigma : ndarray, shape (draws,)
        Log of sigma at the mean log B (-inf for exact runs on a line).
    slope : ndarray, shape (draws,)
        Slope of log sigma in centred log B (zeros when sigma is constant).
    loglik : ndarray, shape (draws,)
        Log-likelihood at the maximum, nats (inf for exact runs on a line); where a fit did not
        converge, the highest value seen.
    converged : ndarray of bool, shape (draws,)
        Whether the maximum was reached.
    """

    beta: Floats
    log_sigma: Floats
    slope: Floats
    loglik: Floats
    converged: Mask

    def natural(self, row: int, *, loglinear: bool) -> Floats:
        """Return (beta, log sigma[, delta]) of one draw."""
        tail = [self.log_sigma[row], self.slope[row]] if loglinear else [self.log_sigma[row]]
        return np.concatenate([self.beta[row], tail])


def solve(
    data: CensoredData,
    weights: Floats,
    *,
    loglinear: bool = False,
    error: str = "lognormal",
    start: Floats | None = None,
    max_iterations: int = 60,
) -> BatchFit:
    """Maximise the weighted log-likelihood of every draw.

    Parameters
    ----------
    data : CensoredData
        The runs.
    weights : ndarray, shape (draws, n)
        How often each run counts in each draw; draws whose maximum does not exist must have been
        taken out (`twoclock.fit.identify.classify`).
    loglinear : bool
        Let log sigma be linear in centred log B.
    error : {"lognormal", "loglogistic", "weibull"}
        Error law.
    start : ndarray, shape (q,) or (draws, q), optional
        (beta, log sigma[, delta]) to start from; by default a least-squares guess.
    max_iterations : int
        Newton steps (halved ones included) before a draw counts as not converged.

    Returns
    -------
    BatchFit
        One row a draw.

    Examples
    --------
    >>> x = np.array([[1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> low = np.array([0.0, 1.0, 2.0, 2.5])
    >>> data = CensoredData(x, low, np.array([0.5, 2.0, 3.0, np.inf]), x[:, 1])
    >>> fit = solve(data, np.ones((1, 4)))
    >>> bool(fit.converged[0]), round(float(fit.beta[0, 1]), 3)
    (True, 1.001)
    """
    weights = np.asarray(weights, dtype=np.float64)
    if error == "lognormal" and not loglinear and bool(data.exact.all()):
        return least_squares(data, weights)
    data, weights = _merge(data, weights)
    shift = _shift(data)
    p = data.design.shape[1]
    first = np.atleast_2d(_guess(data, loglinear=loglinear) if start is None else start).copy()
    ones = _ones(data.design)
    first[:, :p] -= shift * ones
    inner = np.broadcast_to(inner_parameters(first, p), (len(weights), first.shape[1]))
    blocks, law = blocks_of(data, shift), ERROR_LAWS[error]
    size = max(1, _CHUNK // max(1, len(data)))
    parts = [
        _climb(blocks, law, inner[i : i + size], weights[i : i + size], max_iterations)
        for i in range(0, len(weights), size)
    ]
    found = np.concatenate([part[0] for part in parts])
    value = np.concatenate([part[1] for part in parts])
    ok = np.isfinite(found).all(axis=1)
    theta = found[:, p]
    beta = found[:, :p] / theta[:, None] + shift * ones
    slope = np.where(ok, found[:, p + 1] if loglinear else 0.0, np.nan)
    return BatchFit(beta, -np.log(theta), slope, value, ok)


def _climb(
    blocks: list[Block], law: ErrorLaw, start: Floats, weights: Floats, max_iterations: int
) -> tuple[Floats, Floats]:
    """Return parameters (draws, q; NaN: not converged) and log-likelihoods (draws,) of a chunk."""
    draws, q = start.shape
    k = blocks[0].rows.shape[1]
    out, best = np.full((draws, q), np.nan), np.full(draws, np.nan)
    span = max(float(np.ptp(np.concatenate([block.log_b for block in blocks]))), 1e-9)
    left = np.arange(draws)
    at, first = start.copy(), start
    value = np.full(draws, -np.inf)
    step, scale = np.zeros((draws, q)), np.zeros(draws)
    w = weights
    for _ in range(max_iterations):
        here = at + scale[:, None] * step
        with np.errstate(over="ignore", invalid="ignore"):  # such steps are halved
            sums = evaluate(blocks, law, here, w, loglinear=q > k)
            good = sums.value >= value - _ROUNDING * (1.0 + np.abs(value))
        good &= _finite(sums)
        if not good.all():  # halve the step of those that fell
            scale = np.where(good, scale, 0.5 * scale)
        at[good], value[good] = here[good], sums.value[good]
        sums.hessian[~good], sums.gradient[~good] = -np.eye(q), 0.0
        fresh, decrement = _direction(sums, definite=q == k)
        step[good] = fresh[good]
        scale[good] = _allowed(at[good, k - 1], step[good, k - 1])
        if q > k:
            reach = np.abs(step[:, k])
            scale = np.where(good, np.minimum(scale, 1.0 / np.maximum(reach, 1.0)), scale)
        done = good & (decrement < _DONE)
        lost = _runs_away(at, first, k, span)
        if done.any() or lost.any():
            last = at[done] + scale[done, None] * step[done]
            out[left[done]], best[left[done]] = last, value[done] + 0.5 * decrement[done]
            best[left[lost & ~done]] = value[lost & ~done]
            keep = ~(done | lost)
            left, at, value = left[keep], at[keep], value[keep]
            step, scale, w, first = step[keep], scale[keep], w[keep], first[keep]
        if not len(left):
            break
    best[left] = value
    return out, best


def _finite(sums: Sums) -> Mask:
    """Return the draws whose value and derivatives are all finite."""
    finite = np.isfinite(sums.value) & np.isfinite(sums.gradient).all(axis=1)
    return finite & np.isfinite(sums.hessian).all(axis=(1, 2))


def _runs_away(at: Floats, start: Floats, k: int, span: float) -> Mask:
    """Return the draws without a maximum: sigma has no upper end, or vanishes at one end of B."""
    lost = at[:, k - 1] < _VANISHED * start[:, k - 1]
    if at.shape[1] > k:
        lost |= np.abs(at[:, k]) * span > _LOG_RATIO
    return lost


def _direction(sums: Sums, *, definite: bool) -> tuple[Floats, Floats]:
    """Return Newton steps (draws, q) and squared decrements ``g' (-H)^-1 g`` (draws,)."""
    curve, g = -sums.hessian, sums.gradient
    size = np.sqrt(np.maximum(np.abs(np.einsum("dii->di", curve)), 1e-300))
    curve = curve / (size[:, :, None] * size[:, None, :])  # theta and gamma differ in scale
    if definite:
        curve += 1e-13 * np.eye(curve.shape[1])
        scaled = np.linalg.solve(curve, (g / size)[:, :, None])[:, :, 0]
    else:
        values, vectors = np.linalg.eigh(curve)
        values = np.maximum(np.abs(values), 1e-6)
        inner = np.einsum("dji,dj->di", vectors, g / size) / values
        scaled = np.einsum("dij,dj->di", vectors, inner)
    step = scaled / size
    return step, np.einsum("di,di->d", step, g)


def _allowed(theta: Floats, change: Floats) -> Floats:
    """Return the largest step, at most 1, that changes theta at most tenfold."""
    down, up = 0.9 * theta, 9.0 * theta
    return np.minimum(down / np.maximum(-change, down), up / np.maximum(change, up))


def least_squares(data: CensoredData, weights: Floats) -> BatchFit:
    """Fit exact runs with constant sigma: weighted least squares in closed form.

    ``beta = (X'WX)^-1 X'Wy`` and ``sigma^2 = RSS / sum(w)`` (maximum likelihood, not N - p).

    Parameters
    ----------
    data : CensoredData
        Runs that are all exact.
    weights : ndarray, shape (draws, n)
        How often each run counts.

    Returns
    -------
    BatchFit
        Points on a line have log_sigma -inf and loglik inf and count as converged.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> data = CensoredData(x, np.array([1.0, 3.0]), np.array([1.0, 3.0]), x[:, 1])
    >>> least_squares(data, np.ones((1, 2))).beta.round(9).tolist()
    [[1.0, 2.0]]
    """
    shift = _shift(data)
    x, y, total = data.design, data.lower - shift, weights.sum(axis=1)
    p = x.shape[1]
    moment = (weights @ (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)).reshape(-1, p, p)
    size = np.maximum(np.einsum("dii->di", moment).max(axis=1), 1e-300)
    ok = np.linalg.eigvalsh(moment / size[:, None, None])[:, 0] > 1e-12
    safe = np.where(ok[:, None, None], moment, np.eye(p))
    right = (weights @ (x * y[:, None]))[:, :, None]
    beta: Floats = np.asarray(np.linalg.solve(safe, right)[:, :, 0], dtype=np.float64)
    residual = y - beta @ x.T
    variance = np.einsum("dn,dn->d", weights, residual**2) / np.maximum(total, 1e-300)
    variance = np.where(variance <= ON_LINE**2, 0.0, variance)
    with np.errstate(divide="ignore"):
        log_sigma = np.asarray(0.5 * np.log(variance), dtype=np.float64)
    loglik = -total * (log_sigma + 0.5 * np.log(2.0 * np.pi) + 0.5)
    beta = np.where(ok[:, None], beta + shift * _ones(x), np.nan)
    blank: Floats = np.where(ok, 0.0, np.nan)
    return BatchFit(beta, log_sigma + blank, blank, loglik + blank, ok)


def _merge(data: CensoredData, weights: Floats) -> tuple[CensoredData, Floats]:
    """Join identical runs (common on shared validation grids) and add up their weights."""
    table = np.column_stack([data.design, data.lower, data.upper, data.log_b])
    unique, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if len(unique) == len(data):
        return data, weights
    member = np.zeros((len(data), len(unique)))
    member[np.arange(len(data)), inverse.ravel()] = 1.0
    return data.take(first), weights @ member


def _shift(data: CensoredData) -> float:
    """Return a level of log R to subtract, so that gamma and theta are not nearly collinear."""
    ends = np.where(np.isfinite(data.lower), data.lower, data.upper)
    return float(ends.mean()) if bool(_ones(data.design).any()) else 0.0


def _ones(design: Floats) -> Floats:
    """Return v with ``design @ v = 1``, or zeros where a constant is not in its span."""
    v, *_ = np.linalg.lstsq(design, np.ones(len(design)), rcond=None)
    fits = bool(np.allclose(design @ v, 1.0, rtol=0.0, atol=1e-9))
    return np.asarray(v.round(12) if fits else np.zeros(design.shape[1]), dtype=np.float64)


def _guess(data: CensoredData, *, loglinear: bool) -> Floats:
    """Return starting values: least squares on middles and finite ends."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (data.lower + data.upper)
    y = np.where(data.left, data.upper - 0.3, np.where(data.right, data.lower + 0.3, middle))
    beta, *_ = np.linalg.lstsq(data.design, y, rcond=None)
    spread = float(np.sqrt(np.mean((y - data.design @ beta) ** 2)))
    widths = (data.upper - data.lower)[data.interval]
    floor = 0.3 * float(np.median(widths)) if len(widths) else 1e-6
    tail = [np.log(max(spread, floor, 1e-9))] + ([0.0] if loglinear else [])
    return np.concatenate([beta, tail])
