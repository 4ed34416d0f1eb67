"""Frozen results: what a fit or a comparison found, never how.

Every class has ``to_dict()`` (the JSON contract: keys are added, never renamed; absent numbers are
None, never NaN). Nothing here fits, reads, draws or prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from twoclock.laws import PowerLaw
from twoclock.notes import Note, Refusal

Floats = NDArray[np.float64]
Pair = tuple[float, float]

STATUSES = ("converged", "bound", "not_identified", "failed")
VERDICTS = ("supported", "rejected", "inconclusive", "not_identified")


def number(value: float | None) -> float | None:
    """Return a finite float, or None for anything that is not a finite number.

    Examples
    --------
    >>> number(0.5), number(float("nan")), number(None)
    (0.5, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def _pair(pair: Pair | None) -> list[float | None] | None:
    return None if pair is None else [number(pair[0]), number(pair[1])]


def plain(value: Any) -> Any:
    """Return `value` as a JSON scalar: missing and non-finite become None ("inf" stays a word).

    Examples
    --------
    >>> plain(np.int64(3)), plain(pd.NA), plain(float("inf"))
    (3, None, 'inf')
    """
    if value is None or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value


@dataclass(frozen=True)
class Exponent:
    """An estimated exponent with its intervals.

    Parameters
    ----------
    estimate : float
        Maximum-likelihood alpha of ``R = c * B**alpha``.
    se : float or None
        Standard error of the headline method; None when none exists.
    lower, upper : float or None
        Headline interval at `level`.
    level : float
        Confidence level (0.95).
    method : str
        How the headline interval was made: ``"jackknife-t"``, ``"jackknife-t, pooled over cells"``,
        ``"jackknife-t over seed numbers"``, ``"model"``, ``"degenerate"``.
    percentile, profile : tuple of float or None
        Seed-bootstrap percentile interval; t-calibrated profile-likelihood interval (an infinite
        end: not bounded on that side).
    df : float or None
        Degrees of freedom of the t quantile.
    model_se : float or None
        Standard error from the observed information (no small-sample factor).
    """

    estimate: float
    se: float | None
    lower: float | None
    upper: float | None
    level: float
    method: str
    percentile: Pair | None = None
    profile: Pair | None = None
    df: float | None = None
    model_se: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "estimate": number(self.estimate),
            "se": number(self.se),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "method": self.method,
            "percentile": _pair(self.percentile),
            "profile": _pair(self.profile),
            "model_se": number(self.model_se),
            "df": number(self.df),
        }


@dataclass(frozen=True)
class Bound:
    """What the data say when they do not give a point: one-sided, or a set of exponents.

    Parameters
    ----------
    side : {"upper", "lower", "both"}
        ``upper``: alpha <= value; ``lower``: alpha >= value; ``both``: alpha in [lower, upper].
    value : float or None
        The one-sided bound.
    lower, upper : float or None
        The set, for ``both``.
    level : float
        Confidence level of a one-sided bound (a set from intervals alone is exact: 1.0).
    """

    side: str
    value: float | None
    lower: float | None
    upper: float | None
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "side": self.side,
            "value": number(self.value),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
        }


@dataclass(frozen=True)
class Cell:
    """The runs of one batch size in a fit.

    Parameters
    ----------
    batch_size : int
        B in responses.
    n_runs, n_exact, n_interval, n_left, n_right : int
        Runs, by censoring kind.
    rollouts_to_event : float or None
        Median of upper/B over the runs with an event; None when none has one.
    flags : tuple of str
        ``floor_bound``, ``single_seed``, ``no_event``, ``coarse_validation``, ``few_validations``.
    in_headline : bool
        False when the headline exponent leaves this cell out.
    """

    batch_size: int
    n_runs: int
    n_exact: int
    n_interval: int
    n_left: int
    n_right: int
    rollouts_to_event: float | None
    flags: tuple[str, ...] = ()
    in_headline: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "batch_size": self.batch_size,
            "n_runs": self.n_runs,
            "rollouts_to_event": number(self.rollouts_to_event),
            "flags": list(self.flags),
            "n_exact": self.n_exact,
            "n_interval": self.n_interval,
            "n_left": self.n_left,
            "n_right": self.n_right,
            "in_headline": self.in_headline,
        }


