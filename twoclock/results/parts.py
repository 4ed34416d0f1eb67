"""The parts of a `ClockFit`: exponent, bound, cells, lack of fit, curvature, influence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclock.results.numbers import Pair, number, pair, plain


@dataclass(frozen=True)
class MethodInterval:
    """The interval of one method, or why it has none.

    Parameters
    ----------
    method : str
        Name, as ``--interval`` takes it.
    estimate : float or None
        Centre: the exponent, or the slope of the cell means.
    se : float or None
        Standard error of the method.
    lower, upper : float or None
        Ends; infinite where the method does not bound that side.
    level : float
        Confidence level.
    df : float or None
        Degrees of freedom of t.
    why : str
        Why there are no ends; empty where there are.
    """

    method: str
    estimate: float | None
    se: float | None
    lower: float | None
    upper: float | None
    level: float
    df: float | None = None
    why: str = ""

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite."""
        return all(end is not None and math.isfinite(end) for end in (self.lower, self.upper))

    def covers(self, value: float) -> bool:
        """Return whether `value` lies between the ends."""
        return (
            self.lower is not None and self.upper is not None and self.lower <= value <= self.upper
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "method": self.method,
            "estimate": number(self.estimate),
            "se": number(self.se),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "df": number(self.df),
            "why": self.why or None,
        }


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
        How the headline interval was made: a name that ``--interval`` takes,
        ``"jackknife-t, pooled over cells"``, ``"jackknife-t over seed numbers"``, ``"profile-t"``
        where no jackknife exists, ``"degenerate"``.
    percentile, profile : tuple of float or None
        Seed-bootstrap percentile interval; t-calibrated profile-likelihood interval (an infinite
        end: not bounded on that side).
    df : float or None
        Degrees of freedom of the t quantile.
    model_se : float or None
        Standard error from the observed information (no small-sample factor).
    methods : tuple of MethodInterval
        Every method by name, at `level`.
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
    methods: tuple[MethodInterval, ...] = ()

    def by(self, method: str) -> MethodInterval:
        """Return the interval of a method.

        Raises
        ------
        KeyError
            There is no such method, or the fit is degenerate and has none.
        """
        for item in self.methods:
            if item.method == method:
                return item
        raise KeyError(method)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "estimate": number(self.estimate),
            "se": number(self.se),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "method": self.method,
            "percentile": pair(self.percentile),
            "profile": pair(self.profile),
            "model_se": number(self.model_se),
            "df": number(self.df),
            "methods": [item.to_dict() for item in self.methods],
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
    profile : tuple of float or None
        For a set: the t-calibrated profile interval around it, which allows for seed noise (an
        infinite end: not bounded on that side); None where it does not exist.
    profile_level : float or None
        Its confidence level.
    """

    side: str
    value: float | None
    lower: float | None
    upper: float | None
    level: float
    profile: Pair | None = None
    profile_level: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "side": self.side,
            "value": number(self.value),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "profile": pair(self.profile),
            "profile_level": number(self.profile_level),
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
        F statistic (or the likelihood-ratio one divided by df1); infinite (null in JSON) where the
        runs of each batch size agree exactly and the batch sizes are off the law.
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
class Curvature(LackOfFit):
    """Test of the law against an added square of log B: it needs no replicates, but four sizes.

    Parameters
    ----------
    statistic, df1, df2, p : float
        As in `LackOfFit`.
    pattern : str
        Signs of the mean residual of each batch size, ascending (``"+ - - +"``).
    """

    pattern: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {**super().to_dict(), "pattern": self.pattern}


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
