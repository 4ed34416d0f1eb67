"""Rows out of single points: sinks that write each value by itself, with its key and step.

Points that share a step and the first part of their key are one row, since trainers count
different things in different groups of keys. Rows stand in order of their steps; where the steps
of a key fall, the points stand in the order in which they came, so that a resumed run shows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclock.errors import SourceError
from twoclock.sources.columns import is_wanted
from twoclock.sources.rows import MAX_KEYS, Floats, Ints, Rows, Stretches, Values

STEP = "step"
"""Key under which the step of a point stands, unless the run logs one itself."""

MAX_STEP = 2**63 - 1


class Series:
    """The points of one key as they came.

    Parameters
    ----------
    order_code : str
        Type code of the numbers that order points over keys.
    """

    __slots__ = ("order", "step", "value")

    def __init__(self, order_code: str = "I") -> None:
        self.step: array[int] = array("q")
        self.value: array[float] = array("d")
        self.order: array[int] = array(order_code)

    def add(self, step: int, value: float, order: int) -> None:
        """Add a point."""
        self.step.append(step)
        self.value.append(value)
        self.order.append(order)

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """Its steps, shape (n,)."""
        return np.frombuffer(self.step, np.int64)

    @property
    def falls(self) -> bool:
        """Whether its steps fall anywhere."""
        steps = self.steps
        return bool((steps[1:] < steps[:-1]).any())


class Points:
    """Points of one writer, of the keys that some column may need.

    Parameters
    ----------
    extra_keys : iterable of str
        Keys wanted beside the known ones, from ``--map``.
    order_code : str
        Type code of the numbers that order points over keys.
    every_key : bool
        All keys are wanted.

    Examples
    --------
    >>> points = Points()
    >>> for order, (key, step) in enumerate([("loss", 1), ("val/acc", 1), ("loss", 2)]):
    ...     points.add(key, step, step / 10, order)
    >>> rows, _ = rows_of([points])
    >>> rows.count, rows.values["step"].value, rows.values["loss"].at
    (3, array([1., 1., 2.]), array([0, 2], dtype=int32))
    """

    def __init__(
        self, extra_keys: Iterable[str] = (), order_code: str = "I", *, every_key: bool = False
    ) -> None:
        self._extra = frozenset(extra_keys)
        self._every_key = every_key
        self._order_code = order_code
        self.series: dict[str, Series] = {}
        self.names: set[str] = set()
        self.resumes = False
        """The writer says that it goes on from a checkpoint."""

    def wanted(self, key: str) -> Series | None:
        """Return where points of a key go, None when nothing needs them.

        Raises
        ------
        SourceError
            Too many different keys are wanted.
        """
        series = self.series.get(key)
        if series is not None:
            return series
        if key in self.names or not (self._every_key or key in self._extra or is_wanted(key)):
            if len(self.names) < MAX_KEYS:
                self.names.add(key)
            return None
        if len(self.series) >= MAX_KEYS:
            msg = f"more than {MAX_KEYS:,} different keys look like metrics; that is no run log"
            raise SourceError(msg)
        self.names.add(key)
        series = self.series[key] = Series(self._order_code)
        return series

    def add(self, key: str, step: int, value: float, order: int) -> None:
        """Keep a point if its key is wanted; `order` rises with the time of writing."""
        series = self.wanted(key)
        if series is not None:
            series.add(step, value, order)


@dataclass(frozen=True)
class _Block:
    """Some rows: how many, their steps, and the row of each point by key."""

    step: Ints
    at: Mapping[str, Ints]
    value: Mapping[str, Floats]


def rows_of(writers: Sequence[Points]) -> tuple[Rows, tuple[int, ...]]:
    """Return the rows of writers in the order in which they began, and where one says it resumes.

    Writers without a common key wrote at one time, and their rows are put together by step; the
    rows of a writer that repeats keys of an earlier one follow.
    """
    blocks: list[_Block] = []
    resumed: list[int] = []
    count = 0
    for generation in _generations(writers):
        if count and any(points.resumes for points in generation):
            resumed.append(count)
        falling = any(series.falls for points in generation for series in points.series.values())
        if falling:
            blocks += [_as_they_came(points) for points in generation]
        else:
            blocks.append(_by_step(generation))
        count = sum(len(block.step) for block in blocks)
    rows = _joined([block for block in blocks if len(block.step)], writers)
    return rows, tuple(resumed)


def _generations(writers: Sequence[Points]) -> list[list[Points]]:
    """Return writers in groups without a common key: each goes behind the last it repeats."""
    last: dict[str, int] = {}
    out: list[list[Points]] = []
    for points in writers:
        if not points.series:
            continue
        own = 1 + max((last[key] for key in points.series if key in last), default=-1)
        last.update(dict.fromkeys(points.series, own))
        if own == len(out):
            out.append([])
        out[own].append(points)
    return out


def _by_step(generation: Sequence[Points]) -> _Block:
    """Return one row for each step and first part of a key, in order of steps."""
    shared: dict[tuple[str, bytes], int] = {}
    members: dict[str, int] = {}
    groups: dict[str, int] = {}
    steps: list[Ints] = []
    ranks: list[Ints] = []
    group: list[Ints] = []
    series = {key: s for points in generation for key, s in points.series.items() if len(s.step)}
    for key, points_of_key in series.items():
        head = key.partition("/")[0] if "/" in key else ""
        mark = (head, points_of_key.step.tobytes())
        members[key] = shared.setdefault(mark, len(shared))
        if members[key] == len(steps):
            steps.append(points_of_key.steps)
            ranks.append(_repeats(points_of_key.steps))
            group.append(np.full(len(points_of_key.step), groups.setdefault(head, len(groups))))
    if not steps:
        return _Block(np.empty(0, np.int64), {}, {})
    row, first = _numbered(np.concatenate(steps), np.concatenate(ranks), np.concatenate(group))
    parts = np.split(row, np.cumsum([len(s) for s in steps])[:-1])
    at = {key: parts[member] for key, member in members.items()}
    value = {key: np.frombuffer(s.value, np.float64) for key, s in series.items()}
    return _Block(np.concatenate(steps)[first], at, value)


def _repeats(steps: Ints) -> Ints:
    """Return for each of some ascending steps how many equal ones stand before it.

    Examples
    --------
    >>> _repeats(np.array([1, 2, 2, 2, 5]))
    array([0, 0, 1, 2, 0])
    """
    index = np.arange(len(steps))
    begins = np.ones(len(steps), dtype=bool)
    begins[1:] = steps[1:] != steps[:-1]
    return np.asarray(index - np.maximum.accumulate(np.where(begins, index, 0)))


def _numbered(*keys: Ints) -> tuple[Ints, Ints]:
    """Return the rank of each entry among the distinct ones, and the index of one of each."""
    order = np.lexsort(keys[::-1])
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.cumsum(new, dtype=np.int32) - 1
    return row, order[new]


def _as_they_came(points: Points) -> _Block:
    """Return rows in the order of writing; a row ends where step, group or a repeated key says."""
    series = {key: s for key, s in points.series.items() if len(s.step)}
    heads: dict[str, int] = {}
    sizes = [len(s.step) for s in series.values()]
    order = np.concatenate([np.array(s.order, dtype=np.int64) for s in series.values()])
    step = np.concatenate([s.steps for s in series.values()])
    head = [key.partition("/")[0] if "/" in key else "" for key in series]
    group = np.repeat([heads.setdefault(h, len(heads)) for h in head], sizes)
    which = np.repeat(np.arange(len(series)), sizes)
    time = np.argsort(order, kind="stable")
    changed = np.ones(len(time), dtype=bool)
    changed[1:] = (np.diff(step[time]) != 0) | (np.diff(group[time]) != 0)
    stretch = np.empty(len(time), dtype=np.int64)
    stretch[time] = np.cumsum(changed)
    again = np.lexsort((order, which, stretch))
    twice = np.empty(len(time), dtype=np.int64)
    twice[again] = _repeats(stretch[again] * len(series) + which[again])
    row, first = _numbered(stretch, twice)
    parts = np.split(row, np.cumsum(sizes)[:-1])
    at = dict(zip(series, parts, strict=True))
    value = {key: np.frombuffer(s.value, np.float64) for key, s in series.items()}
    return _Block(step[first], at, value)


def _joined(blocks: Sequence[_Block], writers: Sequence[Points]) -> Rows:
    """Return the rows of all blocks, one after the other."""
    names = frozenset(name for points in writers for name in points.names)
    count = sum(len(block.step) for block in blocks)
    lines = Stretches()
    if count:
        lines.put(0, 1)
        lines.end = count + 1
    kept: dict[str, list[tuple[Ints, Floats]]] = {}
    begin = 0
    same: dict[int, npt.NDArray[np.int32]] = {}
    for block in blocks:
        for key, at in block.at.items():
            if id(at) not in same:
                same[id(at)] = np.asarray(at + begin, dtype=np.int32)
            kept.setdefault(key, []).append((same[id(at)], block.value[key]))
        begin += len(block.step)
    values = {key: _values(parts) for key, parts in kept.items()}
    if count:
        values[STEP] = _step(blocks, values.get(STEP), count)
    return Rows(count, lines, values, names=names | {STEP})


def _values(parts: list[tuple[Ints, Floats]]) -> Values:
    if len(parts) == 1:
        return Values(*parts[0])
    return Values(np.concatenate([at for at, _ in parts]), np.concatenate([v for _, v in parts]))


def _step(blocks: Sequence[_Block], own: Values | None, count: int) -> Values:
    """Return the step of every row: the run's own where it logs one, else that of the points."""
    steps = np.concatenate([block.step for block in blocks]).astype(np.float64)
    if own is not None:
        finite = own.finite()
        steps[finite.at] = finite.value
    return Values(np.arange(count, dtype=np.int32), steps)


def whole_step(value: Any) -> int | None:
    """Return a step as a whole number that fits, None when it is none.

    Examples
    --------
    >>> whole_step("12"), whole_step("1e9x"), whole_step(2**70)
    (12, None, None)
    """
    try:
        step = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return step if -MAX_STEP <= step <= MAX_STEP else None
