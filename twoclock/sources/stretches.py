"""Columns of a long log in little memory: numbers as flat arrays, their rows as stretches."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

WAITING_BYTES = 64 * 1024
"""So much of the rows with the same keys is moved into their columns at once."""


class Stretches:
    """Whole numbers in the order in which they came, kept as stretches of consecutive ones.

    Examples
    --------
    >>> lines = Stretches()
    >>> for index, line in enumerate([1, 2, 5, 6]):
    ...     lines.put(index, line)
    >>> lines[3], lines.numbers(4)
    (6, array([1, 2, 5, 6], dtype=int32))
    """

    __slots__ = ("_first", "_index", "end")

    def __init__(self) -> None:
        self._first: array[int] = array("I")
        self._index: array[int] = array("I")
        self.end = -1

    def put(self, index: int, number: int) -> None:
        """Add a number; `index` counts those before it."""
        if number != self.end:
            self._first.append(number)
            self._index.append(index)
        self.end = number + 1

    def __getitem__(self, index: int) -> int:
        """Return one number."""
        stretch = bisect_right(self._index, index) - 1
        return self._first[stretch] + index - self._index[stretch]

    @property
    def mark(self) -> tuple[bytes, bytes]:
        """What equal stretches have in common."""
        return self._first.tobytes(), self._index.tobytes()

    def numbers(self, count: int) -> npt.NDArray[np.int32]:
        """Return all `count` numbers."""
        if len(self._first) == 1:
            return np.arange(self._first[0], self._first[0] + count, dtype=np.int32)
        first = np.array(self._first, dtype=np.int32)
        index = np.array(self._index, dtype=np.int32)
        out = np.arange(count, dtype=np.int32)
        out += np.repeat(first - index, np.diff(index, append=np.int32(count)))
        return out


class Column(Stretches):
    """The values of one key so far, and their rows."""

    __slots__ = ("append", "value")

    def __init__(self) -> None:
        super().__init__()
        self.value: array[float] = array("d")
        self.append = self.value.append

    def add(self, at: int, value: float) -> None:
        """Add the value of one row."""
        self.put(len(self.value), at)
        self.append(value)

    def extend(self, at: int, values: array[float]) -> None:
        """Add the values of consecutive rows, the first of them `at`."""
        self.put(len(self.value), at)
        self.value.extend(values)
        self.end = at + len(values)


class Plan:
    """The way of rows with the same keys, their wanted values plain numbers, into columns.

    Parameters
    ----------
    columns : mapping of str to Column
        The wanted keys, at least two, and where they go.

    Examples
    --------
    >>> columns = {"step": Column(), "loss": Column()}
    >>> plan = Plan(columns)
    >>> for step in range(3):
    ...     plan.waiting += plan.pack(*plan.pick({"loss": step / 2, "host": "x", "step": step}))
    >>> plan.flush(10)
    >>> columns["loss"].value, columns["loss"].numbers(3)
    (array('d', [0.0, 0.5, 1.0]), array([7, 8, 9], dtype=int32))
    """

    __slots__ = ("_columns", "pack", "pick", "waiting")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = tuple(columns.values())
        self.pick: Callable[[Mapping[str, Any]], tuple[Any, ...]] = itemgetter(*columns)
        self.pack: Callable[..., bytes] = Struct(f"{len(columns)}d").pack
        self.waiting = bytearray()

    def flush(self, end: int) -> None:
        """Move the waiting rows into the columns; they are those before row `end`."""
        if self.waiting:
            table = array("d", self.waiting)
            width = len(self._columns)
            first = end - len(table) // width
            for i, column in enumerate(self._columns):
                column.extend(first, table[i::width])
            self.waiting.clear()
