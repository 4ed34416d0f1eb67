"""Settings of an analysis: every choice, checked once, as plain values for `settings.toml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twoclock.errors import SettingsError
from twoclock.events.failure import Failure
from twoclock.events.target import CROSSINGS
from twoclock.fit.settings import FitSettings
from twoclock.laws import LAWS


@dataclass(frozen=True)
class Settings:
    """Every choice of `analyse`.

    Parameters
    ----------
    targets : tuple of float
        Target accuracies; empty: a default per task, model and metric.
    task_targets : mapping of str to float
        Targets of single tasks, instead of `targets`.
    crossing : {"isotonic", "first", "sustain2"}
        How a noisy curve crosses a target.
    failure : Failure
        The rule that says when a run has failed.
    include_clipped : bool
        Let runs in which clipping can act feed the failure clock.
    by, pool : tuple of str
        Columns that split in addition; stratum columns that do not split.
    select : str or None
        Expression that keeps runs (see `twoclock.select`).
    draws, level, sigma, error, interval, random, resample
        See `FitSettings`.
    seed : int
        Seed of the one generator behind all resampling.
    margin : float
        Equivalence margin of the failure exponent.
    law : str
        Name of the law.
    reference_batch : int or None
        B0 of base_lr; the smallest B by default.
    lr_rule : float or None
        gamma of ``lr = base_lr * (B/B0)**gamma``; detected by default.

    Raises
    ------
    SettingsError
        A value is outside its range.

    Examples
    --------
    >>> Settings(level=0.9).fit.level
    0.9
    >>> Settings(margin=-1)
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: margin == -1, must be > 0
    """

    targets: tuple[float, ...] = ()
    task_targets: Mapping[str, float] = field(default_factory=dict)
    crossing: str = "isotonic"
    failure: Failure = field(default_factory=Failure)
    include_clipped: bool = False
    by: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    select: str | None = None
    draws: int = 10_000
    level: float = 0.95
    seed: int = 0
    margin: float = 0.10
    law: str = "power"
    sigma: str = "auto"
    error: str = "lognormal"
    interval: str = "jackknife-t"
    random: str = "none"
    resample: str = "cells"
    reference_batch: int | None = None
    lr_rule: float | None = None

    def __post_init__(self) -> None:
        _one_of("crossing", self.crossing, CROSSINGS)
        _one_of("law", self.law, tuple(LAWS))
        for name in ("margin", "reference_batch"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                msg = f"{name} == {value}, must be > 0"
                raise SettingsError(msg)
        if self.seed < 0:
            msg = f"seed == {self.seed}, must be >= 0"
            raise SettingsError(msg)
        _ = self.fit  # checks what the estimator needs

    @property
    def fit(self) -> FitSettings:
        """The part that the estimator needs."""
        return FitSettings(
            level=self.level,
            draws=self.draws,
            sigma=self.sigma,
            error=self.error,
            interval=self.interval,
            random=self.random,
            resample=self.resample,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None is left out, since TOML has no null."""
        out: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Failure):
                value = dataclasses.asdict(value)
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            if value is not None:
                out[item.name] = value
        return out

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "settings") -> Settings:
        """Return the settings that `to_dict` wrote.

        Raises
        ------
        SettingsError
            An unknown name, or a value outside its range.

        Examples
        --------
        >>> Settings.from_dict(Settings(targets=(0.5,)).to_dict()) == Settings(targets=(0.5,))
        True
        """
        names = {item.name for item in dataclasses.fields(cls)}
        rules = {item.name for item in dataclasses.fields(Failure)}
        known = {"settings": (values, names), "failure": (values.get("failure", {}), rules)}
        for part, (given, allowed) in known.items():
            for name in given:
                if name not in allowed:
                    msg = f"{where}: unknown {part} {name!r}; known: {', '.join(sorted(allowed))}"
                    raise SettingsError(msg)
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name != "failure"
        }
        try:
            return cls(**plain, failure=Failure(**values.get("failure", {})))
        except TypeError as err:
            msg = f"{where}: a value has the wrong type: {err}"
            raise SettingsError(msg) from None


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        msg = f"{name} == {value!r}, must be one of {', '.join(allowed)}"
        raise SettingsError(msg)
