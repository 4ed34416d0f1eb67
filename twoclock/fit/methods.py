"""Interval methods by name: each one function from the evidence of a fit to an interval.

A method that the data do not allow says why and gives no ends; no method stands in for another.
Which of them cover what they promise is measured by ``make coverage`` (data/studies/coverage.csv).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.fit.checks import cell_means
from twoclock.fit.evidence import Evidence
from twoclock.fit.identify import IDENTIFIED
from twoclock.fit.intervals import jackknife, percentile, quantile
from twoclock.results import MethodInterval, Pair

Floats = NDArray[np.float64]
Method = Callable[[Evidence, float], MethodInterval]

MIN_DRAWS = 100
"""Usable bootstrap draws that a quantile of them needs: at 95 %, 2.5 beyond each end."""


def jackknife_t(evidence: Evidence, level: float) -> MethodInterval:
    """Delete-one-run jackknife standard error, t on N - 2 degrees of freedom.

    Tukey 1958 (Ann. Math. Stat. 29, 614); Efron and Tibshirani 1993, ch. 11. With
    ``resample='seeds'`` seed numbers are deleted and t has seeds - 1.
    """
    names, deleted, df = evidence.deleted
    if evidence.problem.replicated() == 0:
        return _none("jackknife-t", level, "one seed in every cell: no seed interval exists")
    if not deleted.ok.all():
        lost = ", ".join(lost_units(evidence, names, deleted.ok))
        why = f"without {lost} the exponent is not identified, so the jackknife does not exist"
        return _none("jackknife-t", level, why)
    if df <= 0.0:
        return _none("jackknife-t", level, f"{len(names)} units leave no degree of freedom")
    made = jackknife(deleted.fit.beta, df)
    se, ends = made.interval(evidence.value, evidence.problem.column, level)
    return MethodInterval("jackknife-t", evidence.value, se, *ends, level, df)


def lost_units(evidence: Evidence, names: list[object], ok: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the runs (or seed numbers) without which there is no exponent."""
    ids = evidence.problem.run_ids
    by_run = len(names) == len(ids)
    return tuple(
        ids[int(str(names[i]))] if by_run else f"seed {names[i]}" for i in np.flatnonzero(~ok)
    )


def percentile_interval(evidence: Evidence, level: float) -> MethodInterval:
    """Quantiles of the seed bootstrap (Efron 1979; Efron and Tibshirani 1993, ch. 13).

    Draws resample runs within cells; a draw whose exponent is a set enters by its ends.
    """
    why = _no_draws(evidence)
    if why:
        return _none("percentile", level, why)
    drawn, column = evidence.drawn, evidence.problem.column
    assert drawn is not None
    values = drawn.fit.beta[:, column]
    ends = percentile(values, drawn.classes, level)
    if ends is None:
        return _none("percentile", level, "no bootstrap draw has an exponent")
    se = float(np.std(values[np.isfinite(values)], ddof=1)) if drawn.ok.sum() > 1 else None
    return _ends("percentile", evidence.value, se, ends, level, None)


def bootstrap_t(evidence: Evidence, level: float) -> MethodInterval:
    """Quantiles of ``(alpha* - alpha)/se*``, times the standard error of the fit.

    Hall 1988 (Ann. Stat. 16, 927-953); DiCiccio and Efron 1996 (Stat. Sci. 11, 189-228). Both
    standard errors are sandwich ones (`twoclock.fit.sandwich`). A draw without a maximum enters
    as minus and plus infinity.
    """
    why = _no_draws(evidence)
    if why:
        return _none("bootstrap-t", level, why)
    drawn, se = evidence.drawn, evidence.se
    assert drawn is not None
    if not se > 0.0:
        return _none("bootstrap-t", level, "the runs lie on the law exactly: no standard error")
    off = drawn.fit.beta[:, evidence.problem.column] - evidence.value
    spread = evidence.drawn_se
    told = drawn.ok & (spread > 0.0)
    t = np.full(len(off), np.nan)
    t[told] = off[told] / spread[told]
    flat = drawn.ok & ~told & np.isfinite(off)
    t[flat] = np.where(off[flat] == 0.0, 0.0, np.copysign(np.inf, off[flat]))
    open_sets = ~drawn.ok & (drawn.classes.code != IDENTIFIED)
    low = np.sort(np.where(open_sets, -np.inf, t)[~np.isnan(t) | open_sets])
    high = np.sort(np.where(open_sets, np.inf, t)[~np.isnan(t) | open_sets])
    tail = 0.5 - level / 2.0
    ends = (
        evidence.value - se * quantile(high, 1.0 - tail),
        evidence.value - se * quantile(low, tail),
    )
    return _ends("bootstrap-t", evidence.value, se, ends, level, None)


