"""Files that hold several runs: which row belongs to which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twoclock.errors import SourceError
from twoclock.sources.columns import STEP_KEYS
from twoclock.sources.rows import Rows, RowStore

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
        self._telling = frozenset((*self._run_keys, *(k for keys in self._identity for k in keys)))
        self._same: RowStore | None = None
        self._stores: dict[tuple[str, ...], RowStore] = {}

    @property
    def count(self) -> int:
        """Rows so far."""
        return sum(store.count for store in self._stores.values())

    def add(self, row: Mapping[str, Any], line: int, name: str = "") -> None:
        """Keep a row with the run `name`, or with the one that it names itself, if any."""
        if self._same is not None and not name and row.keys().isdisjoint(self._telling):
            self._same.add(row, line)
            return
        if not name:
            for key in self._run_keys:
                value = row.get(key)
                if isinstance(value, str | int) and value != "":
                    name = str(value)
                    break
        store = self._store((name,) if name else self._identity_of(row), line)
        self._same = None if name else store
        store.add(row, line)

    def add_table(
        self, lines: Sequence[int], table: Mapping[str, Sequence[str]], name: str = ""
    ) -> None:
        """Keep rows that are given as columns of texts, each as long as `lines`."""
        if not name and not self._telling.isdisjoint(table):
            for line, cells in zip(lines, zip(*table.values(), strict=True), strict=True):
                self.add(dict(zip(table, cells, strict=True)), line)
        elif lines:
            mark = (name,) if name else ("", *self._last)
            self._store(mark, lines[0]).add_table(lines, table)

    def _store(self, mark: tuple[str, ...], line: int) -> RowStore:
        store = self._stores.get(mark)
        if store is None:
            if len(self._stores) >= MAX_RUNS:
                msg = f"more than {MAX_RUNS} runs in one file, the first extra one at line {line}"
                raise SourceError(msg)
            store = self._stores[mark] = RowStore(self._extra)
        return store

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
