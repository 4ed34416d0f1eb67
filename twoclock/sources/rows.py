"""Rows of a log, kept by key: only the keys that some column may need, as flat arrays.

A log of millions of rows costs twelve bytes for each value that is wanted, and nothing for the
rest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclock.sources.cells import number
from twoclock.sources.columns import RUN_TEXTS, is_wanted

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

MAX_INT = 2**62
"""Whole numbers beyond this are looked at one by one."""

MAX_KEYS = 20_000
"""Distinct keys that are looked at in one log; a log with more has text where keys should be."""


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
        return Values(self.at[keep], self.value[keep])


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
    lines : array of int, shape (count,)
        Line (or row) of the file, from 1, for messages.
    values : mapping of str to Values
        By key; keys without any number are absent.
    texts : mapping of str to str
        Text facts that were the same in every row (``task``).
    rejected : mapping of str to Rejected
        Keys under which something that is not a number stood.
    """

    count: int
    lines: Ints
    values: Mapping[str, Values]
    texts: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, Rejected] = field(default_factory=dict)


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
        self._columns: dict[str, tuple[array[int], array[float]] | None] = {}
        self._lines: array[int] = array("q")
        self._texts: dict[str, str | None] = {}
        self._rejected: dict[str, Rejected] = {}

    @property
    def count(self) -> int:
        """Rows so far."""
        return len(self._lines)

    def add(self, row: Mapping[str, Any], line: int) -> None:
        """Keep what is wanted of a row; `line` names it in messages."""
        at = len(self._lines)
        self._lines.append(line)
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
                column[0].append(at)
                column[1].append(value)
            else:
                self._add_odd(key, value, at, column)

    def _new_column(self, key: str) -> tuple[array[int], array[float]] | None:
        wanted = (
            key in self._extra or key in RUN_TEXTS or key.startswith(self._prefix) or is_wanted(key)
        )
        column = (array("i"), array("d")) if wanted else None
        self._columns[key] = column
        return column

    def _add_odd(
        self, key: str, value: Any, at: int, column: tuple[array[int], array[float]]
    ) -> None:
        parsed = number(value)
        if isinstance(parsed, float):
            column[0].append(at)
            column[1].append(parsed)
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
                column = self._columns.setdefault(name, (array("i"), array("d")))
                if column is not None:
                    self._add_odd(name, item, at, column)

    def finish(self) -> Rows:
        """Return the collected rows."""
        values = {
            key: Values(np.frombuffer(column[0], np.int32), np.frombuffer(column[1], np.float64))
            for key, column in self._columns.items()
            if column is not None and len(column[0])
        }
        texts = {key: text for key, text in self._texts.items() if text is not None}
        lines = np.array(self._lines, dtype=np.int64)
        return Rows(len(lines), lines, values, texts, dict(self._rejected))
