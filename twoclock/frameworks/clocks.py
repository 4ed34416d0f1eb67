"""Rows on one clock: what the `arrange` of several frameworks have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from twoclock.frameworks.base import Pair
from twoclock.frameworks.patterns import matching

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def spread(column: Pair | None, count: int) -> Floats:
    """Return a column over all rows, NaN where a row does not have it.

    Examples
    --------
    >>> spread((np.array([0, 2]), np.array([1.0, 5.0])), 3)
    array([ 1., nan,  5.])
    """
    out = np.full(count, np.nan)
    if column is not None:
        rows, values = column
        out[rows] = values
    return out


def gathered(values: Floats) -> Pair:
    """Return the rows that have a value, and the values."""
    rows = np.flatnonzero(np.isfinite(values))
    return rows, values[rows]


def holding(keys: Iterable[str], columns: Mapping[str, Pair], count: int) -> Bools:
    """Tell of each row whether it has one of the keys, which may be patterns."""
    out = np.zeros(count, dtype=bool)
    for key in matching(keys, columns):
        out[columns[key][0]] = True
    return out


def first_of(keys: Iterable[str], columns: Mapping[str, Pair]) -> Pair | None:
    """Return the first of the columns that there is."""
    return next((columns[key] for key in keys if key in columns), None)


def first_step(
    step: Floats, trains: Bools, columns: Mapping[str, Pair], newest: Iterable[str]
) -> int:
    """Return the step of the first training row of a run, of a framework that has had 0 and 1.

    Parameters
    ----------
    step : array of float, shape (n,)
        Logged steps, NaN where a row has none.
    trains : array of bool, shape (n,)
        Training rows.
    columns : mapping
        Columns of the log.
    newest : iterable of str
        Keys of the versions that begin at 1; they decide where the log begins later.
    """
    trained = step[trains & np.isfinite(step)]
    if len(trained) and trained.min() <= 1:
        return int(trained.min() == 1)
    return int(bool(matching(newest, columns)))


def trained_from_zero(
    columns: Mapping[str, Pair],
    count: int,
    keys: tuple[str, ...],
    newest: tuple[str, ...],
    *,
    measured: Bools,
) -> Pair | None:
    """Return the steps with those of training rows counted from 0, those of validations as logged.

    A validation at s is then measured before the update of step s, whichever way the framework
    counts; None where no row has a step. `measured` are the rows of validations alone.
    """
    step = spread(first_of(keys, columns), count)
    if not np.isfinite(step).any():
        return None
    trains = ~measured
    begins = first_step(step, trains, columns, newest)
    return gathered(np.where(trains, step - begins, step))
