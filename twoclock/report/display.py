"""Tables for people: estimates with their intervals to the digits that mean something.

The full numbers are in `twoclock.report.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from twoclock.report.names import Names, all_notes, fit_of, per_cent
from twoclock.results import ClockFit, Difference, Exponent, TwoClocks
from twoclock.words import (
    column_words,
    equivalence_text,
    estimate_text,
    exponent_text,
    number_text,
    pair_text,
    target_text,
)

Row = dict[str, str]


def display_tables(result: TwoClocks) -> dict[str, pd.DataFrame]:
    """Return every table of the report as text under English headers, by its file name."""
    return {name: _frame(build(result)) for name, build in DISPLAYS.items()}


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame([[row.get(c, "") for c in columns] for row in rows], columns=columns)


def _value(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    return number_text(value.item() if hasattr(value, "item") else value)


def _count(value: Any) -> str:
    return "" if value is None or value is pd.NA else f"{int(value):,}"


def _interval(exponent: Exponent | None, kind: str) -> str:
    """Return one of the intervals beside the headline one."""
    pair = getattr(exponent, kind, None)
    if exponent is None or pair is None:
        return ""
    return estimate_text(exponent.estimate, *pair).partition(" ")[2]


def _widened(fit: ClockFit) -> str:
    """Return the range that seed noise widens a set of exponents to."""
    if fit.bound is None or fit.bound.profile is None:
        return ""
    return pair_text(*fit.bound.profile)


def _exponents(result: TwoClocks) -> list[Row]:
    names = Names(result)
    rows = []
    for fit in result.fits:
        e = fit.exponent
        head = f"Exponent [{per_cent(e.level if e else 0.95)}]"
        rows.append(
            {
                **names.columns(fit),
                head: exponent_text(fit),
                "Interval by": e.method if e else "",
                "Seed bootstrap": _interval(e, "percentile"),
                "Profile": _interval(e, "profile") or _widened(fit),
                "Runs": _count(len(fit.used)),
                "Events": _count(len(fit.used) - fit.count("right")),
                "Not reached": _count(fit.count("right")),
                "Batch sizes": ", ".join(_count(size) for size in fit.batch_sizes),
                "Seed sd of log R": "" if fit.sigma is None else f"{fit.sigma:.2g}",
            }
        )
    return rows


def _cells(result: TwoClocks) -> list[Row]:
    names = Names(result)
    return [
        {
            **names.columns(fit),
            "B": _count(cell.batch_size),
            "Runs": _count(cell.n_runs),
            "Exact": _count(cell.n_exact),
            "Interval": _count(cell.n_interval),
            "Left": _count(cell.n_left),
            "Right": _count(cell.n_right),
            "Rollouts to event": ""
            if cell.rollouts_to_event is None
            else number_text(float(f"{cell.rollouts_to_event:.3g}")),
            "In the fit": "yes" if cell.in_headline else "no",
            "Remarks": ", ".join(flag.replace("_", " ") for flag in cell.flags),
        }
        for fit in result.fits
        for cell in fit.cells
    ]


def event_interval(lower: Any, upper: Any, censoring: str) -> str:
    """Return what is known of an event in words.

    Examples
    --------
    >>> event_interval(512.0, 1024.0, "interval"), event_interval(70000.0, float("inf"), "right")
    ('512 to 1,024', 'not by 70,000')
    >>> event_interval(0.0, 640.0, "left"), event_interval(640.0, 640.0, "exact")
    ('by 640', '640')
    """
    if censoring == "before_start":
        return "already at the start"
    if censoring == "right":
        return f"not by {float(lower):,.0f}"
    if censoring == "left":
        return f"by {float(upper):,.0f}"
    if censoring == "exact":
        return f"{float(upper):,.0f}"
    return f"{float(lower):,.0f} to {float(upper):,.0f}"


def _event_rows(events: pd.DataFrame) -> list[Row]:
    rows = []
    for event in events.to_dict("records"):
        row = {
            "Run": str(event["run_id"]),
            "Clock": str(event["clock"]),
            "Target": "" if pd.isna(event["target"]) else target_text(float(event["target"])),
            "B": _count(event["batch_size"]),
            "Seed": "" if pd.isna(event["seed"]) else str(event["seed"]),
            "Responses": event_interval(event["lower"], event["upper"], event["censoring"]),
            "Rule": _value(event["reason"]),
            "Remarks": _value(event["flags"]).replace("_", " "),
        }
        if "used" in event:
            reason = _value(event.get("why_not")).replace("_", " ")
            row["In the fit"] = "yes" if event["used"] else f"no: {reason}" if reason else "no"
        rows.append(row)
    return rows


def _fitted_events(result: TwoClocks) -> list[Row]:
    return [row for fit in result.fits for row in _event_rows(fit.events)]


def _difference(names: Names, item: Difference, what: str) -> Row:
    return {
        "What": what,
        "Exponent of": names.fit(item.a),
        "minus that of": names.fit(item.b),
        f"Difference [{per_cent(item.level)}]": estimate_text(
            item.estimate, item.lower, item.upper
        ),
        "p": "" if item.p is None else f"{item.p:.2g}",
        "Interval by": item.method,
        "Strata differ in": ", ".join(column_words(name) for name in item.differs),
        "Batch sizes": ", ".join(_count(size) for size in item.batch_sizes),
    }


def _differences(result: TwoClocks) -> list[Row]:
    names = Names(result)
    rows = [_difference(names, item, "difference") for item in result.differences]
    return rows + [_difference(names, item, "rise") for item in result.rise]


def _equivalence(result: TwoClocks) -> list[Row]:
    names = Names(result)
    return [
        {
            **names.columns(item.fit),
            "Margin": f"+-{item.margin:.2f}",
            f"Exponent [{per_cent(item.level)}]": ""
            if item.estimate is None
            else estimate_text(item.estimate, item.lower, item.upper),
            "Independent of B": item.verdict
            if item.lower is not None
            else equivalence_text(item, fit_of(result, item.fit)),
            "Smallest margin": ""
            if item.smallest_margin is None
            else f"+-{item.smallest_margin:.2f}",
            "Runs per batch size to settle": _count(item.runs_per_cell),
        }
        for item in result.equivalence
    ]


def _safe_window(result: TwoClocks) -> list[Row]:
    names = Names(result)
    return [
        {
            "Runs with": names.stratum(window.stratum),
            "Target": target_text(window.target),
            "B": _count(size),
            f"Failure/target responses [{per_cent(window.level)}]": estimate_text(
                ratio, lower, upper, least=0
            ),
        }
        for window in result.safe_windows
        for size, ratio, lower, upper in zip(
            window.batch_size, window.ratio, window.lower, window.upper, strict=True
        )
    ]


def _influence(result: TwoClocks) -> list[Row]:
    names = Names(result)
    rows = []
    for fit in result.fits:
        full = fit.exponent.estimate if fit.exponent else None
        for item in fit.influence:
            value = item.exponent
            change = "" if value is None or full is None else f"{value - full:+.2f}"
            size = item.drop.get("batch_size")
            dropped = str(item.drop.get("run_id")) if size is None else f"B = {_count(size)}"
            text = "not identified" if value is None else f"{value:.2f}"
            row = {**names.columns(fit), "Without": dropped, "Exponent": text, "Change": change}
            rows.append(row)
    return rows


def _published(result: TwoClocks) -> list[Row]:
    return [
        {column_words(str(name)): _value(value) for name, value in record.items()}
        for record in result.published.to_dict("records")
    ]


def _warnings(result: TwoClocks) -> list[Row]:
    return [
        {
            "Code": note.code,
            "Message": note.message,
            "Where": note.where,
            "Runs": _count(len(note.runs)) if note.runs else "",
            "Times": _count(note.count),
        }
        for note in all_notes(result, Names(result))
    ]


_RUN_COLUMNS = (
    "run_id", "framework", "model", "task", "seed", "batch_size", "group_size",
    "optimizer_steps_per_rollout", "lr", "base_lr", "clip_active", "ended",
)  # fmt: skip


def _runs(result: TwoClocks) -> list[Row]:
    names = [name for name in _RUN_COLUMNS if name in result.runs.columns]
    return [
        {
            column_words(name): str(record[name])
            if name in ("run_id", "seed") and not pd.isna(record[name])
            else _value(record[name])
            for name in names
        }
        for record in result.runs.to_dict("records")
    ]


DISPLAYS: dict[str, Callable[[TwoClocks], list[Row]]] = {
    "exponents": _exponents,
    "cells": _cells,
    "events": lambda result: _event_rows(result.events),
    "fitted_events": _fitted_events,
    "differences": _differences,
    "equivalence": _equivalence,
    "safe_window": _safe_window,
    "influence": _influence,
    "published": _published,
    "warnings": _warnings,
    "runs": _runs,
    "refused": lambda result: [{"Path": r.path, "Reason": r.reason} for r in result.refused],
}
"""Every table and what words it; the same names as `twoclock.report.tables.TABLES`."""
