"""Settings of a fit, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from twoclock.errors import SettingsError
from twoclock.fit.errorlaws import ERROR_LAWS
from twoclock.fit.resample import RESAMPLING

SIGMA = ("auto", "constant", "loglinear")
FLOOR = ("exclude", "warn")
INTERVALS = ("jackknife-t", "percentile", "bootstrap-t", "profile-t", "cell-means", "model")
"""Methods of the headline interval, by name."""
RANDOM = ("none", "cell")
"""Scatter beyond the seeds: none, or an effect that the runs of one batch size share."""


@dataclass(frozen=True)
class FitSettings:
    """How `twoclock.fit.fit_clock` estimates.

    Parameters
    ----------
    level : float
        Confidence level, between 0.5 and 1.
    draws : int
        Seed-bootstrap draws; 0 leaves the bootstrap out, under 100 give no percentile interval.
    sigma : {"auto", "constant", "loglinear"}
        Spread of log R between seeds: the same for every B, or log sigma linear in log B.
        ``auto``: constant, unless at least 10 % of the runs are right-censored, three cells have
        two seeds, and the log-linear fit has the lower AICc.
    resample : {"cells", "seeds"}
        Resample runs within batch sizes, or seed numbers over all of them (crossed designs).
    floor_rollouts : float
        Cells whose median rollouts to the event are fewer are ``floor_bound``.
    floor : {"exclude", "warn"}
        Leave floor-bound cells out of the headline where three sizes remain, or only warn.
    loo : bool
        Refit without each run and batch size (influence; the jackknife needs it).
    error : {"lognormal", "loglogistic", "weibull"}
        Law of the responses of seeds around the median law.
    interval : {"jackknife-t", "percentile", "bootstrap-t", "profile-t", "cell-means", "model"}
        Method of the headline interval.
    random : {"none", "cell"}
        ``cell``: batch sizes scatter about the law by more than their seeds do, by a normal effect
        that the runs of a batch size share.

    Raises
    ------
    SettingsError
        A value is outside its range.

    Examples
    --------
    >>> FitSettings().level
    0.95
    >>> FitSettings(level=95)
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: level == 95, must be between 0.5 and 1 (0.95 is 95 %)
    """

    level: float = 0.95
    draws: int = 10_000
    sigma: str = "auto"
    resample: str = "cells"
    floor_rollouts: float = 5.0
    floor: str = "exclude"
    loo: bool = True
    error: str = "lognormal"
    interval: str = "jackknife-t"
    random: str = "none"

    def __post_init__(self) -> None:
        """Check every value."""
        if not 0.5 <= self.level < 1.0:
            msg = f"level == {self.level}, must be between 0.5 and 1 (0.95 is 95 %)"
            raise SettingsError(msg)
        if self.draws < 0:
            msg = f"draws == {self.draws}, must be >= 0"
            raise SettingsError(msg)
        if not self.floor_rollouts >= 0.0:
            msg = f"floor_rollouts == {self.floor_rollouts}, must be >= 0"
            raise SettingsError(msg)
        _one_of("sigma", self.sigma, SIGMA)
        _one_of("resample", self.resample, RESAMPLING)
        _one_of("floor", self.floor, FLOOR)
        _one_of("error", self.error, tuple(ERROR_LAWS))
        _one_of("interval", self.interval, INTERVALS)
        _one_of("random", self.random, RANDOM)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        msg = f"{name} == {value!r}, must be one of {', '.join(allowed)}"
        raise SettingsError(msg)
