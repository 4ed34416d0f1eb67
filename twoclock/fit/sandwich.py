"""Influence of every run on a coefficient to first order, for many weightings at once.

A maximum-likelihood estimate moves by ``u_i = g' (-H)^-1 s_i`` per unit of weight on run i, where
s_i is the run's score, H the Hessian of the weighted log-likelihood and g the derivative of the
coefficient in the solver's parameters. The sum of ``w_i u_i^2`` is the sandwich variance (Huber
1967; White 1982, Econometrica 50, 1-25), which is the infinitesimal jackknife (Efron 1982, ch. 6):
one evaluation of the likelihood a draw instead of a refit a run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoclock.fit.censored import Block, blocks_of
from twoclock.fit.errorlaws import ERROR_LAWS, ErrorLaw
from twoclock.fit.estimate import Problem
from twoclock.fit.likelihood import evaluate, inner_parameters
from twoclock.fit.newton import BatchFit

Floats = NDArray[np.float64]

_CHUNK = 400_000  # draws times runs in work at once


def influence_values(problem: Problem, fit: BatchFit, weights: Floats) -> Floats:
    """Return what a unit of weight on each run adds to the exponent of each draw.

    For exact runs and a constant sigma this is ``x_i r_i / sum_j w_j x_j^2`` with x centred by
    weight and r the residuals, so ``sum w u^2`` is the HC0 variance of least squares.

    Parameters
    ----------
    problem : Problem
        The runs.
    fit : BatchFit
        Converged fits, one row a draw.
    weights : ndarray, shape (draws, n)
        How often each run counts.

    Returns
    -------
    ndarray, shape (draws, n)
        Influence values, per unit of weight; NaN in the rows of fits without a maximum.
    """
    size = max(1, _CHUNK // max(1, len(problem)))
    parts = [
        _chunk(problem, fit, weights[i : i + size], slice(i, i + size))
        for i in range(0, len(weights), size)
    ]
    return np.concatenate(parts) if parts else np.empty((0, len(problem)))


def _chunk(problem: Problem, fit: BatchFit, weights: Floats, rows: slice) -> Floats:
    columns = [fit.beta[rows], fit.log_sigma[rows, None]]
    if problem.loglinear:
        columns.append(fit.slope[rows, None])
    natural = np.column_stack(columns)
    out = np.full(weights.shape, np.nan)
    good = np.isfinite(natural).all(axis=1)
    if good.any():
        out[good] = _influence(problem, natural[good], weights[good])
    return out


def _influence(problem: Problem, natural: Floats, weights: Floats) -> Floats:
    p = problem.data.design.shape[1]
    shift = float(np.median(natural[:, 0]))  # gamma and theta are then not nearly collinear
    natural = natural.copy()
    natural[:, 0] -= shift
    inner = inner_parameters(natural, p)
    blocks, law = blocks_of(problem.data, shift), ERROR_LAWS[problem.error]
    sums = evaluate(blocks, law, inner, weights, loglinear=problem.loglinear)
    towards = np.zeros_like(inner)  # d beta_c / d(gamma, theta): beta_c = gamma_c / theta
    towards[:, problem.column] = 1.0 / inner[:, p]
    towards[:, p] = -inner[:, problem.column] / inner[:, p] ** 2
    size = np.sqrt(np.maximum(-np.einsum("dii->di", sums.hessian), 1e-300))
    curve = -sums.hessian / (size[:, :, None] * size[:, None, :])
    direction = np.linalg.solve(curve, (towards / size)[:, :, None])[:, :, 0] / size
    out = np.empty_like(weights)
    for block in blocks:
        out[:, block.columns] = _scores(block, law, inner, direction, p)
    return out


def _scores(block: Block, law: ErrorLaw, inner: Floats, direction: Floats, p: int) -> Floats:
    """Return each run's score times `direction`, shape (draws, runs of the block)."""
    k = p + 1
    tilt = inner[:, k:] if inner.shape[1] > k else None
    rate = 1.0 if tilt is None else np.exp(-tilt * block.log_b)
    m = (inner[:, :k] @ block.rows.T) * rate
    change = (direction[:, :k] @ block.rows.T) * rate  # of m along the direction
    if tilt is not None:
        change = change - direction[:, k:] * block.log_b * m
    if block.kind == "interval":
        h = inner[:, p : p + 1] * block.width * rate
        widen = direction[:, p : p + 1] * block.width * rate
        if tilt is not None:
            widen = widen - direction[:, k:] * block.log_b * h
        term = law.interval(m, h)
        return np.asarray(term.m * change + term.h * widen)
    calls = {"exact": law.density, "left": law.distribution, "right": law.survival}
    out = calls[block.kind](m).d1 * change
    if block.kind == "exact":  # log(1/sigma_i) = log theta - delta x_i
        out = out + direction[:, p : p + 1] / inner[:, p : p + 1]
        if tilt is not None:
            out = out - direction[:, k:] * block.log_b
    return np.asarray(out)
