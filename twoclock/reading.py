"""Reading options: what a user can say about logs that do not tell everything themselves.

The same options stand on every command. This module checks them and does not read any file.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from twoclock.errors import SettingsError
from twoclock.schema import EVALS, EVENTS, RUNS, STEPS

MAPPABLE = tuple(
    dict.fromkeys(
        ("step", "status", *STEPS.names, *EVALS.names, *EVENTS.names, *RUNS.names),
    )
)
"""Columns that ``--map COLUMN=KEY`` may name: the tables' own, and ``step``."""

SCALABLE = tuple(c.name for t in (STEPS, EVALS) for c in t.columns if c.kind == "float")


@dataclass(frozen=True)
class ReadOptions:
    """Facts and choices that the user gives for every log that is read.

    Parameters
    ----------
    map : mapping of str to tuple of str
        Aliases in order: table column (or ``step``) to keys of the log.
    scale : mapping of str to float
        Factors that the values of a column are multiplied by (``{"accuracy": 0.5}``).
    val_n : int, optional
        Problems times samples of one validation.
    batch_size : int, optional
        Responses (never prompts) per rollout.
    group_size : int, optional
        Responses per prompt.
    lr : float, optional
        Peak learning rate.
    seed : int, optional
        Seed of the run (``--run-seed``).
    world_size : int, optional
        Training processes; a GPU that only samples does not count.
    on_reset : {None, "offset", "restart"}
        What to do when the step counter falls back to its start: refuse the run, go on counting
        from where it was, or keep only what follows.
    duplicates : {"last", "mean"}
        Which value a step has that was logged several times.
    max_download : float, optional
        GiB that are copied at most from addresses on other machines.

    Examples
    --------
    >>> ReadOptions(batch_size=512).facts()
    {'batch_size': 512}
    >>> ReadOptions(map={"acuracy": ("a",)})
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: map: no column 'acuracy'; did you mean 'accuracy'?
    """

    map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    val_n: int | None = None
    batch_size: int | None = None
    group_size: int | None = None
    lr: float | None = None
    seed: int | None = None
    world_size: int | None = None
    on_reset: Literal["offset", "restart"] | None = None
    duplicates: Literal["last", "mean"] = "last"
    max_download: float | None = None

    def __post_init__(self) -> None:
        check_names("map", self.map, MAPPABLE)
        check_names("scale", self.scale, SCALABLE)
        for name, factor in self.scale.items():
            if not (math.isfinite(factor) and factor > 0):
                msg = f"scale: {name} is {factor}, must be a finite number above 0"
                raise SettingsError(msg)
        for name in ("val_n", "batch_size", "group_size", "lr", "world_size", "max_download"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                msg = f"{name} is {value}, must be above 0"
                raise SettingsError(msg)
        if self.seed is not None and self.seed < 0:
            msg = f"seed is {self.seed}, must be 0 or more"
            raise SettingsError(msg)
        _check_choice("on_reset", self.on_reset, (None, "offset", "restart"))
        _check_choice("duplicates", self.duplicates, ("last", "mean"))

    def facts(self) -> dict[str, Any]:
        """Return the `runs` columns (and ``world_size``) that the user gave."""
        given = {
            "batch_size": self.batch_size,
            "group_size": self.group_size,
            "lr": self.lr,
            "seed": self.seed,
            "eval_size": self.val_n,
            "world_size": self.world_size,
        }
        return {name: value for name, value in given.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, for `settings.toml`."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Mapping):
                value = {k: list(v) if isinstance(v, tuple) else v for k, v in value.items()}
            if value not in (None, {}, "last"):
                out[item.name] = value
        return out


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise SettingsError for the first name of `given` that is not among `known`.

    Examples
    --------
    >>> check_names("runs.yaml", ["seeds"], ["seed", "lr"])
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: runs.yaml: no column 'seeds'; did you mean 'seed'?
    """
    known = tuple(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            msg = f"{what}: no column {name!r}; {hint}"
            raise SettingsError(msg)


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        names = ", ".join(repr(c) for c in choices)
        msg = f"{name} must be one of {names}; not {value!r}"
        raise SettingsError(msg)
