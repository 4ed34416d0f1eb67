"""Rows of a log, kept by key: only the keys that some column may need, as flat arrays.

A log of millions of rows costs eight bytes for each value that is wanted, and nothing for the rest:
which rows have one is kept as stretches of consecutive rows, and columns with the same rows share
their numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclock.errors import SourceError
from twoclock.sources.cells import all_numbers, number
from twoclock.sources.columns import RUN_TEXTS, is_wanted
from twoclock.sources.stretches import WAITING_BYTES, Column, Plan, Stretches

__all__ = ["NO_ROWS", "Floats", "Ints", "Rejected", "RowStore", "Rows", "Stretches", "Values"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

MAX_INT = 2**62
"""Whole numbers beyond this are looked at one by one."""

_NUMBERS = frozenset((float, int))

MAX_PLANS = 100
"""Sets of keys of one log whose rows are read the quick way."""

MAX_KEYS = 20_000
"""Distinct keys that are remembered, and that may be wanted, in one log.

A log with more wanted ones has text where keys should be, and is refused; others are looked at anew
each time, so that memory stays bounded.
"""


@dataclass(frozen=True)
class Values:
    """The values of one key: row numbers (ascending) and numbers, of equal length.

    Parameters
    ----------
    at : array of int, shape (n,)
        Rows, counted from 0.
    value : array of float, shape (n,)
        Logged values; non-finite ones were logged as NaN, infinity or null.
    """

    at: Ints
    value: Floats

    def finite(self) -> Values:
        """Return the finite values only."""
        keep = np.isfinite(self.value)
        return self if keep.all() else Values(self.at[keep], self.value[keep])


@dataclass(frozen=True)
class Rejected:
    """Values under one key that are not numbers."""

    count: int
    line: int
    example: str


@dataclass(frozen=True)
class Rows:
    """All rows of one run in one log.

    Parameters
    ----------
    count : int
        Number of rows.
    lines : Stretches
        Line (or row) of the file for each row, from 1, for messages.
    values : mapping of str to Values
        By key; keys without any number are absent.
    texts : mapping of str to str
        Text facts that were the same in every row (``task``).
    rejected : mapping of str to Rejected
        Keys under which something that is not a number stood.
    names : frozenset of str
        All keys seen, wanted or not (of a log with very many, the first `MAX_KEYS`).
    """

    count: int
    lines: Stretches
    values: Mapping[str, Values]
    texts: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, Rejected] = field(default_factory=dict)
    names: frozenset[str] = frozenset()


NO_ROWS = Rows(0, Stretches(), {})
"""What is left of a log that needs its rows no more."""


class RowStore:
    """Collect rows one by one.

    Parameters
    ----------
    extra_keys : iterable of str
        Keys wanted beside the known ones, from ``--map``; ``val/acc.mean`` reaches into a nested
        object.
    prefix : str
        Keys that begin so are wanted too.

    Examples
    --------
    >>> store = RowStore()
    >>> store.add({"step": 1, "loss": "NaN", "host": "x"}, 1)
    >>> store.finish().values["loss"].value
    array([nan])
    """

    def __init__(self, extra_keys: Iterable[str] = (), *, prefix: str = "\0") -> None:
        self._prefix = prefix
        self._extra = frozenset(extra_keys)
        self._nested = frozenset(k.rpartition(".")[0] for k in self._extra if "." in k)
        self._columns: dict[str, Column | None] = {}
        self._wanted = 0
        self._lines = Stretches()
        self._count = 0
        self._keys: tuple[str, ...] = ()
        self._plan: Plan | None = None
        self._plans: dict[tuple[str, ...], Plan | None] = {}
        self._texts: dict[str, str | None] = {}
        self._rejected: dict[str, Rejected] = {}

    @property
    def count(self) -> int:
        """Rows so far."""
        return self._count

    def add(self, row: Mapping[str, Any], line: int) -> None:
        """Keep what is wanted of a row; `line` names it in messages."""
        at = self._count
        if line == self._lines.end:
            self._lines.end = line + 1
        else:
            self._lines.put(at, line)
        keys = tuple(row)
        if keys != self._keys:
            self._flush()
            self._keys, self._plan = keys, self._plans.get(keys)
        self._count += 1
        plan = self._plan
        if plan is not None:
            values = plan.pick(row)
            if _NUMBERS.issuperset(map(type, values)):
                try:
                    plan.waiting += plan.pack(*values)
                except struct.error:  # a whole number beyond all floats
                    pass
                else:
                    if len(plan.waiting) >= WAITING_BYTES:
                        plan.flush(at + 1)
                    return
            plan.flush(at)
        self._add_singly(row, at)
        if keys not in self._plans and len(self._plans) < MAX_PLANS:
            self._plan = self._plans[keys] = self._plan_for(keys)

    def add_table(self, lines: Sequence[int], table: Mapping[str, Sequence[str]]) -> None:
        """Keep what is wanted of rows given as columns of texts, each as long as `lines`."""
        self._flush()
        first = self._count
        for at, line in enumerate(lines, start=first):
            self._lines.put(at, line)
        self._count += len(lines)
        for key, cells in table.items():
            column = self._columns[key] if key in self._columns else self._new_column(key)
            if column is None:
                if key in RUN_TEXTS:
                    for text in dict.fromkeys(cells):
                        self._add_text(key, text)
                continue
            floats = all_numbers(cells)
            if floats is not None:
                column.extend(first, floats)
                continue
            for at, cell in enumerate(cells, start=first):
                if cell:
                    self._add_odd(key, cell, at, column)

    def _plan_for(self, keys: tuple[str, ...]) -> Plan | None:
        """Prepare for more rows with the keys of one that was added, if nothing in it is odd."""
        found = [(key, self._columns.get(key)) for key in keys]
        wanted = {key: column for key, column in found if column is not None}
        odd = any(key in RUN_TEXTS or key in self._nested for key in keys if key not in wanted)
        return None if odd or len(wanted) < 2 else Plan(wanted)

    def _flush(self) -> None:
        """Move the waiting rows, all that were added so far, into their columns."""
        if self._plan is not None:
            self._plan.flush(self._count)

    def _add_singly(self, row: Mapping[str, Any], at: int) -> None:
        columns = self._columns
        for key, value in row.items():
            try:
                column = columns[key]
            except KeyError:
                column = self._new_column(key)
            if column is None:
                if key in RUN_TEXTS:
                    self._add_text(key, value)
                elif key in self._nested and isinstance(value, Mapping):
                    self._add_nested(key, value, at)
                continue
            kind = type(value)
            if kind is float or (kind is int and -MAX_INT < value < MAX_INT):
                column.add(at, value)
            else:
                self._add_odd(key, value, at, column)

    def _new_column(self, key: str) -> Column | None:
        wanted = (
            key in self._extra or key in RUN_TEXTS or key.startswith(self._prefix) or is_wanted(key)
        )
        if not wanted:
            if len(self._columns) < MAX_KEYS:
                self._columns[key] = None
            return None
        self._wanted += 1
        if self._wanted > MAX_KEYS:
            msg = (
                f"more than {MAX_KEYS:,} different keys look like metrics; that is text in place "
                "of keys, not a run log"
            )
            raise SourceError(msg)
        column = self._columns[key] = Column()
        return column

    def _add_odd(self, key: str, value: Any, at: int, column: Column) -> None:
        parsed = number(value)
        if isinstance(parsed, float):
            column.add(at, parsed)
        elif parsed is None:
            if key in self._nested and isinstance(value, Mapping):
                self._add_nested(key, value, at)
                return
            if key in self._extra:
                self._add_text(key, value)
            seen = self._rejected.get(key)
            self._rejected[key] = (
                Rejected(1, self._lines[at], repr(value)[:60])
                if seen is None
                else Rejected(seen.count + 1, seen.line, seen.example)
            )

    def _add_text(self, key: str, value: Any) -> None:
        if isinstance(value, str) and value.strip():
            text = value.strip()
            self._texts[key] = text if self._texts.get(key, text) == text else None

    def _add_nested(self, key: str, value: Mapping[str, Any], at: int) -> None:
        for inner, item in value.items():
            name = f"{key}.{inner}"
            if name in self._extra:
                column = self._columns.setdefault(name, Column())
                if column is not None:
                    self._add_odd(name, item, at, column)

    def finish(self) -> Rows:
        """Return the collected rows."""
        self._flush()
        rows: dict[Any, npt.NDArray[np.int32]] = {}
        values: dict[str, Values] = {}
        for key, column in self._columns.items():
            if column is None or not len(column.value):
                continue
            count = len(column.value)
            mark = (*column.mark, count)
            if mark not in rows:
                rows[mark] = column.numbers(count)
            values[key] = Values(rows[mark], np.frombuffer(column.value, np.float64))
        texts = {key: text for key, text in self._texts.items() if text is not None}
        names = frozenset(self._columns)
        return Rows(self._count, self._lines, values, texts, dict(self._rejected), names)