def profile_t(evidence: Evidence, level: float) -> MethodInterval:
    """Profile likelihood with the t-calibrated threshold ``N log(1 + t^2/(N - 2))``.

    Bates and Watts 1988, sec. 6.1, for exact runs; `twoclock.fit.intervals.threshold`.
    """
    ends = evidence.profile(level)
    if ends is None:
        n = len(evidence.problem)
        why = f"{n} runs leave no degree of freedom" if evidence.spare <= 0 else "sigma is 0"
        return _none("profile-t", level, why)
    return _ends(
        "profile-t", evidence.value, model_se(evidence), ends, level, float(evidence.spare)
    )


def cell_means_t(evidence: Evidence, level: float) -> MethodInterval:
    """Regression of the cell means on log B, sizes weighted equally, t on sizes - 2.

    The summary-measures analysis of clustered data (Matthews et al. 1990, BMJ 300, 230-235;
    Donald and Lang 2007, Rev. Econ. Stat. 89, 221-233): valid whatever the runs of a size share,
    at the price of few degrees of freedom. Its centre is the slope of the means.
    """
    found = cell_means(evidence.problem, level=level)
    if found is None:
        return _none("cell-means", level, "needs three batch sizes that have a level")
    slope, se, half = found
    ends = (slope - half, slope + half)
    sizes = len(np.unique(evidence.problem.batch_size))
    return _ends("cell-means", slope, se, ends, level, float(sizes - 2))


def model(evidence: Evidence, level: float) -> MethodInterval:
    """Observed information times ``N/(N - 2)``, t on N - 2 (Lawless 2003, ch. 6).

    For exact runs it is the least-squares interval, which takes one sigma for granted.
    """
    se = model_se(evidence)
    if se is None:
        return _none("model", level, "the information is singular or leaves no degree of freedom")
    half = float(stats.t.ppf(0.5 + level / 2.0, evidence.spare)) * se
    ends = (evidence.value - half, evidence.value + half)
    return _ends("model", evidence.value, se, ends, level, float(evidence.spare))


def model_se(evidence: Evidence) -> float | None:
    """Return the model-based standard error with the factor ``sqrt(N/(N - p))``."""
    covariance = model_covariance_grown(evidence)
    column = evidence.problem.column
    return None if covariance is None else float(np.sqrt(covariance[column, column]))


def model_covariance_grown(evidence: Evidence) -> Floats | None:
    """Return the inverse information times ``N/(N - p)``; None without a run to spare."""
    if evidence.information is None or evidence.spare <= 0:
        return None
    return evidence.information * len(evidence.problem) / evidence.spare


METHODS: dict[str, Method] = {
    "jackknife-t": jackknife_t,
    "percentile": percentile_interval,
    "bootstrap-t": bootstrap_t,
    "profile-t": profile_t,
    "cell-means": cell_means_t,
    "model": model,
}
"""Every method by the name that ``--interval`` takes; adding one is one function and one entry."""


def _no_draws(evidence: Evidence) -> str | None:
    if evidence.weights is None or not len(evidence.weights):
        return "no bootstrap draws were asked for"
    if evidence.problem.replicated() == 0:
        return "one seed in every cell: every draw is the data themselves"
    if evidence.usable < MIN_DRAWS:
        total = len(evidence.weights)
        return (
            f"{evidence.usable} usable of {total} bootstrap draws are too few: needs {MIN_DRAWS}, "
            "better 10,000 (--draws)"
        )
    return None


def _ends(
    name: str, centre: float, se: float | None, ends: Pair, level: float, df: float | None
) -> MethodInterval:
    return MethodInterval(name, centre, se, *ends, level, df)


def _none(name: str, level: float, why: str) -> MethodInterval:
    return MethodInterval(name, None, None, None, None, level, None, why)