@dataclass(frozen=True)
class LackOfFit:
    """Replicate lack-of-fit test of the law against free cell means.

    Parameters
    ----------
    statistic : float
        F statistic (or the likelihood-ratio one divided by df1).
    df1, df2 : float
        Degrees of freedom.
    p : float
        p-value.
    """

    statistic: float
    df1: float
    df2: float
    p: float

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "statistic": number(self.statistic),
            "df1": number(self.df1),
            "df2": number(self.df2),
            "p": number(self.p),
        }


@dataclass(frozen=True)
class Influence:
    """The exponent without one run or one batch size.

    Parameters
    ----------
    drop : dict
        ``{"run_id": id}`` or ``{"batch_size": B}``.
    exponent : float or None
        Refitted exponent; None when not identified without it.
    """

    drop: Mapping[str, Any]
    exponent: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        drop = {key: plain(value) for key, value in self.drop.items()}
        return {"drop": drop, "exponent": number(self.exponent)}


@dataclass(frozen=True, eq=False)
class ClockFit:
    """One clock of one stratum (and one target): the fit and all that qualifies it.

    Parameters
    ----------
    clock : {"learning", "failure"}
        Which clock.
    stratum : dict
        The stratum columns that the runs share (plain scalars; missing left out).
    targets : tuple of float
        One target for the learning clock, none for the failure clock.
    law : PowerLaw
        The law.
    status : {"converged", "bound", "not_identified", "failed"}
        ``converged``: the data bound the exponent on both sides.
    exponent : Exponent or None
        Present exactly when `status` is ``converged``.
    bound : Bound or None
        Present exactly when `status` is ``bound``.
    parameters : ndarray, shape (p,) or None
        (a, alpha) of the law, centred at `center`.
    sigma : float or None
        Standard deviation of log R between runs (at the mean log B when it varies with B).
    coefficient : float or None
        c of ``R = c * B**alpha``, responses.
    loglik, aicc : float or None
        Log-likelihood (responses scale: densities of log R) and small-sample AIC.
    cells : tuple of Cell
        By batch size, ascending.
    lack_of_fit : LackOfFit or None
        None when there are no replicates or no spare batch size.
    influence : tuple of Influence
        Leave-one-batch-size-out, then leave-one-run-out.
    sensitivity : dict of str to (float or None)
        The exponent under other choices (``crossing_first``, ``all_cells``, ...).
    notes : tuple of Note
        Warnings about this fit.
    events : DataFrame
        The rows of this stratum, used or not (columns ``used``: bool, ``why_not``: str).
    center : float
        Mean log B of the fitted runs.
    covariance : ndarray, shape (p, p) or None
        Covariance of `parameters` behind the headline interval.
    df : float or None
        Degrees of freedom that go with it.
    draws : ndarray, shape (n_draws, p) or None
        Seed-bootstrap parameters, one row a draw; NaN where a draw could not be fitted.
    jackknife : DataFrame or None
        One row per deleted run: run_id, batch_size and one column a parameter (a, alpha).
    """

    clock: str
    stratum: Mapping[str, Any]
    targets: tuple[float, ...]
    law: PowerLaw
    status: str
    exponent: Exponent | None
    bound: Bound | None
    parameters: Floats | None
    sigma: float | None
    coefficient: float | None
    loglik: float | None
    aicc: float | None
    cells: tuple[Cell, ...]
    lack_of_fit: LackOfFit | None
    influence: tuple[Influence, ...]
    sensitivity: Mapping[str, float | None]
    notes: tuple[Note, ...]
    events: pd.DataFrame = field(repr=False)
    center: float = 0.0
    covariance: Floats | None = field(default=None, repr=False)
    df: float | None = None
    draws: Floats | None = field(default=None, repr=False)
    jackknife: pd.DataFrame | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Short name for tables and legends: clock and target."""
        target = f" to {self.targets[0]:g}" if self.targets else ""
        return f"{self.clock}{target}"

    @property
    def label(self) -> str:
        """One-line label of the stratum, from what it says."""
        return ", ".join(f"{key}={_short(value)}" for key, value in self.stratum.items())

    @property
    def used(self) -> pd.DataFrame:
        """The events that entered the headline fit."""
        return self.events[self.events["used"].to_numpy(dtype=bool)]

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Batch sizes of the headline fit, ascending."""
        return tuple(cell.batch_size for cell in self.cells if cell.in_headline)

    def count(self, censoring: str) -> int:
        """Return how many runs of the headline are known as `censoring` (exact, interval, ...)."""
        return int((self.used["censoring"] == censoring).sum())

    def predict(self, batch_size: Sequence[float] | Floats, *, level: float = 0.95) -> pd.DataFrame:
        """Predict the median responses at each batch size, with a band.

        The band is ``exp(mu +- t * sqrt(x' V x))`` with V the covariance behind the headline
        interval and t on its degrees of freedom: pointwise, for the median over seeds, not for a
        new seed.

        Parameters
        ----------
        batch_size : sequence of float, shape (n,)
            Rollout batch sizes, responses.
        level : float
            Confidence level.

        Returns
        -------
        DataFrame
            batch_size, responses, lower, upper, extrapolated (outside the fitted sizes). All
            numbers are missing when the fit did not converge.
        """
        sizes = np.asarray(batch_size, dtype=np.float64)
        out = pd.DataFrame({"batch_size": sizes})
        fitted = self.batch_sizes
        inside = (sizes >= min(fitted, default=np.inf)) & (sizes <= max(fitted, default=-np.inf))
        if self.parameters is None or self.status != "converged":
            return out.assign(responses=np.nan, lower=np.nan, upper=np.nan, extrapolated=~inside)
        design = self.law.design(sizes, center=self.center)
        mean = design @ self.parameters[: design.shape[1]]
        if self.covariance is None:
            half = np.full_like(mean, np.nan)
        else:
            variance = np.einsum("np,pq,nq->n", design, self.covariance, design)
            df = np.inf if self.df is None else self.df
            half = stats.t.ppf(0.5 + level / 2, df) * np.sqrt(np.maximum(variance, 0.0))
        return out.assign(
            responses=np.exp(mean),
            lower=np.exp(mean - half),
            upper=np.exp(mean + half),
            extrapolated=~inside,
        )

    def summary(self) -> pd.DataFrame:
        """Return a one-row table: stratum, counts, exponent, interval, status."""
        return pd.DataFrame([self.row()])

    def row(self) -> dict[str, Any]:
        """Return the row of `summary` as a dict (None where absent)."""
        exponent, bound = self.exponent, self.bound
        return {
            "clock": self.clock,
            "target": self.targets[0] if self.targets else None,
            **self.stratum,
            "status": self.status,
            "exponent": exponent.estimate if exponent else None,
            "se": exponent.se if exponent else None,
            "lower": exponent.lower if exponent else (bound.lower if bound else None),
            "upper": exponent.upper if exponent else (bound.upper if bound else None),
            "bound": bound.value if bound else None,
            "method": exponent.method if exponent else None,
            "coefficient": number(self.coefficient),
            "sigma": number(self.sigma),
            "runs": len(self.used),
            "events": len(self.used) - self.count("right"),
            "right_censored": self.count("right"),
            "batch_sizes": len(self.batch_sizes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object FIT of DESIGN section 8."""
        return {
            "clock": self.clock,
            "stratum": {key: plain(value) for key, value in self.stratum.items()},
            "targets": list(self.targets),
            "law": self.law.name,
            "status": self.status,
            "exponent": self.exponent.to_dict() if self.exponent else None,
            "bound": self.bound.to_dict() if self.bound else None,
            "coefficient": number(self.coefficient),
            "sigma": number(self.sigma),
            "loglik": number(self.loglik),
            "aicc": number(self.aicc),
            "n_runs": len(self.used),
            "n_seeds": int(self.used["seed"].nunique()),
            "n_batch_sizes": len(self.batch_sizes),
            "n_exact": self.count("exact"),
            "n_interval": self.count("interval"),
            "n_left": self.count("left"),
            "n_right": self.count("right"),
            "batch_sizes": list(self.batch_sizes),
            "cells": [cell.to_dict() for cell in self.cells],
            "lack_of_fit": self.lack_of_fit.to_dict() if self.lack_of_fit else None,
            "influence": [item.to_dict() for item in self.influence],
            "sensitivity": {key: number(value) for key, value in self.sensitivity.items()},
            "notes": [note.message for note in self.notes],
        }


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class FitRef:
    """Which fit a comparison is about: clock, stratum and targets.

    Parameters
    ----------
    clock : str
        Clock.
    stratum : dict
        Stratum columns.
    targets : tuple of float
        Targets.
    """

    clock: str
    stratum: Mapping[str, Any]
    targets: tuple[float, ...]

    @classmethod
    def of(cls, fit: ClockFit) -> FitRef:
        """Return the reference to `fit`."""
        return cls(fit.clock, fit.stratum, fit.targets)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "clock": self.clock,
            "stratum": {key: plain(value) for key, value in self.stratum.items()},
            "targets": list(self.targets),
        }


@dataclass(frozen=True)
class Equivalence:
    """Verdict of two one-sided tests: is the exponent zero within a margin.

    Parameters
    ----------
    fit : FitRef
        The fit tested.
    margin : float
        The exponent counts as zero within +-margin.
    estimate, lower, upper : float or None
        Exponent and its interval at `level`.
    level : float
        0.90: two one-sided tests at 5 %.
    smallest_margin : float or None
        The smallest margin that these data would support.
    verdict : {"supported", "rejected", "inconclusive", "not_identified"}
        Interval inside, wholly outside, or neither.
    factor : float or None
        ``(largest B / smallest B)**margin``: the margin as a factor over the range of B.
    runs_per_cell : int or None
        Runs per batch size that would settle an inconclusive verdict with 80 % power if the
        exponent is zero; None when not inconclusive or not known.
    """

    fit: FitRef
    margin: float
    estimate: float | None
    lower: float | None
    upper: float | None
    level: float
    smallest_margin: float | None
    verdict: str
    factor: float | None = None
    runs_per_cell: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            **self.fit.to_dict(),
            "margin": self.margin,
            "estimate": number(self.estimate),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "smallest_margin": number(self.smallest_margin),
            "verdict": self.verdict,
            "factor": number(self.factor),
            "runs_per_cell": self.runs_per_cell,
        }


@dataclass(frozen=True)
class Difference:
    """Exponent of `a` minus exponent of `b`.

    Parameters
    ----------
    a, b : FitRef
        The two fits.
    estimate, se, lower, upper : float or None
        Difference and its interval.
    level : float
        Confidence level.
    method : str
        ``"paired jackknife-t"`` (shared runs resampled together) or ``"independent jackknife-t"``.
    percentile : tuple of float or None
        The same from the bootstrap draws.
    p : float or None
        Two-sided p-value of a zero difference.
    differs : tuple of str
        Stratum columns that differ between `a` and `b`.
    batch_sizes : tuple of int
        The batch sizes that both used.
    """

    a: FitRef
    b: FitRef
    estimate: float | None
    se: float | None
    lower: float | None
    upper: float | None
    level: float
    method: str
    percentile: Pair | None = None
    p: float | None = None
    differs: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "estimate": number(self.estimate),
            "se": number(self.se),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "method": self.method,
            "percentile": _pair(self.percentile),
            "p": number(self.p),
            "differs": list(self.differs),
            "batch_sizes": list(self.batch_sizes),
        }


@dataclass(frozen=True)
class SafeWindow:
    """How many times the responses to the target fit before failure, within one stratum.

    Parameters
    ----------
    stratum : dict
        Stratum columns.
    target : float
        Target accuracy.
    level : float
        Confidence level.
    batch_size, ratio, lower, upper : tuple of float
        Median failure responses over median responses to target at each batch size, pointwise.
    exponent : Difference
        Failure minus learning exponent: how the window scales with B.
    """

    stratum: Mapping[str, Any]
    target: float
    level: float
    batch_size: tuple[float, ...]
    ratio: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    exponent: Difference

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        rows = zip(self.batch_size, self.ratio, self.lower, self.upper, strict=True)
        return {
            "stratum": {key: plain(value) for key, value in self.stratum.items()},
            "target": self.target,
            "level": self.level,
            "ratios": [
                {"batch_size": b, "ratio": number(r), "lower": number(lo), "upper": number(hi)}
                for b, r, lo, hi in rows
            ],
            "exponent": self.exponent.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class TwoClocks:
    """Everything that `twoclock fit` found.

    Parameters
    ----------
    version : str
        twoclock's version.
    settings : dict
        Every setting of the analysis, plain values.
    runs : DataFrame
        The `runs` table of what was read (empty for an events table).
    steps, evals : DataFrame
        The `steps` and `evals` tables (for plots).
    events : DataFrame
        All events of both clocks on native grids, every run.
    marks : DataFrame
        Extra marks of the failure rule for plots (run_id, kind, responses, value).
    learning, failure : tuple of ClockFit
        One per stratum and target; one per stratum.
    equivalence : tuple of Equivalence
        Failure clocks, each tested for independence of B.
    differences : tuple of Difference
        Between strata and between the clocks of one stratum.
    rise : tuple of Difference
        Highest against lowest base_lr on one set of batch sizes.
    safe_windows : tuple of SafeWindow
        Within strata where both clocks have converged.
    published : DataFrame
        The published exponents shown beside ours.
    notes : tuple of Note
        All warnings, those of reading first.
    refused : tuple of Refusal
        What was not used.
    files : tuple of (str, str)
        Path and SHA-256 of every file read.
    """

    version: str
    settings: Mapping[str, Any]
    runs: pd.DataFrame = field(repr=False)
    steps: pd.DataFrame = field(repr=False)
    evals: pd.DataFrame = field(repr=False)
    events: pd.DataFrame = field(repr=False)
    marks: pd.DataFrame = field(repr=False)
    learning: tuple[ClockFit, ...]
    failure: tuple[ClockFit, ...]
    equivalence: tuple[Equivalence, ...]
    differences: tuple[Difference, ...]
    rise: tuple[Difference, ...]
    safe_windows: tuple[SafeWindow, ...]
    published: pd.DataFrame
    notes: tuple[Note, ...]
    refused: tuple[Refusal, ...]
    files: tuple[tuple[str, str], ...]
    n_read: int
    n_used: int

    @property
    def fits(self) -> tuple[ClockFit, ...]:
        """All fits, learning first."""
        return self.learning + self.failure

    @property
    def thin(self) -> bool:
        """Whether a headline rests on one batch size, or on one run per batch size."""
        return any(
            len(fit.batch_sizes) < 2 or max((c.n_runs for c in fit.cells), default=0) < 2
            for fit in self.fits
        )

    def summary(self) -> pd.DataFrame:
        """Return one row per fit (see `ClockFit.row`)."""
        return pd.DataFrame([fit.row() for fit in self.fits])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON contract of DESIGN section 8."""
        return {
            "twoclock": self.version,
            "settings": dict(self.settings),
            "runs": {
                "read": self.n_read,
                "used": self.n_used,
                "refused": [item.to_dict() for item in self.refused],
            },
            "learning": [fit.to_dict() for fit in self.learning],
            "failure": [fit.to_dict() for fit in self.failure],
            "equivalence": [item.to_dict() for item in self.equivalence],
            "differences": [item.to_dict() for item in self.differences],
            "rise": [item.to_dict() for item in self.rise],
            "safe_windows": [item.to_dict() for item in self.safe_windows],
            "warnings": [note.to_dict() for note in self.notes],
        }
