"""Lines of a table as cells, where a quoted cell may go over several lines."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator

MAX_LINES = 50
"""Lines that one row may go over; a quote that stays open for longer is a stray one."""

MAX_BYTES = 1 << 20
"""Bytes that one row of several lines may have."""


def as_text(line: bytes) -> str:
    """Return a line without its end, bad bytes replaced."""
    return line.decode("utf-8", errors="replace").rstrip("\r\n")


def split(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one line, or None when its quotes are damaged."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


class Lines:
    r"""The numbered lines of a file, with a look at those that follow.

    Parameters
    ----------
    source : iterator of (int, bytes)
        Line numbers and lines.

    Examples
    --------
    >>> lines = Lines(iter([(1, b'1,"a\n'), (2, b'b"\n'), (3, b"2,c\n")]))
    >>> _, first = next(lines)
    >>> lines.closed(first, lambda row: split(row, ",")), next(lines)
    (['1', 'a\nb'], (3, b'2,c\n'))
    """

    def __init__(self, source: Iterator[tuple[int, bytes]]) -> None:
        self._source = source
        self._ahead: deque[tuple[int, bytes]] = deque()

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> tuple[int, bytes]:
        return self._ahead.popleft() if self._ahead else next(self._source)

    def closed(self, first: bytes, cells_of: Callable[[str], list[str] | None]) -> list[str] | None:
        """Return the cells of a row whose quote a later line closes, or None.

        The lines that belong to it are passed over, else they come as rows of their own.
        """
        parts = [first]
        size = len(first)
        while len(parts) <= MAX_LINES:
            if len(parts) > len(self._ahead):
                following = next(self._source, None)
                if following is None:
                    return None
                self._ahead.append(following)
            part = self._ahead[len(parts) - 1][1]
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                return None
            if part.count(b'"') % 2:
                cells = cells_of(as_text(b"".join(parts)))
                if cells is not None:
                    for _ in parts[1:]:
                        self._ahead.popleft()
                return cells
        return None
