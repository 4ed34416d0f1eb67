"""One-sided bounds of the exponent where the runs separate by batch size.

The bound is where the profile likelihood has fallen by ``N log(1 + t^2/(m - 1))`` below its
supremum, with t the one-sided quantile on m - 1 degrees of freedom and m the events, all at one
batch size: only they tell sigma. Simulated at 95 % (2 and 3 sizes, 2 to 8 seeds), given that the
data separate, it covers 93 to 100 % whatever the chance of separation (8 to 96 %); the chi-square
drop of 2.71 covers 37 to 100 %, least where separation is rare (``tests/benchmarks/coverage.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.fit.censored import CensoredData
from twoclock.fit.estimate import Estimates, Problem
from twoclock.fit.identify import DOWN, has_maximum
from twoclock.fit.intervals import edge, profile_loglik, threshold
from twoclock.fit.newton import ON_LINE, solve

Mask = NDArray[np.bool_]


def separation_bound(
    problem: Problem, code: int, level: float, *, chi_square: bool = False
) -> float | None:
    """Return the one-sided profile bound of the exponent of separated data.

    Parameters
    ----------
    problem : Problem
        Runs whose events are all at one batch size.
    code : int
        DOWN (alpha may be minus infinity: an upper bound) or UP.
    level : float
        One-sided confidence level.
    chi_square : bool
        Use the large-sample drop ``z^2`` (2.71 at 95 %) instead of the calibrated one.

    Returns
    -------
    float or None
        The bound; None where sigma cannot be told (one event) or the profile never falls so far.
    """
    data, sign = problem.data, 1.0 if code == DOWN else -1.0
    bounded = data.exact | data.interval
    pivot = problem.batch_size == problem.batch_size[bounded][0]
    events = int(bounded.sum())
    peak = _supremum(
        replace(data.take(pivot), design=np.ones((int(pivot.sum()), 1))), problem.error
    )
    if events < 2 or not np.isfinite(peak):
        return None
    if chi_square:
        drop = float(stats.norm.ppf(level)) ** 2
    else:
        drop = threshold(float(len(problem)), float(events - 1), level, sides=1)

    def short(value: float) -> float:
        return 2.0 * (peak - profile_loglik(data, 1, value, error=problem.error)) - drop

    start = _inside(short, sign)
    if start is None:
        return None
    found = edge(short, start, 0.1 * sign)
    return found if np.isfinite(found) else None


def _inside(short: Callable[[float], float], sign: float) -> float | None:
    """Return an exponent far enough on the infinite side to be inside the bound."""
    for size in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0):
        if short(-sign * size) < 0.0:
            return -sign * size
    return None


def _supremum(data: CensoredData, error: str) -> float:
    """Return the supremum of the log-likelihood of one batch size (inf: sigma goes to 0)."""
    if has_maximum(data):
        return float(solve(data, np.ones((1, len(data))), error=error).loglik[0])
    if bool(data.exact.any()):
        return np.inf
    low, high = float(data.lower.max()), float(data.upper.min())
    if high - low > ON_LINE:
        return 0.0
    # runs that meet end to end: the common end gets a share of each
    ups, downs = int((data.upper <= high).sum()), int((data.lower >= low).sum())
    share = ups / (ups + downs)
    return ups * float(np.log(share)) + downs * float(np.log1p(-share))


def current_status_bound(
    problem: Problem, found: Estimates, code: int, level: float
) -> float | None:
    """Bound from left- and right-censored runs alone, by an exact binomial argument.

    Were alpha beyond the edge of the threading lines, one mean would be on the wrong side of its
    censoring limit at one of the two batch sizes that set the edge; whatever sigma, all of their
    runs then fall as seen with probability at most ``p^r (1 - p)^l`` at ``p = r/(r + l)``
    (r right-, l left-censored runs there). The edge is a bound where that is at most 1 - level.

    Parameters
    ----------
    problem, found : Problem, Estimates
        Runs that are all censored on one side, and their fit without a maximum.
    code : int
        DOWN or UP.
    level : float
        One-sided confidence level.

    Returns
    -------
    float or None
        The bound; None where there are too few runs.
    """
    edge_value = float(found.classes.high[0] if code == DOWN else found.classes.low[0])
    if not np.isfinite(edge_value):
        return None
    data, sign = problem.data, 1.0 if code == DOWN else -1.0
    best = 0
    for b in np.unique(data.design[data.right, 1]):
        for d in np.unique(data.design[data.left, 1]):
            mine = data.right & (data.design[:, 1] == b)
            yours = data.left & (data.design[:, 1] == d)
            low, high = float(data.lower[mine].max()), float(data.upper[yours].min())
            if (d - b) * sign <= 0 or abs((high - low) / (d - b) - edge_value) > 1e-9:
                continue
            best = max(best, _binding(data, mine, yours, low, high, 1.0 - level))
    return edge_value if best else None


def _binding(
    data: CensoredData, mine: Mask, yours: Mask, low: float, high: float, alpha: float
) -> int:
    r = int((data.lower[mine] >= low - ON_LINE).sum())
    left = int((data.upper[yours] <= high + ON_LINE).sum())
    p = r / (r + left)
    return int(r * np.log(p) + left * np.log1p(-p) <= np.log(alpha))
