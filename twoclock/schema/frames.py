"""Checks at the door: frames with a table's columns in their types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from twoclock.errors import TableError
from twoclock.schema.columns import Column, Table

_DTYPES: dict[str, Any] = {"str": "string", "int": "Int64", "float": "float64", "bool": "boolean"}


def empty(table: Table) -> pd.DataFrame:
    """Return a frame with the table's columns and no rows.

    Examples
    --------
    >>> from twoclock.schema import EVALS
    >>> list(empty(EVALS).columns)[:3]
    ['run_id', 'responses', 'rollout']
    """
    return pd.DataFrame({c.name: pd.Series(dtype=_DTYPES[c.kind]) for c in table.columns})


def conform(frame: pd.DataFrame, table: Table, *, where: str = "") -> pd.DataFrame:
    """Return `frame` with the table's columns in order and in their types; others follow.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame; columns of `table` that it lacks are added as missing.
    table : Table
        The table to conform to.
    where : str
        Named in errors.

    Raises
    ------
    TableError
        A required column is missing or empty, a value has the wrong type or is not a choice.

    Examples
    --------
    >>> import pandas as pd
    >>> from twoclock.schema import RUNS
    >>> out = conform(pd.DataFrame({"run_id": ["a"], "batch_size": [64.0]}), RUNS)
    >>> int(out.batch_size[0]), str(out.batch_size.dtype)
    (64, 'Int64')
    """
    place = f"{where}: " if where else ""
    columns: dict[str, pd.Series[Any]] = {}
    for column in table.columns:
        if column.name in frame.columns:
            columns[column.name] = _typed(frame[column.name], column, f"{place}{table.name}")
        else:
            absent = [np.nan if column.kind == "float" else pd.NA] * len(frame)
            columns[column.name] = pd.Series(absent, index=frame.index, dtype=_DTYPES[column.kind])
        _check_values(columns[column.name], column, f"{place}{table.name}")
    extra = {name: frame[name] for name in frame.columns if name not in columns}
    return pd.DataFrame({**columns, **extra}, index=frame.index)


def _typed(values: pd.Series[Any], column: Column, place: str) -> pd.Series[Any]:
    try:
        if column.kind == "str":
            return values.astype("string")
        numbers = pd.to_numeric(values, errors="raise")
        if column.kind == "int":
            return numbers.astype("Float64").round(9).astype("Int64")
        if column.kind == "float":
            return numbers.astype("Float64").astype("float64")
        return values.astype("boolean")
    except (TypeError, ValueError) as err:
        msg = f"{place}: column {column.name!r} must be {column.kind} ({column.unit}): {err}"
        raise TableError(msg) from err


def _check_values(values: pd.Series[Any], column: Column, place: str) -> None:
    if column.required and len(values) and bool(values.isna().any()):
        row = int(np.flatnonzero(values.isna())[0])
        msg = f"{place}: column {column.name!r} is missing in row {row}; it is required"
        raise TableError(msg)
    if column.choices:
        known = set(column.choices)
        bad = [v for v in values.dropna().unique() if v not in known]
        if bad:
            msg = f"{place}: {column.name} is {bad[0]!r}; allowed: {', '.join(column.choices)}"
            raise TableError(msg)


def check_columns(frame: pd.DataFrame, needed: Iterable[str], *, where: str) -> None:
    """Raise TableError naming the columns of `needed` that `frame` lacks.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(pd.DataFrame({"a": [1]}), ["a", "b"], where="events.csv")
    Traceback (most recent call last):
    ...
    twoclock.errors.TableError: events.csv: needs column 'b'; it has 'a'
    """
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        have = ", ".join(repr(str(c)) for c in frame.columns) or "none"
        plural = "s" if len(missing) > 1 else ""
        names = ", ".join(repr(name) for name in missing)
        msg = f"{where}: needs column{plural} {names}; it has {have}"
        raise TableError(msg)
