"""The results of comparing fits: equivalence to zero, differences, the safe window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclock.results.clock_fit import ClockFit
from twoclock.results.numbers import Pair, number, pair, plain


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
            "percentile": pair(self.percentile),
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
