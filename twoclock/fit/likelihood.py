"""Censored log-linear likelihood: each run adds its density, its interval probability or its tail.

The model is ``log R = X beta + sigma_i e`` with ``log sigma_i = s + delta * x_i`` (delta = 0 when
sigma is constant) and e from `twoclock.fit.errorlaws`. Inside, it is written in
``theta = exp(-s)`` and ``gamma = theta * beta``: the standardised residual
``z_i = exp(-delta x_i) (theta y_i - gamma . X_i)`` is then linear in (gamma, theta), and for a
log-concave error law the log-likelihood is concave in them (Burridge 1981, JRSS B 43, 41-45; Pratt
1981, JASA 76, 103-106). This module evaluates; `twoclock.fit.newton` maximises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoclock.fit.censored import Block, CensoredData, blocks_of
from twoclock.fit.errorlaws import ERROR_LAWS, ErrorLaw

Floats = NDArray[np.float64]


@dataclass(eq=False)
class Sums:
    """Weighted log-likelihood with derivatives, one row a draw (built up block by block).

    Parameters
    ----------
    value : ndarray, shape (draws,)
        Log-likelihood.
    gradient : ndarray, shape (draws, q)
        With respect to (gamma, theta[, delta]).
    hessian : ndarray, shape (draws, q, q)
        Second derivatives.
    """

    value: Floats
    gradient: Floats
    hessian: Floats


def evaluate(
    blocks: list[Block], law: ErrorLaw, parameters: Floats, weights: Floats, *, loglinear: bool
) -> Sums:
    """Evaluate the weighted log-likelihood of many draws at once.

    Parameters
    ----------
    blocks : list of Block
        The runs by censoring kind.
    law : ErrorLaw
        The error law.
    parameters : ndarray, shape (draws, q)
        (gamma, theta) and, with `loglinear`, delta last.
    weights : ndarray, shape (draws, n)
        How often each run counts in each draw.
    loglinear : bool
        Whether log sigma is linear in log B.

    Returns
    -------
    Sums
        Log-likelihoods, gradients and Hessians in `parameters`.
    """
    draws, q = parameters.shape
    sums = Sums(np.zeros(draws), np.zeros((draws, q)), np.zeros((draws, q, q)))
    for block in blocks:
        w = weights if len(block.columns) == weights.shape[1] else weights[:, block.columns]
        rate = np.exp(-parameters[:, -1:] * block.log_b) if loglinear else None
        if block.kind == "interval":
            _add_intervals(sums, block, law, parameters, w, rate)
        else:
            _add_points(sums, block, law, parameters, w, rate)
    return sums


def _add_points(
    sums: Sums, block: Block, law: ErrorLaw, parameters: Floats, w: Floats, rate: Floats | None
) -> None:
    """Add exact, left- or right-censored runs: functions of one standardised value z."""
    k = block.rows.shape[1]
    z = parameters[:, :k] @ block.rows.T
    if rate is not None:
        z *= rate
    calls = {"exact": law.density, "left": law.distribution, "right": law.survival}
    term = calls[block.kind](z)
    w1, w2 = w * term.d1, w * term.d2
    sums.value += np.einsum("dn,dn->d", w, term.value)
    if rate is None:
        sums.gradient[:, :k] += w1 @ block.rows
        sums.hessian[:, :k, :k] += (w2 @ block.products).reshape(-1, k, k)
    else:
        x = block.log_b
        sums.gradient[:, :k] += (w1 * rate) @ block.rows
        sums.gradient[:, k] -= (w1 * z) @ x
        sums.hessian[:, :k, :k] += ((w2 * rate * rate) @ block.products).reshape(-1, k, k)
        cross = -((w2 * z + w1) * rate * x) @ block.rows
        sums.hessian[:, :k, k] += cross
        sums.hessian[:, k, :k] += cross
        sums.hessian[:, k, k] += ((w2 * z + w1) * z) @ (x * x)
    if block.kind == "exact":
        _add_jacobian(sums, block, parameters, w, k)


def _add_jacobian(sums: Sums, block: Block, parameters: Floats, w: Floats, k: int) -> None:
    """Add ``log(1/sigma_i) = log theta - delta x_i`` of the exact runs."""
    total, theta = w.sum(axis=1), parameters[:, k - 1]
    sums.value += total * np.log(theta)
    sums.gradient[:, k - 1] += total / theta
    sums.hessian[:, k - 1, k - 1] -= total / theta**2
    if parameters.shape[1] > k:
        tilt = w @ block.log_b
        sums.value -= parameters[:, k] * tilt
        sums.gradient[:, k] -= tilt


def _add_intervals(
    sums: Sums, block: Block, law: ErrorLaw, parameters: Floats, w: Floats, rate: Floats | None
) -> None:
    """Add interval-censored runs: functions of a middle m and a width h, both in sigmas."""
    k = block.rows.shape[1]
    m = parameters[:, :k] @ block.rows.T
    h = parameters[:, k - 1 : k] * block.width
    if rate is not None:
        m *= rate
        h *= rate
    term = law.interval(m, h)
    sums.value += np.einsum("dn,dn->d", w, term.value)
    once = w if rate is None else w * rate
    twice = w if rate is None else once * rate
    sums.gradient[:, :k] += (once * term.m) @ block.rows
    sums.gradient[:, k - 1] += (once * term.h) @ block.width
    sums.hessian[:, :k, :k] += ((twice * term.mm) @ block.products).reshape(-1, k, k)
    mixed = (twice * term.mh) @ (block.rows * block.width[:, None])
    sums.hessian[:, :k, k - 1] += mixed
    sums.hessian[:, k - 1, :k] += mixed
    sums.hessian[:, k - 1, k - 1] += (twice * term.hh) @ block.width**2
    if rate is None:
        return
    x = block.log_b
    pull_m = term.mm * m + term.mh * h + term.m
    pull_h = term.mh * m + term.hh * h + term.h
    cross = -(once * pull_m * x) @ block.rows
    cross[:, k - 1] -= (once * pull_h) @ (x * block.width)
    sums.gradient[:, k] -= (w * (term.m * m + term.h * h)) @ x
    sums.hessian[:, :k, k] += cross
    sums.hessian[:, k, :k] += cross
    sums.hessian[:, k, k] += (w * (pull_m * m + pull_h * h)) @ (x * x)


def log_likelihood(
    data: CensoredData,
    parameters: Floats,
    *,
    weights: Floats | None = None,
    error: str = "lognormal",
) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood, gradient and Hessian in (beta, log sigma[, delta]).

    ``sum_i w_i log{ f(z_i)/sigma_i | F(b_i) - F(a_i) | F(b_i) | 1 - F(a_i) }`` with
    ``z_i = (y_i - X_i beta) exp(-s - delta x_i)`` (densities are of log R).

    Parameters
    ----------
    data : CensoredData
        The runs.
    parameters : ndarray, shape (p + 1,) or (p + 2,)
        beta, s = log sigma (at the mean log B) and, if present, delta, the slope of log sigma.
    weights : ndarray, shape (n,), optional
        How often each run counts.
    error : {"lognormal", "loglogistic", "weibull"}
        Error law.

    Returns
    -------
    value : float
        Log-likelihood in nats.
    gradient : ndarray, shape (q,)
        Its gradient.
    hessian : ndarray, shape (q, q)
        Its Hessian.

    Examples
    --------
    >>> x = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> data = CensoredData(x, np.array([0.0, 1.0]), np.array([0.0, 1.0]), x[:, 1])
    >>> value, gradient, _ = log_likelihood(data, np.array([0.5, 0.5, 0.0]))
    >>> round(value, 4), gradient.tolist()  # exact points on the line: only log sigma moves
    (-1.8379, [0.0, 0.0, -2.0])
    """
    p = data.design.shape[1]
    inner = inner_parameters(parameters[None, :], p)
    w = np.ones((1, len(data))) if weights is None else np.atleast_2d(weights)
    loglinear = len(parameters) > p + 1
    sums = evaluate(blocks_of(data, 0.0), ERROR_LAWS[error], inner, w, loglinear=loglinear)
    theta, gamma, g = inner[0, p], inner[0, :p], sums.gradient[0]
    jacobian = np.eye(len(parameters))
    jacobian[:p, :p] *= theta
    jacobian[:p, p], jacobian[p, p] = -gamma, -theta
    hessian = jacobian.T @ sums.hessian[0] @ jacobian
    hessian[:p, p] -= theta * g[:p]
    hessian[p, :p] -= theta * g[:p]
    hessian[p, p] += gamma @ g[:p] + theta * g[p]
    return float(sums.value[0]), jacobian.T @ g, hessian


def inner_parameters(parameters: Floats, p: int) -> Floats:
    """Return (gamma, theta[, delta]) from (beta, log sigma[, delta]), shape (draws, q)."""
    out = parameters.copy()
    out[:, p] = np.exp(-parameters[:, p])
    out[:, :p] *= out[:, p : p + 1]
    return out
