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

from twoclock.errors import SourceError
from twoclock.sources.cells import number
from twoclock.sources.columns import RUN_TEXTS, STEP_KEYS, is_wanted

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

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
        if len(self._columns) < MAX_KEYS:
            self._columns[key] = column
            return column
        return None

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


MAX_INT = 2**62
"""Whole numbers beyond this are looked at one by one."""

RUN_KEYS = ("run_id", "run", "run_name")
"""Keys that name the run of a row, in files that hold several runs."""

MAX_RUNS = 10_000


IDENTITY = ("batch_size", "seed")
"""Columns that tell runs apart in a table that does not name them."""


class RunStores:
    """Collect rows of a file that may hold several runs, told apart by a column.

    Where no column names the run, the batch size and seed do; a row without them belongs to the
    run of the row before it.

    Parameters
    ----------
    aliases : mapping of str to tuple of str
        Keys wanted beside the known ones, by column; those of ``run_id``, ``batch_size`` and
        ``seed`` tell runs apart.

    Examples
    --------
    >>> stores = RunStores()
    >>> stores.add({"run": "a", "step": 1}, 2)
    >>> stores.add({"run": "b", "step": 1}, 3)
    >>> {name: rows.count for name, rows in stores.finish().items()}
    {'a': 1, 'b': 1}
    """

    def __init__(self, aliases: Mapping[str, tuple[str, ...]] | None = None) -> None:
        aliases = aliases or {}
        self._extra = tuple(key for keys in aliases.values() for key in keys)
        self._run_keys = (*aliases.get("run_id", ()), *RUN_KEYS)
        self._identity = [(*aliases.get(name, ()), name) for name in IDENTITY]
        self._last = ["" for _ in IDENTITY]
        self._stores: dict[tuple[str, ...], RowStore] = {}

    @property
    def count(self) -> int:
        """Rows so far."""
        return sum(store.count for store in self._stores.values())

    def add(self, row: Mapping[str, Any], line: int, name: str = "") -> None:
        """Keep a row with the run `name`, or with the one that it names itself, if any."""
        if not name:
            for key in self._run_keys:
                value = row.get(key)
                if isinstance(value, str | int) and value != "":
                    name = str(value)
                    break
        mark = (name,) if name else self._identity_of(row)
        store = self._stores.get(mark)
        if store is None:
            if len(self._stores) >= MAX_RUNS:
                msg = f"more than {MAX_RUNS} runs in one file, the first extra one at line {line}"
                raise SourceError(msg)
            store = self._stores[mark] = RowStore(self._extra)
        store.add(row, line)

    def _identity_of(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        for i, keys in enumerate(self._identity):
            for key in keys:
                value = row.get(key)
                if isinstance(value, str | int | float) and value != "":
                    self._last[i] = f"{value:g}" if isinstance(value, float) else str(value).strip()
                    break
        return ("", *self._last)

    def finish(self) -> dict[str, Rows]:
        """Return the rows by name of run; the name is empty where the file gives none.

        Raises
        ------
        SourceError
            The batch size changes in mid run: the steps go on under another one.
        """
        marks = list(self._stores)
        unnamed = [mark for mark in marks if not mark[0]]
        names = {mark: mark[0] for mark in marks}
        rows = {mark: store.finish() for mark, store in self._stores.items()}
        if len(unnamed) > 1:
            _check_batch_sizes({mark: rows[mark] for mark in unnamed})
            for mark in unnamed:
                parts = [f"b{mark[1]}" if mark[1] else "", f"seed{mark[2]}" if mark[2] else ""]
                names[mark] = "-".join(part for part in parts if part) or "rest"
        return {names[mark]: rows[mark] for mark in marks}


def _check_batch_sizes(runs: Mapping[tuple[str, ...], Rows]) -> None:
    """Refuse one seed whose steps simply go on under another batch size."""
    ends: dict[str, tuple[float, str]] = {}
    for (_, size, seed), rows in runs.items():
        keys = [key for key in STEP_KEYS if key in rows.values]
        if not keys:
            continue
        steps = rows.values[keys[0]].finite().value
        before = ends.get(seed)
        if before is not None and before[1] != size and len(steps) and steps.min() > before[0]:
            msg = f"batch_size changes within the run ({before[1]}, {size}); split it into runs"
            raise SourceError(msg)
        if len(steps):
            ends[seed] = (float(steps.max()), size)
