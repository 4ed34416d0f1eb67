"""`twoclock runs`, `events`, `schema`: what was read, what happened in it, what a log holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from twoclock.cli.options import Fitting, Json, Paths, Quiet, Reading, Rule, grouped, settings_of
from twoclock.cli.progress import Bar

if TYPE_CHECKING:
    import pandas as pd

_RUN_COLUMNS = (
    "run_id", "framework", "batch_size", "group_size", "optimizer_steps_per_rollout", "lr",
    "clip_active", "seed", "rollouts", "responses", "validations", "ended",
)  # fmt: skip
_EVENT_COLUMNS = (
    "run_id", "clock", "target", "batch_size", "seed", "lower", "upper", "censoring", "reason",
    "flags",
)  # fmt: skip
_SHORT = {
    "batch_size": "B", "group_size": "group", "optimizer_steps_per_rollout": "K",
    "clip_active": "clip", "rollouts": "rolls", "validations": "vals",
}  # fmt: skip


@grouped
def runs(
    *, paths: Paths = None, reading: Reading, json: Json = False, quiet: Quiet = False
) -> None:
    """List the runs that were read, what was refused and why, and what is missing.

    Example: twoclock runs outputs/ --batch-size 512
    """
    from twoclock.overview import run_rows
    from twoclock.runs import read_runs

    with Bar(quiet=quiet) as bar:
        found = read_runs(paths or [], reading.options(), progress=bar)
    _print(run_rows(found), _RUN_COLUMNS, f"{len(found.runs)} runs", json=json)
    if not quiet:
        _remarks(found.notes, found.refused)


@grouped
def events(
    *,
    paths: Paths = None,
    reading: Reading,
    rule: Rule,
    fitting: Fitting,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List when each run reached the target and when it failed, as intervals of responses.

    Example: twoclock events logs/ --target 0.6
    """
    from twoclock.job import Job, list_events

    job = Job(tuple(map(str, paths or ())), reading.options(), settings_of(reading, rule, fitting))
    with Bar(quiet=quiet) as bar:
        table, notes, refused = list_events(job, progress=bar)
    _print(table, _EVENT_COLUMNS, f"{len(table)} events", json=json)
    if not quiet:
        _remarks(notes, refused)


def schema() -> None:
    """Print the JSON Schema of the native log format: run.json and a line of metrics.jsonl.

    Example: twoclock schema > twoclock-run.schema.json
    """
    import orjson

    from twoclock.log_schema import json_schema

    sys.stdout.write(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode() + "\n")


def _print(table: pd.DataFrame, columns: tuple[str, ...], title: str, *, json: bool) -> None:
    from twoclock.results import plain

    if json:
        import orjson

        rows = [
            {str(key): _json(plain(value)) for key, value in row.items()}
            for row in table.to_dict("records")
        ]
        sys.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    used = [c for c in columns if c in table.columns and bool(table[c].notna().any())]
    shared = [
        c
        for c in ("framework", "clock", "target")
        if c in used and len(table[c].dropna().unique()) == 1
    ]
    title += "".join(f", {c} {_cell(table[c].dropna().iloc[0])}" for c in shared)
    used = [c for c in used if c not in shared]
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in used:
        text = column in ("run_id", "reason", "flags", "framework")
        shown.add_column(
            _SHORT.get(column, column),
            justify="left" if text else "right",
            overflow="fold",
            no_wrap=not text,
            min_width=14 if column == "run_id" else None,
        )
    for row in table[used].itertuples(index=False):
        shown.add_row(*[_cell(value) for value in row])
    Console().print(shown)


def _json(value: Any) -> Any:
    return None if value in ("inf", "-inf") else value


def _cell(value: Any) -> str:
    from twoclock.results import plain

    value = plain(value)
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{int(value):,}" if value.is_integer() and abs(value) >= 1 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _remarks(notes: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for note in notes:
        where = f"{note.where}: " if note.where else ""
        print(f"warning: {where}{note.message} [{note.code}]", file=sys.stderr)
    for item in refused:
        print(f"refused: {item.path}: {item.reason}", file=sys.stderr)
