"""Whether the likelihood has a maximum, told by the intervals before any Newton step.

The log-likelihood is concave in (gamma, theta) (`twoclock.fit.likelihood`), so a finite maximum
fails to exist exactly when it does not fall along some direction. Two kinds matter. *Threaded*:
one line passes through every interval, sigma goes to 0, all such lines are as good: the exponent
is a set. *Separated*: early and late runs are split by B so cleanly that the exponent goes to
plus or minus infinity: a one-sided bound (`twoclock.fit.intervals.separation_bound`). Lines in
one regressor are checked in closed form for all draws at once; any design by linear programme.
(Silvapulle and Burridge 1986, JRSS B 48, 100-106, give the conditions for grouped data.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from twoclock.fit.censored import CensoredData
from twoclock.fit.newton import ON_LINE

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

IDENTIFIED, THREADED, DEGENERATE, DOWN, UP, OPEN = range(6)
"""A maximum exists; a set of lines; exact runs on one line; alpha to -inf; to +inf; nothing."""


@dataclass(frozen=True, eq=False)
class Classes:
    """What each draw can tell about the exponent.

    Parameters
    ----------
    code : ndarray of int, shape (draws,)
        One of IDENTIFIED, THREADED, DEGENERATE, DOWN, UP, OPEN.
    low, high : ndarray, shape (draws,)
        The set of exponents where the likelihood has its supremum (NaN when IDENTIFIED; infinite
        ends for DOWN, UP and OPEN).
    """

    code: NDArray[np.int8]
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class _Cells:
    """Per draw (rows) and distinct x (columns): what the runs with positive weight allow."""

    x: Floats
    low: Floats
    high: Floats
    exact: Mask
    bounded: Mask
    left: Mask
    right: Mask


def classify(data: CensoredData, weights: Floats) -> Classes:
    """Classify every draw: in closed form for a line in one regressor, else by linear programme.

    Parameters
    ----------
    data : CensoredData
        Runs. A design of two columns, the first all ones, is a line; for any other, draws without
        a maximum are all OPEN, and every distinct set of runs costs a linear programme (about
        2 ms).
    weights : ndarray, shape (draws, n)
        How often each run counts; only whether it is positive matters.

    Returns
    -------
    Classes
        One entry a draw.

    Examples
    --------
    One run never failed at small B, two failed at large B: the exponent has no lower end.

    >>> x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    >>> data = CensoredData(x, np.array([9.0, 5.0, 5.5]), np.array([np.inf, 5.0, 5.5]), x[:, 1])
    >>> int(classify(data, np.ones((1, 3))).code[0]) == DOWN
    True
    """
    if data.design.shape[1] != 2:
        return _classify_any(data, weights)
    cells = _cells(data, weights)
    low, high, threaded = _threads(cells)
    down, up = _separates(cells)
    code = np.full(len(weights), IDENTIFIED, dtype=np.int8)
    code[down & ~up], code[up & ~down], code[up & down] = DOWN, UP, OPEN
    lower_end, upper_end = np.isneginf(low), np.isposinf(high)
    code[threaded & ~lower_end & ~upper_end] = THREADED
    code[threaded & lower_end & ~upper_end] = DOWN
    code[threaded & ~lower_end & upper_end] = UP
    code[threaded & lower_end & upper_end] = OPEN
    code[(code == THREADED) & (cells.exact.sum(axis=1) >= 2)] = DEGENERATE
    low[code == OPEN], high[code == OPEN] = -np.inf, np.inf
    low[(code == DOWN)], high[(code == DOWN) & ~threaded] = -np.inf, -np.inf
    high[(code == UP)], low[(code == UP) & ~threaded] = np.inf, np.inf
    low[code == IDENTIFIED], high[code == IDENTIFIED] = np.nan, np.nan
    return Classes(code, low, high)


def _classify_any(data: CensoredData, weights: Floats) -> Classes:
    supports, member = np.unique(weights > 0, axis=0, return_inverse=True)
    good = np.array([has_maximum(data.take(support)) for support in supports])[member.ravel()]
    code = np.where(good, IDENTIFIED, OPEN).astype(np.int8)
    return Classes(code, np.where(good, np.nan, -np.inf), np.where(good, np.nan, np.inf))


def _cells(data: CensoredData, weights: Floats) -> _Cells:
    x, member = np.unique(data.design[:, 1], return_inverse=True)
    inside = weights > 0
    shape = (len(weights), len(x))
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    masks = {name: np.zeros(shape, dtype=bool) for name in ("exact", "bounded", "left", "right")}
    bounded = data.exact | data.interval
    kinds = {"exact": data.exact, "bounded": bounded, "left": data.left, "right": data.right}
    for c in range(len(x)):
        mine = np.flatnonzero(member == c)
        here = inside[:, mine]
        low[:, c] = np.where(here, data.lower[mine], -np.inf).max(axis=1)
        high[:, c] = np.where(here, data.upper[mine], np.inf).min(axis=1)
        for name, kind in kinds.items():
            masks[name][:, c] = here[:, kind[mine]].any(axis=1)
    return _Cells(x, low, high, masks["exact"], masks["bounded"], masks["left"], masks["right"])


def _threads(cells: _Cells) -> tuple[Floats, Floats, Mask]:
    """Return the slopes (low, high) of the lines through every interval, and whether there are any.

    Eliminating the intercept leaves, for every pair of cells c < d,
    ``(low_d - high_c)/(x_d - x_c) <= alpha <= (high_d - low_c)/(x_d - x_c)``, and low <= high
    within each cell.
    """
    draws, k = cells.low.shape
    least, most = np.full(draws, -np.inf), np.full(draws, np.inf)
    feasible = (cells.low <= cells.high + ON_LINE).all(axis=1)
    slack = np.full(draws, np.inf)
    for c in range(k):
        for d in range(c + 1, k):
            gap = cells.x[d] - cells.x[c]
            least = np.maximum(least, (cells.low[:, d] - cells.high[:, c]) / gap)
            most = np.minimum(most, (cells.high[:, d] - cells.low[:, c]) / gap)
            slack = np.minimum(slack, gap)
    feasible &= least <= most + 2.0 * ON_LINE / slack
    crossed = feasible & (least > most)
    middle = 0.5 * (least[crossed] + most[crossed])
    least[crossed], most[crossed] = middle, middle
    return least, most, feasible


def _separates(cells: _Cells) -> tuple[Mask, Mask]:
    """Return whether the likelihood does not fall as alpha goes to -inf, to +inf (sigma finite)."""
    x, inf = cells.x, np.inf
    count = cells.bounded.sum(axis=1)
    first_right = np.where(cells.right, x, inf).min(axis=1)
    last_right = np.where(cells.right, x, -inf).max(axis=1)
    first_left = np.where(cells.left, x, inf).min(axis=1)
    last_left = np.where(cells.left, x, -inf).max(axis=1)
    # with one B that has events, a line turns around it; with none, about a point in between
    pivot = np.where(cells.bounded, x, -inf).max(axis=1)
    one = count == 1
    up_one = one & (first_right >= pivot) & (last_left <= pivot)
    down_one = one & (last_right <= pivot) & (first_left >= pivot)
    none = count == 0
    up_none = none & (last_left <= first_right)
    down_none = none & (last_right <= first_left)
    blind = none & (~cells.left.any(axis=1) | ~cells.right.any(axis=1))
    return down_one | down_none | blind, up_one | up_none | blind


def exponent_set(data: CensoredData, column: int = 1) -> tuple[float, float] | None:
    """Return the least and greatest coefficient among all ``X beta`` that thread every interval.

    A linear programme in beta: minimise and maximise ``beta[column]`` subject to
    ``lower <= X beta <= upper``; works for any design.

    Parameters
    ----------
    data : CensoredData
        The runs.
    column : int
        Which coefficient.

    Returns
    -------
    tuple of float or None
        (lowest, highest), infinite where unbounded; None when nothing threads every interval.

    Examples
    --------
    A failure at 30,000 responses for every B, validated every 20 rollouts.

    >>> b = np.array([64.0, 256.0, 1024.0, 4096.0])
    >>> low = np.array([29440.0, 25600.0, 20480.0, 1e-9])
    >>> high = np.array([30720.0, 30720.0, 40960.0, 81920.0])
    >>> x = np.column_stack([np.ones(4), np.log(b)])
    >>> data = CensoredData(x, np.log(low), np.log(high), x[:, 1])
    >>> [round(end, 3) for end in exponent_set(data)]
    [-0.132, 0.031]
    """
    finite_low, finite_high = np.isfinite(data.lower), np.isfinite(data.upper)
    rows = np.vstack([-data.design[finite_low], data.design[finite_high]])
    ends = np.concatenate([-data.lower[finite_low], data.upper[finite_high]]) + ON_LINE
    found = []
    for sign in (1.0, -1.0):
        cost = np.zeros(data.design.shape[1])
        cost[column] = sign
        answer = linprog(cost, A_ub=rows, b_ub=ends, bounds=(None, None), method="highs")
        if answer.status == 2:
            return None
        bounded = answer.status == 0 and answer.fun is not None
        found.append(sign * float(answer.fun or 0.0) if bounded else -sign * np.inf)
    return found[0], found[1]


def has_maximum(data: CensoredData) -> bool:
    """Return whether the likelihood has a finite maximum, for any design, by linear programme.

    Looks for a direction (gamma, theta >= 0) along which no term falls and some term rises:
    ``gamma . X_i >= theta * lower_i`` and ``gamma . X_i <= theta * upper_i`` with equality for
    exact runs. The sum of the slacks, maximised in a box, is zero exactly when there is none.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> has_maximum(CensoredData(x, np.array([9.0, 5.0]), np.array([np.inf, 5.0]), x[:, 1]))
    False
    """
    p = data.design.shape[1]
    if np.linalg.matrix_rank(data.design) < p:
        return False
    level = float(np.median(np.where(np.isfinite(data.lower), data.lower, data.upper)))
    finite_low, finite_high = np.isfinite(data.lower), np.isfinite(data.upper)
    above = np.column_stack([-data.design, data.lower - level])[finite_low]
    below = np.column_stack([data.design, level - data.upper])[finite_high]
    rows = np.vstack([above, below])
    cost = rows.sum(axis=0)  # minus the total slack
    cost[p] -= 1.0  # theta itself: a threaded line has slack zero when every run is exact
    box = [(-1.0, 1.0)] * p + [(0.0, 1.0)]
    slack = ON_LINE * np.ones(len(rows))
    answer = linprog(cost, A_ub=rows, b_ub=slack, bounds=box, method="highs")
    return answer.fun is not None and float(answer.fun) > -1e-6
