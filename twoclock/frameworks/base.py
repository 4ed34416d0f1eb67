"""What a framework is to us: a table of its names, settings and units, and little else.

A description says which keys its logs hold through all renames, which configuration names hold the
facts that counting needs, what one step is and whether a validation comes before or after the
update of its step. Where a framework behaves in a way that no table can say, its description names
a small function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from twoclock.frameworks.config import Flat
from twoclock.frameworks.patterns import matching

Source = Literal["config", "log", "derived", "user"]

Tiers = tuple[tuple[str, ...], ...]
"""Keys in tiers, best first: two different keys within one tier are ambiguous."""


Pair = tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.float64]]
"""A column of a log: row numbers (ascending) and values, of equal length."""


class Fact(NamedTuple):
    """A value of a `runs` column (or of a framework's own setting) and where it came from."""

    value: Any
    source: Source


Facts = dict[str, Fact]


def as_written(value: Any) -> Any:
    """Return the value; null says nothing."""
    return value


def limit(value: Any) -> Any:
    """Return a bound: null, false and the words for "none" say that there is no such bound."""
    words = ("none", "null", "", "false")
    if value is None or value is False or (isinstance(value, str) and value.lower() in words):
        return math.inf
    return value


@dataclass(frozen=True)
class Setting:
    """Where a configuration says one fact.

    Parameters
    ----------
    fact : str
        A `runs` column, or a helper of `twoclock.runs.facts`.
    names : tuple of str
        Dotted names in the configuration, all spellings; the first that says something counts.
    read : callable
        Turns the written value into the fact; None: it says nothing.

    Examples
    --------
    >>> Setting("clip_high", ("actor.eps_clip_high", "eps_clip_high"), limit).find(
    ...     {"eps_clip_high": None})
    Fact(value=inf, source='config')
    """

    fact: str
    names: tuple[str, ...]
    read: Callable[[Any], Any] = as_written

    def find(self, config: Flat) -> Fact | None:
        """Return the fact that a configuration says, None when it says nothing."""
        for name in self.names:
            value = self.read(config[name]) if name in config else None
            if value is not None:
                return Fact(value, "config")
        return None


@dataclass(frozen=True)
class Framework:
    """One training framework.

    Parameters
    ----------
    name : str
        Shown in tables; a stratum column.
    writes : tuple of tuple of str
        Groups of keys (``*`` for any text): a log that has all of one group is of this framework.
    configures : tuple of tuple of str
        The same for names of a configuration.
    steps : mapping of str to int
        Keys that count steps, best first, and the step of the first training row under each.
    step_counts : {"rollout", "optimizer"}
        What one step is.
    schedule_counts : {"rollout", "optimizer"}
        What the steps of its learning-rate schedule (and so of the warm-up) are.
    validates : {"after", "before"}
        Is a validation at step s measured after the update of that step, or before it?
    synchronous : bool, optional
        Does it sample and train in turn? None: not known; False: asynchronous, so that clipping can
        act with one optimizer step a rollout too.
    columns : mapping of str to tuple of str
        Keys of each `steps` column through all renames, best first.
    accuracy, scores : tiers of str
        Keys of validations: accuracies, and rewards that are scores.
    never_validation : tuple of str
        Keys that look like validations and are statistics of the training.
    responses_total, responses_each : tuple of str
        Keys of the responses generated so far, and in one rollout alone.
    needs : tuple of str
        Keys that only `arrange` reads.
    settings : tuple of Setting
        Where its configuration says the facts.
    defaults : mapping of str to object
        Facts that stand when the configuration is there and does not name them (source "derived").
    several_rows : bool
        Does it log several rows of one rollout, so that a repeated step means nothing?
    plain : callable
        Turns a key of a sink into the key of the description (``train/reward`` into ``reward``).
    complete : callable, optional
        ``complete(facts, config)`` adds what no table can say.
    arrange : callable, optional
        ``arrange(columns, rows, facts)`` returns columns to add or to put in the place of others,
        where rows stand on several clocks; each column is (row numbers, values).
    """

    name: str
    writes: Tiers = ()
    configures: Tiers = ()
    steps: Mapping[str, int] = field(default_factory=dict)
    step_counts: Literal["rollout", "optimizer"] = "rollout"
    schedule_counts: Literal["rollout", "optimizer"] = "rollout"
    validates: Literal["after", "before"] = "after"
    synchronous: bool | None = True
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accuracy: Tiers = ()
    scores: Tiers = ()
    never_validation: tuple[str, ...] = ()
    responses_total: tuple[str, ...] = ()
    responses_each: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    several_rows: bool = False
    plain: Callable[[str], str] = str
    complete: Callable[[Facts, Flat], None] | None = None
    arrange: Callable[[Mapping[str, Pair], int, Facts], Mapping[str, Pair]] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys and patterns that something is read from."""
        return (
            *self.steps,
            *(key for keys in self.columns.values() for key in keys),
            *(key for tier in (*self.accuracy, *self.scores) for key in tier),
            *self.responses_total,
            *self.responses_each,
            *self.needs,
        )

    def wrote(self, keys: Collection[str]) -> bool:
        """Tell whether a log with these keys is of this framework."""
        keys = {*keys, *map(self.plain, keys)}
        return any(all(matching([mark], keys) for mark in group) for group in self.writes)

    def configured(self, config: Flat) -> bool:
        """Tell whether a configuration is of this framework."""
        return any(all(matching([mark], config) for mark in group) for group in self.configures)

    def facts_of(self, config: Flat) -> Facts:
        """Return the facts that a configuration says, with defaults for those it does not name."""
        facts: Facts = {}
        for setting in self.settings:
            found = setting.find(config)
            if found is not None:
                facts.setdefault(setting.fact, found)
        if config:
            for name, value in self.defaults.items():
                facts.setdefault(name, Fact(value, "derived"))
        if self.complete is not None:
            self.complete(facts, config)
        return facts
