"""Rows of a console: collected once, though several ranks print each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twoclock.notes import Note
from twoclock.sources.console.lines import Line
from twoclock.sources.rows import RowStore

_REMEMBERED = 64
"""Rows of the first rank that those of the others are compared with."""


class Table:
    """The rows so far.

    Parameters
    ----------
    store : RowStore
        Where they go.

    Attributes
    ----------
    clocked : bool
        Do the rows hold their step? Rows without one may be equal and are no copies.

    Notes
    -----
    A row is a copy when the row before has the same step and values, or when it comes from another
    rank than the first one that printed a row. Copies are counted, and told with those that differ.
    """

    def __init__(self, store: RowStore) -> None:
        self.store = store
        self.clocked = True
        self.copies = 0
        self.differing = 0
        self.first_copy = 0
        self.cut = 0
        self._rank = ""
        self._seen: dict[Any, int] = {}
        self._last: Mapping[str, Any] | None = None

    @property
    def count(self) -> int:
        """Rows so far, without copies."""
        return self.store.count

    def add(self, row: Mapping[str, Any], line: Line) -> bool:
        """Keep a row unless it is a copy; tell whether it was kept."""
        if line.rank and not self._rank:
            self._rank = line.rank
        other = bool(line.rank) and line.rank != self._rank
        if other or (self.clocked and row == self._last):
            self.copies += 1
            self.first_copy = self.first_copy or line.number
            if other and self._seen.get(_clock(row)) != _mark(row):
                self.differing += 1
            return False
        self._last = row
        if self._rank:
            self._seen[_clock(row)] = _mark(row)
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        self.store.add(row, line.number)
        return True

    def restart(self) -> None:
        """Forget the last row: what follows is another launch, and no copy."""
        self._last = None

    def notes(self, where: str) -> list[Note]:
        """Return what is to be told about the rows."""
        out: list[Note] = []
        if self.copies:
            differ = f"; {self.differing} of them differ" if self.differing else ""
            message = f"rows are printed several times (once a rank); the first counts{differ}"
            at = f"{where} line {self.first_copy}"
            out.append(Note("rank_copies", message, where=at, count=self.copies))
        if self.cut:
            message = "last record is cut; its last value is left out"
            out.append(Note("cut_line", message, where=f"{where} line {self.cut}"))
        return out


def _clock(row: Mapping[str, Any]) -> tuple[str, Any]:
    return next(iter(row.items()), ("", None))


def _mark(row: Mapping[str, Any]) -> int:
    return hash(tuple(row.items()))
