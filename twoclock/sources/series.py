"""Columns that stand beside each other as lists: which steps belong to which values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from twoclock.notes import Note
from twoclock.sources.columns import is_wanted

_STEP = re.compile(
    r"(?:.*[_/ -])?(?:global[_ -]?)?(?:steps?|iterations?|iters?|rollouts?|updates?|batch|batches"
    r"|step[_ -]?nums?)",
    re.IGNORECASE,
)
_STEP_OF = re.compile(r"(?:steps?|iterations?|iters?)[_/ -].*", re.IGNORECASE)
_EPOCH = re.compile(r"(?:.*[_/ -])?epochs?", re.IGNORECASE)


class Series(NamedTuple):
    """One list of numbers.

    Parameters
    ----------
    key : str
        Where it lies.
    values : sequence of float
        As written; NaN for null.
    steps : sequence of float, optional
        Where each was measured, in a list of pairs.
    """

    key: str
    values: Sequence[float]
    steps: Sequence[float] | None = None

    @classmethod
    def of(cls, key: str, value: Sequence[Any]) -> Series | None:
        """Return the series in a list of numbers, or of pairs of a step and a number.

        Examples
        --------
        >>> Series.of("acc", [0.1, None])
        Series(key='acc', values=[0.1, nan], steps=None)
        >>> Series.of("acc", [[0, 0.1], [50, 0.6]])
        Series(key='acc', values=[0.1, 0.6], steps=[0, 50])
        >>> Series.of("acc", ["a"]) is Series.of("acc", [[1, 2], [1, 3]]) is None
        True
        """
        plain = _numbers(value)
        if plain is not None and key:
            return cls(key, plain)
        pairs = [item for item in value if isinstance(item, list) and len(item) == 2]
        if not key or not value or len(pairs) < len(value):
            return None
        steps, values = (_numbers([pair[i] for pair in pairs]) for i in (0, 1))
        if steps is None or values is None or not _counts(steps):
            return None
        return cls(key, values, steps)


def _numbers(value: Sequence[Any]) -> list[float] | None:
    if not value or any(
        isinstance(item, bool) or not (item is None or isinstance(item, int | float))
        for item in value
    ):
        return None
    return [math.nan if item is None else item for item in value]


def _counts(steps: Sequence[float]) -> bool:
    """Tell whether numbers count up from 0 or more in whole numbers."""
    whole = all(math.isfinite(step) and step >= 0 and step == int(step) for step in steps)
    return whole and all(one < two for one, two in pairwise(steps))


def placed(
    series: Sequence[Series], notes: list[Note], where: str, named: Collection[str] = ()
) -> list[list[tuple[float, dict[str, Any]]]]:
    """Return tables of (step, row): series of one list of steps make one.

    Parameters
    ----------
    series : sequence of Series
        All of a document.
    notes : list of Note
        What is counted, or left out since nothing tells where it stands, is added here.
    where : str
        File, for the remarks.
    named : collection of str
        Keys that the user named, which are kept beside the steps.
    """
    steps = [s for s in series if s.steps is None and _is_steps(s)]
    tables: dict[tuple[float, ...], dict[str, Sequence[float]]] = {}
    loose: dict[int, dict[str, Sequence[float]]] = {}
    for item in series:
        if any(item is step for step in steps) and item.key not in named:
            continue
        own = item.steps if item.steps is not None else _steps_for(item, steps)
        columns = loose.setdefault(len(item.values), {}) if own is None else (
            tables.setdefault(tuple(own), {})
        )  # fmt: skip
        columns[item.key] = item.values
    known = [n for n, columns in loose.items() if _known(columns, named)]
    if known and not tables:
        longest = max(known, key=lambda length: (len(loose[length]), length))
        columns = loose.pop(longest)
        message = (
            f"{longest} entries without steps are counted 1, 2, 3; if they stand elsewhere, write "
            "their steps beside them"
        )
        notes.append(Note("counted_entries", message, where=where, count=longest))
        tables[tuple(range(1, longest + 1))] = columns
    lost = [key for columns in loose.values() for key in columns]
    if lost and tables:
        message = f"lists without steps of their length are left out: {', '.join(lost[:6])}"
        notes.append(Note("unplaced_lists", message, where=where, count=len(lost)))
    return [_table(at, columns) for at, columns in tables.items()]


def _known(columns: Collection[str], named: Collection[str]) -> bool:
    """Tell whether lists of one length are a history: at least two, one of them of a known key."""
    return any(key in named for key in columns) or (
        len(columns) > 1 and any(is_wanted(key) for key in columns)
    )


def _is_steps(series: Series) -> bool:
    name = series.key.rpartition("/")[2]
    told = _STEP.fullmatch(name) or _STEP_OF.fullmatch(name)
    return bool(told or _EPOCH.fullmatch(name)) and _counts(series.values)


def _steps_for(series: Series, steps: Sequence[Series]) -> Sequence[float] | None:
    """Return the steps of the same length whose key shares most with the one of the series."""
    fitting = [step for step in steps if len(step.values) == len(series.values)]
    if not fitting:
        return None
    words = set(_words(series.key))
    best = max(
        fitting,
        key=lambda step: (
            step.key.rpartition("/")[0] == series.key.rpartition("/")[0],
            len(words & set(_words(step.key))),
            _EPOCH.fullmatch(step.key.rpartition("/")[2]) is None,
            -len(_words(step.key)),
        ),
    )
    return best.values


def _words(key: str) -> list[str]:
    return [word for word in re.split(r"[_/ .-]+", key.lower()) if word]


def _table(
    at: Sequence[float], columns: dict[str, Sequence[float]]
) -> list[tuple[float, dict[str, Any]]]:
    return [
        (step, {"step": step, **{key: values[i] for key, values in columns.items()}})
        for i, step in enumerate(at)
    ]
