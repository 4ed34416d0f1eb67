"""Lists of runs and of events for the terminal: whole at any width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from twoclock.notes import printable
from twoclock.report.grid import Column, Grid, Row
from twoclock.results import plain
from twoclock.words import count_text, number_text, target_text
from twoclock.words.strata import short_names

RUN_COLUMNS = (
    "run_id", "batch_size", "group_size", "optimizer_steps_per_rollout", "lr",
    "clip_active", "seed", "rollouts", "responses", "validations", "probes", "ended", "framework",
    "model", "metric", "reader",
)  # fmt: skip
EVENT_COLUMNS = (
    "run_id", "clock", "target", "batch_size", "seed", "lower", "upper", "censoring", "reason",
    "flags",
)  # fmt: skip
SHORT = {
    "batch_size": "B", "group_size": "group", "optimizer_steps_per_rollout": "K",
    "clip_active": "clip", "rollouts": "steps", "validations": "vals", "reader": "read as",
}  # fmt: skip
SOURCES = {"config": "configuration", "log": "log", "derived": "derived", "user": "you"}
"""Where a value came from, in words; a run that differs has the first letter of the name."""

_ALWAYS_ONCE = ("framework", "clock", "target")
"""Columns that the title names where they are the same in every row."""

_ONCE_FOR_MANY = ("group_size", "optimizer_steps_per_rollout", "clip_active", "ended", "model",
                  "metric", "reader")  # fmt: skip
"""Columns that it names if there are several rows."""

_TEXTS = ("model", "task", "metric", "metrics")
_PROSE = ("reason", "flags", "framework", "model", "metric", "reader")
_LEFT = ("run_id", "clock", "censoring", "ended", "clip_active")

Cells = Mapping[str, Sequence[str]]


def run_list(table: pd.DataFrame) -> RenderableType:
    """Return the list of runs (`twoclock.overview.run_rows`) as a rich renderable.

    A line below says where the facts came from; a value that came from elsewhere than in most runs
    is marked by the letter of its source.
    """
    table = table.reindex(columns=list(dict.fromkeys([*table.columns, *_TEXTS])))
    shown = table.assign(model=_short_models(table), metric=_metrics(table))
    marks = {name: _marks(table[f"{name}_from"]) for name in RUN_COLUMNS if f"{name}_from" in table}
    grid = _grid(shown, RUN_COLUMNS, _counted(len(table), "run"), marks)
    return Group(grid, *_sources(table, marks))


def event_list(table: pd.DataFrame) -> Grid:
    """Return the list of events (`twoclock.job.list_events`) as a rich renderable."""
    return _grid(table, EVENT_COLUMNS, _counted(len(table), "event"), {})


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _short_models(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the models without folder or owner, cut to what tells them apart in their task."""
    names = {str(name) for name in table["model"].dropna()}
    last = {name: name.rstrip("/").rpartition("/")[2] for name in names}
    if len(set(last.values())) < len(last):
        last = {name: name for name in names}
    ends = table["model"].map(last)
    short = {
        task: short_names(sorted({str(end) for end in ends[rows].dropna()}))
        for task, rows in table.groupby(table["task"].fillna("")).groups.items()
    }
    cut = [
        None if pd.isna(end) else short[task][str(end)]
        for task, end in zip(table["task"].fillna(""), ends, strict=True)
    ]
    return pd.Series(cut, index=table.index, dtype="string")


def _metrics(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the metric of each run, and how many others it has."""
    out: list[str | None] = []
    for first, count in zip(table["metric"], table["metrics"], strict=True):
        known = plain(first)
        others = f" and {int(count) - 1} more" if known is not None and int(count) > 1 else ""
        out.append(None if known is None else f"{known}{others}")
    return pd.Series(out, index=table.index, dtype="string")


def _marks(sources: pd.Series[Any]) -> list[str]:
    """Return a mark for each value whose source is not that of most runs."""
    named = ["" if pd.isna(source) else str(source) for source in sources]
    usual = _usual(named)
    return [f"^{name[0]}" if name and name != usual else "" for name in named]


def _usual(named: Sequence[str]) -> str:
    counts = Counter(name for name in named if name)
    return min(counts, key=lambda name: (-counts[name], name)) if counts else ""


def _sources(table: pd.DataFrame, marks: Cells) -> list[Text]:
    """Return the lines that say where the columns came from."""
    by_source: dict[str, list[str]] = {}
    for name in marks:
        usual = _usual(["" if pd.isna(s) else str(s) for s in table[f"{name}_from"]])
        if usual:
            by_source.setdefault(usual, []).append(SHORT.get(name, name))
    if not by_source:
        return []
    told = [f"{SOURCES[s]}: {', '.join(by_source[s])}" for s in SOURCES if s in by_source]
    used = sorted({mark for column in marks.values() for mark in column if mark})
    words = {f"^{name[0]}": text for name, text in SOURCES.items()}
    legend = ", ".join(f"{mark} {words[mark]}" for mark in used)
    text = "From " + "; ".join(told) + (f"; marked values from {legend}" if legend else "")
    return [Text(text, style="dim")]


def _grid(table: pd.DataFrame, columns: tuple[str, ...], title: str, marks: Cells) -> Grid:
    used = [c for c in columns if c in table.columns and bool(table[c].notna().any())]
    once = _ALWAYS_ONCE if len(table) < 3 else (*_ALWAYS_ONCE, *_ONCE_FOR_MANY)
    shared = [
        c for c in once if c in used and len(table[c].unique()) == 1 and not any(marks.get(c, ()))
    ]
    title += "".join(
        f", {SHORT.get(c, c.replace('_', ' '))} {_cell(c, table[c].dropna().iloc[0])}"
        for c in shared
    )
    shown = [c for c in used if c not in shared]
    heads = [
        Column(SHORT.get(c, c), right=c not in (*_LEFT, *_PROSE), prose=c in _PROSE) for c in shown
    ]
    cells = [_column(name, table[name], marks.get(name, ())) for name in shown]
    rows = [Row(texts) for texts in zip(*cells, strict=True)]
    return Grid(heads, rows, title)


def _column(name: str, values: pd.Series[Any], marks: Sequence[str]) -> list[str]:
    """Return the texts of a column; those without a mark leave its place free."""
    texts = [_cell(name, value) for value in values]
    width = max((len(mark) for mark in marks), default=0)
    if not width:
        return texts
    return [text + mark.ljust(width) for text, mark in zip(texts, marks, strict=True)]


def _cell(name: str, value: Any) -> str:
    value = plain(value)
    if name in _PROSE:
        text = "" if value is None else printable(str(value))
        return ", ".join(text.split(",")) if name == "flags" else text
    if value is None:
        return "-"
    if name == "target":
        return target_text(float(value))
    if name == "lr":
        return number_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return printable(str(value))
    return count_text(value)
