"""Tables of a result in full precision: one scalar per cell, snake_case column names.

For people see `twoclock.report.display`. Nothing here writes files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from twoclock.report.names import Names, all_notes
from twoclock.results import ClockFit, FitRef, TwoClocks

Record = dict[str, Any]


def report_tables(result: TwoClocks) -> dict[str, pd.DataFrame]:
    """Return every table of the report by its file name.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.

    Returns
    -------
    dict of str to DataFrame
        See `TABLES` for the names; an empty table keeps no columns but those it is known to have.
    """
    return {name: tidy(build(result)) for name, build in TABLES.items()}


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `frame` with a fresh index and one type per column, so that every format can hold it.

    Columns of mixed values become text; numbers with gaps become floats; lists become text joined
    by ', '.

    Examples
    --------
    >>> out = tidy(pd.DataFrame({"a": [1, None], "b": ["x", 2.5], "c": [("u", "v"), ()]}))
    >>> out["a"].dtype.kind, out["b"].tolist(), out["c"].tolist()
    ('f', ['x', '2.5'], ['u, v', ''])
    """
    frame = frame.reset_index(drop=True)
    return pd.DataFrame({str(name): _column(frame[name]) for name in frame.columns})


def _column(values: pd.Series[Any]) -> pd.Series[Any]:
    if values.dtype != object:
        return values
    known = [value for value in values if not _missing(value)]
    if known and all(isinstance(v, bool | np.bool_) for v in known):
        return values.astype("boolean")
    if known and all(isinstance(v, int | float | np.number) for v in known):
        return pd.to_numeric(values).astype("float64")
    texts = [None if _missing(value) else _text(value) for value in values]
    return pd.Series(texts, index=values.index, dtype="string")


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)


def _of(fit: ClockFit | FitRef) -> Record:
    """Return the columns that say which fit a row belongs to."""
    target = fit.targets[0] if fit.targets else None
    return {"clock": fit.clock, "target": target, **fit.stratum}


def _prefixed(prefix: str, record: Mapping[str, Any]) -> Record:
    return {f"{prefix}_{name}": value for name, value in record.items()}


def _exponents(result: TwoClocks) -> pd.DataFrame:
    rows = []
    for fit in result.fits:
        exponent, bound = fit.exponent, fit.bound
        more: Record = {
            "level": exponent.level if exponent else bound.level if bound else None,
            "bound_side": bound.side if bound else None,
            "loglik": fit.loglik,
            "aicc": fit.aicc,
        }
        for kind in ("percentile", "profile"):
            pair = getattr(exponent or bound, kind, None)
            more[f"{kind}_lower"], more[f"{kind}_upper"] = pair or (None, None)
        if fit.lack_of_fit is not None:
            more["lack_of_fit_p"] = fit.lack_of_fit.p
        more |= _prefixed("alternative", fit.sensitivity)
        rows.append({**fit.row(), **more})
    return pd.DataFrame(rows)


def _cells(result: TwoClocks) -> pd.DataFrame:
    return pd.DataFrame(
        [{**_of(fit), **cell.to_dict()} for fit in result.fits for cell in fit.cells]
    )


def _events(result: TwoClocks) -> pd.DataFrame:
    return result.events


def _fitted_events(result: TwoClocks) -> pd.DataFrame:
    frames = [fit.events for fit in result.fits if len(fit.events)]
    return pd.concat(frames, ignore_index=True) if frames else result.events.iloc[:0]


def _differences(result: TwoClocks) -> pd.DataFrame:
    rows = []
    for kind, items in (("difference", result.differences), ("rise", result.rise)):
        for item in items:
            row = item.to_dict()
            low, high = item.percentile or (None, None)
            row |= {"percentile_lower": low, "percentile_upper": high}
            for name in ("a", "b", "percentile"):
                del row[name]
            ends = {**_prefixed("a", _of(item.a)), **_prefixed("b", _of(item.b))}
            rows.append({"kind": kind, **ends, **row})
    return pd.DataFrame(rows)


def _equivalence(result: TwoClocks) -> pd.DataFrame:
    rows = []
    for item in result.equivalence:
        row = item.to_dict()
        del row["stratum"], row["targets"], row["clock"]
        rows.append({**_of(item.fit), **row})
    return pd.DataFrame(rows)


def _safe_window(result: TwoClocks) -> pd.DataFrame:
    rows = [
        {**window.stratum, "target": window.target, "level": window.level, **ratio}
        for window in result.safe_windows
        for ratio in window.to_dict()["ratios"]
    ]
    return pd.DataFrame(rows)


def _influence(result: TwoClocks) -> pd.DataFrame:
    rows = []
    for fit in result.fits:
        full = fit.exponent.estimate if fit.exponent else None
        for item in fit.influence:
            known = item.exponent is not None and full is not None
            rows.append(
                {
                    **_of(fit),
                    "dropped_batch_size": item.drop.get("batch_size"),
                    "dropped_run_id": item.drop.get("run_id"),
                    "exponent": item.exponent,
                    "change": item.exponent - full if known else None,  # type: ignore[operator]
                }
            )
    return pd.DataFrame(rows)


def _warnings(result: TwoClocks) -> pd.DataFrame:
    notes = all_notes(result, Names(result))
    rows = [{**note.to_dict(), "runs": ", ".join(note.runs)} for note in notes]
    return pd.DataFrame(rows, columns=["code", "message", "runs", "where", "count"])


def _refused(result: TwoClocks) -> pd.DataFrame:
    rows = [item.to_dict() for item in result.refused]
    return pd.DataFrame(rows, columns=["path", "reason"])


TABLES: dict[str, Callable[[TwoClocks], pd.DataFrame]] = {
    "exponents": _exponents,
    "cells": _cells,
    "events": _events,
    "fitted_events": _fitted_events,
    "differences": _differences,
    "equivalence": _equivalence,
    "safe_window": _safe_window,
    "influence": _influence,
    "published": lambda result: result.published,
    "warnings": _warnings,
    "runs": lambda result: result.runs,
    "refused": _refused,
}
"""Every table and what builds it: `events` are on native validation grids, every run;
`fitted_events` are those that the fits saw, with `used` and `why_not`."""
