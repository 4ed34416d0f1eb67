"""Comparisons of fitted exponents: differences, equivalence to zero, safe window.

Uses the delete-one-run refits and the bootstrap draws that the fits carry; fits nothing itself.
Fits that share runs (two clocks of one stratum, two targets) are resampled together, others are
independent.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twoclock.errors import FitError
from twoclock.fit.intervals import jackknife
from twoclock.results import (
    ClockFit,
    Difference,
    Equivalence,
    FitRef,
    Pair,
    SafeWindow,
)

Floats = NDArray[np.float64]

POWER = 0.80
"""Power at which `runs_per_cell` would settle an inconclusive equivalence test."""

EQUIVALENCE_LEVEL = 0.90
"""Interval level of two one-sided tests at 5 % each (Schuirmann 1987)."""


def difference(a: ClockFit, b: ClockFit, *, level: float = 0.95) -> Difference:
    """Compare two exponents: ``alpha_a - alpha_b`` with an interval.

    For fits that share runs the delete-one-run refits are differenced run by run, so that what the
    runs have in common cancels; t has the smaller of the two degrees of freedom. For disjoint fits
    variances add, with Welch-Satterthwaite degrees of freedom.

    Parameters
    ----------
    a, b : ClockFit
        Two fits.
    level : float
        Confidence level.

    Returns
    -------
    Difference
        Estimate and interval None unless both fits converged.
    """
    refs = FitRef.of(a), FitRef.of(b)
    differs = tuple(
        key
        for key in dict.fromkeys((*a.stratum, *b.stratum))
        if a.stratum.get(key) != b.stratum.get(key)
    )
    shared = tuple(sorted(set(a.batch_sizes) & set(b.batch_sizes)))
    if a.exponent is None or b.exponent is None:
        return Difference(
            *refs, None, None, None, None, level, "none: not both identified",
            differs=differs, batch_sizes=shared,
        )  # fmt: skip
    estimate = a.exponent.estimate - b.exponent.estimate
    paired = not set(a.used["run_id"]).isdisjoint(b.used["run_id"])
    if paired:
        se, df, method = _paired_se(a, b)
    else:
        se, df, method = _independent_se(a, b)
    half = _half_width(se, df, level)
    return Difference(
        *refs,
        estimate=estimate,
        se=se,
        lower=None if half is None else estimate - half,
        upper=None if half is None else estimate + half,
        level=level,
        method=method,
        percentile=_percentile(a, b, level),
        p=None if not se or df is None else float(2 * stats.t.sf(abs(estimate) / se, df)),
        differs=differs,
        batch_sizes=shared,
    )


def _half_width(se: float | None, df: float | None, level: float) -> float | None:
    if not se or df is None or df <= 0:
        return None  # no seed interval, or one of no width: nothing that could be published
    return float(stats.t.ppf(0.5 + level / 2, df)) * se


def _independent_se(a: ClockFit, b: ClockFit) -> tuple[float | None, float | None, str]:
    method = "independent, " + " and ".join(sorted({_resampled(a), _resampled(b)}))
    (se_a, se_b), (df_a, df_b) = (a.seed_se, b.seed_se), (a.df, b.df)
    if se_a is None or se_b is None or df_a is None or df_b is None:
        return None, None, method
    va, vb = se_a**2, se_b**2
    if va + vb == 0:
        return 0.0, min(df_a, df_b), method
    return math.sqrt(va + vb), (va + vb) ** 2 / (va**2 / df_a + vb**2 / df_b), method


def _resampled(fit: ClockFit) -> str:
    """Return what the variance of a fit comes from, whatever its headline interval is."""
    if fit.exponent is None or not fit.exponent.methods:
        return "degenerate"
    return "jackknife-t" if not fit.exponent.by("jackknife-t").why else "model"


def _paired_se(a: ClockFit, b: ClockFit) -> tuple[float | None, float | None, str]:
    refits = _paired_refits(a, b)
    if refits is None or a.df is None or b.df is None:
        return None, None, "paired: no seed interval"
    found = jackknife(refits[:, :1] - refits[:, 1:2], min(a.df, b.df))
    return math.sqrt(float(found.covariance[0, 0])), found.df, "paired jackknife-t"


def _paired_refits(a: ClockFit, b: ClockFit, *, log_batch: float | None = None) -> Floats | None:
    """Return, for every run of either fit, what each fit gives without it, shape (n_runs, 2).

    A run that one fit never used leaves that fit as it is. The quantity is alpha, or log R at
    `log_batch` where given.
    """
    sides = []
    union: set[str] = set()
    for fit in (a, b):
        if fit.jackknife is None or fit.parameters is None:
            return None
        run_ids = fit.jackknife["run_id"].astype(str)
        union.update(run_ids)
        table = fit.jackknife[["a", "alpha"]].to_numpy(dtype=np.float64)
        sides.append((fit.parameters[:2], dict(zip(run_ids, table, strict=True)), fit.center))
    columns = []
    for full, rows, center in sides:
        parameters = np.array([rows.get(run, full) for run in sorted(union)])
        if log_batch is None:
            columns.append(parameters[:, 1])
        else:
            columns.append(parameters[:, 0] + parameters[:, 1] * (log_batch - center))
    values = np.column_stack(columns)
    return values if np.isfinite(values).all() else None


def _percentile(a: ClockFit, b: ClockFit, level: float) -> Pair | None:
    if a.draws is None or b.draws is None or len(a.draws) != len(b.draws):
        return None
    delta = a.draws[:, 1] - b.draws[:, 1]
    delta = delta[np.isfinite(delta)]
    if len(delta) < 2:
        return None
    low, high = np.quantile(delta, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def equivalence(fit: ClockFit, *, margin: float = 0.10) -> Equivalence:
    """Test whether the exponent is equivalent to zero within ``+-margin``.

    Two one-sided tests at 5 %: *supported* when the 90 % interval lies inside the margin,
    *rejected* when wholly outside it, else *inconclusive* (Schuirmann 1987, J. Pharmacokinet.
    Biopharm. 15). An interval of no width (all runs of a cell alike) tests nothing.

    Parameters
    ----------
    fit : ClockFit
        Usually the failure clock of a stratum.
    margin : float
        Half-width of what counts as zero; positive.

    Returns
    -------
    Equivalence
        *not_identified* when the fit has no exponent with an interval, unless its one-sided bound
        lies outside the margin.

    Raises
    ------
    FitError
        The margin is not positive.
    """
    if not margin > 0:
        msg = f"margin == {margin:g}, must be > 0"
        raise FitError(msg)
    ref, sizes = FitRef.of(fit), fit.batch_sizes
    factor = (max(sizes) / min(sizes)) ** margin if len(sizes) > 1 else None
    half = None
    if fit.exponent is not None:
        half = _half_width(fit.seed_se, fit.df, EQUIVALENCE_LEVEL)
    if fit.exponent is None or half is None:
        estimate = fit.exponent.estimate if fit.exponent else None
        verdict = "rejected" if _bounded_away(fit, margin) else "not_identified"
        return Equivalence(
            ref, margin, estimate, None, None, EQUIVALENCE_LEVEL, None, verdict, factor
        )
    lower, upper = fit.exponent.estimate - half, fit.exponent.estimate + half
    if -margin <= lower and upper <= margin:
        verdict = "supported"
    elif lower > margin or upper < -margin:
        verdict = "rejected"
    else:
        verdict = "inconclusive"
    needed = runs_to_settle(fit, margin=margin) if verdict == "inconclusive" else None
    return Equivalence(
        ref, margin, fit.exponent.estimate, lower, upper, EQUIVALENCE_LEVEL,
        max(abs(lower), abs(upper)), verdict, factor, needed,
    )  # fmt: skip


def _bounded_away(fit: ClockFit, margin: float) -> bool:
    """Return whether a one-sided bound (at 95 %, as one of two one-sided tests) excludes zero."""
    bound = fit.bound
    if bound is None or bound.value is None:
        return False
    return bound.value < -margin if bound.side == "upper" else bound.value > margin


def runs_to_settle(fit: ClockFit, *, margin: float, power: float = POWER) -> int | None:
    """Return the runs per batch size at which equivalence would be shown, were the exponent zero.

    The standard error shrinks with the square root of the runs per cell m, so the smallest m with
    ``(t_{0.95, df} + t_{(1+power)/2, df}) * se(m) <= margin`` and ``df = m * cells - 2``
    (Julious 2004, Stat. Med. 23, eq. for a true difference of zero).

    Parameters
    ----------
    fit : ClockFit
        A converged fit with a standard error.
    margin : float
        Equivalence margin.
    power : float
        Probability of the verdict *supported*.

    Returns
    -------
    int or None
        Runs per cell, None when the fit has no standard error.
    """
    if not fit.seed_se:
        return None
    cells = len(fit.batch_sizes)
    now = len(fit.used) / cells
    for runs in range(2, 100_000):
        df = runs * cells - 2
        quantiles = stats.t.ppf(0.95, df) + stats.t.ppf((1 + power) / 2, df)
        if quantiles * fit.seed_se * math.sqrt(now / runs) <= margin:
            return runs
    return None


def safe_window(learning: ClockFit, failure: ClockFit, *, level: float = 0.95) -> SafeWindow | None:
    """Return ``R_fail / R_target`` at each batch size that both clocks of one stratum fitted.

    The interval is on the log ratio, from delete-one-run refits of both clocks together; pointwise.

    Parameters
    ----------
    learning, failure : ClockFit
        Two clocks of one stratum.
    level : float
        Confidence level.

    Returns
    -------
    SafeWindow or None
        None when the strata differ, a clock has not converged, or no batch size is shared.
    """
    sizes = sorted(set(learning.batch_sizes) & set(failure.batch_sizes))
    both = learning.exponent is not None and failure.exponent is not None
    if dict(learning.stratum) != dict(failure.stratum) or not both or not sizes:
        return None
    ratio, lower, upper = [], [], []
    for size in sizes:
        log_ratio, half = _log_ratio(learning, failure, math.log(size), level)
        ratio.append(math.exp(log_ratio))
        lower.append(math.nan if half is None else math.exp(log_ratio - half))
        upper.append(math.nan if half is None else math.exp(log_ratio + half))
    return SafeWindow(
        stratum=learning.stratum,
        target=learning.targets[0],
        level=level,
        batch_size=tuple(float(size) for size in sizes),
        ratio=tuple(ratio),
        lower=tuple(lower),
        upper=tuple(upper),
        exponent=difference(failure, learning, level=level),
    )


def _log_ratio(
    learning: ClockFit, failure: ClockFit, log_batch: float, level: float
) -> tuple[float, float | None]:
    size = [math.exp(log_batch)]
    means = [math.log(fit.predict(size)["responses"][0]) for fit in (learning, failure)]
    refits = _paired_refits(failure, learning, log_batch=log_batch)
    if refits is None or learning.df is None or failure.df is None:
        return means[1] - means[0], None
    found = jackknife(refits[:, :1] - refits[:, 1:2], min(learning.df, failure.df))
    se = math.sqrt(float(found.covariance[0, 0]))
    return means[1] - means[0], _half_width(se, found.df, level)
