"""Lists of runs and of events for the terminal: whole at any width."""

from __future__ import annotations

from typing import Any

import pandas as pd

from twoclock.report.grid import Column, Grid, Row
from twoclock.results import plain
from twoclock.words import count_text, number_text, target_text

RUN_COLUMNS = (
    "run_id", "framework", "batch_size", "group_size", "optimizer_steps_per_rollout", "lr",
    "clip_active", "seed", "rollouts", "responses", "validations", "probes", "ended",
)  # fmt: skip
EVENT_COLUMNS = (
    "run_id", "clock", "target", "batch_size", "seed", "lower", "upper", "censoring", "reason",
    "flags",
)  # fmt: skip
SHORT = {
    "batch_size": "B", "group_size": "group", "optimizer_steps_per_rollout": "K",
    "clip_active": "clip", "rollouts": "rolls", "validations": "vals",
}  # fmt: skip
_SAID_ONCE = ("framework", "clock", "target")
"""Columns that the title names where they are the same in every row."""

_PROSE = ("reason", "flags")
_LEFT = ("run_id", "framework", "clock", "censoring", "ended", "clip_active")


def run_list(table: pd.DataFrame) -> Grid:
    """Return the list of runs (`twoclock.overview.run_rows`) as a rich renderable."""
    return _grid(table, RUN_COLUMNS, f"{len(table):,} runs")


def event_list(table: pd.DataFrame) -> Grid:
    """Return the list of events (`twoclock.job.list_events`) as a rich renderable."""
    return _grid(table, EVENT_COLUMNS, f"{len(table):,} events")


def _grid(table: pd.DataFrame, columns: tuple[str, ...], title: str) -> Grid:
    used = [c for c in columns if c in table.columns and bool(table[c].notna().any())]
    shared = [c for c in _SAID_ONCE if c in used and len(table[c].unique()) == 1]
    title += "".join(f", {c} {_cell(c, table[c].dropna().iloc[0])}" for c in shared)
    shown = [c for c in used if c not in shared]
    heads = [
        Column(SHORT.get(c, c), right=c not in (*_LEFT, *_PROSE), prose=c in _PROSE) for c in shown
    ]
    rows = [
        Row([_cell(name, value) for name, value in zip(shown, record, strict=True)])
        for record in table[shown].itertuples(index=False)
    ]
    return Grid(heads, rows, title)


def _cell(name: str, value: Any) -> str:
    value = plain(value)
    if name in _PROSE:
        text = "" if value is None else str(value)
        return ", ".join(text.split(",")) if name == "flags" else text
    if value is None:
        return "-"
    if name == "target":
        return target_text(float(value))
    if name == "lr":
        return number_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return count_text(value)
