"""Runs as intervals of log responses, and the same split by censoring kind for the inner loop.

A run is known as ``(lower, upper]`` in log responses: equal ends are an exact event, an
infinite one is censoring. Nothing here evaluates a likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CensoredData:
    """Runs as intervals of log responses with their design.

    Parameters
    ----------
    design : ndarray, shape (n, p)
        Design of the mean of log R (one row a run).
    lower, upper : ndarray, shape (n,)
        Log responses (nats): the event is in (lower, upper]. Equal: exact; lower -inf:
        left-censored; upper +inf: right-censored.
    log_b : ndarray, shape (n,)
        Centred log B, the regressor of log sigma.

    Examples
    --------
    >>> x = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> data = CensoredData(x, np.array([0.0, 1.0]), np.array([0.0, np.inf]), x[:, 1])
    >>> data.exact.tolist(), data.right.tolist()
    ([True, False], [False, True])
    """

    design: Floats
    lower: Floats
    upper: Floats
    log_b: Floats

    @cached_property
    def exact(self) -> NDArray[np.bool_]:
        """Runs whose event is known exactly, shape (n,)."""
        return np.equal(self.lower, self.upper)

    @cached_property
    def left(self) -> NDArray[np.bool_]:
        """Left-censored runs, shape (n,)."""
        return np.isneginf(self.lower)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Right-censored runs, shape (n,)."""
        return np.isposinf(self.upper)

    @cached_property
    def interval(self) -> NDArray[np.bool_]:
        """Interval-censored runs, shape (n,)."""
        return ~(self.exact | self.left | self.right)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.lower)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> CensoredData:
        """Return the runs `rows` (a mask or indices)."""
        return CensoredData(self.design[rows], self.lower[rows], self.upper[rows], self.log_b[rows])

    def fixed(self, column: int, value: float) -> CensoredData:
        """Return the data of the same likelihood with one coefficient held at `value`."""
        offset = value * self.design[:, column]
        rest = np.delete(self.design, column, axis=1)
        return CensoredData(rest, self.lower - offset, self.upper - offset, self.log_b)


@dataclass(frozen=True, eq=False)
class Block:
    """Runs of one censoring kind, ready for the inner loop.

    Parameters
    ----------
    kind : {"exact", "interval", "left", "right"}
        Censoring kind.
    columns : ndarray of int, shape (m,)
        Positions of the runs in the weight matrix.
    rows : ndarray, shape (m, p + 1)
        ``[-X, y]`` with y the exact value, interval middle or finite end: ``z = rows . (gamma,
        theta)``.
    products : ndarray, shape (m, (p + 1)**2)
        Outer products of `rows`, flattened: Hessians are one matrix product.
    width : ndarray, shape (m,)
        Interval widths in nats (zeros for other kinds).
    log_b : ndarray, shape (m,)
        Centred log B.
    """

    kind: str
    columns: NDArray[np.intp]
    rows: Floats
    products: Floats
    width: Floats
    log_b: Floats


def blocks_of(data: CensoredData, shift: float) -> list[Block]:
    """Split `data` by censoring kind; `shift` (nats) is taken off every y."""
    out = []
    for kind in ("exact", "interval", "left", "right"):
        columns = np.flatnonzero(getattr(data, kind))
        if not len(columns):
            continue
        lower, upper = data.lower[columns] - shift, data.upper[columns] - shift
        y = {"left": upper, "right": lower}.get(kind, lower)
        width = np.zeros(len(columns))
        if kind == "interval":
            width = upper - lower
            y = lower + 0.5 * width
        rows = np.column_stack([-data.design[columns], y])
        products = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        out.append(Block(kind, columns, rows, products, width, data.log_b[columns]))
    return out
