"""`twoclock runs`, `events`, `schema`: what was read, what happened in it, what a log holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from twoclock.cli.options import Fitting, Json, Paths, Quiet, Reading, Rule, grouped, settings_of
from twoclock.cli.progress import Bar

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from rich.console import RenderableType


@grouped
def runs(
    *, paths: Paths = None, reading: Reading, json: Json = False, quiet: Quiet = False
) -> None:
    """List the runs that were read, what was refused and why, and what is missing.

    Example: twoclock runs outputs/ --batch-size 512
    """
    from twoclock.overview import run_rows
    from twoclock.report.listing import run_list
    from twoclock.runs import read_runs

    with Bar(quiet=quiet) as bar:
        found = read_runs(paths or [], reading.options(), progress=bar)
    _print(run_rows(found), run_list, json=json)
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
    from twoclock.report.listing import event_list

    job = Job(tuple(map(str, paths or ())), reading.options(), settings_of(reading, rule, fitting))
    with Bar(quiet=quiet) as bar:
        table, notes, refused = list_events(job, progress=bar)
    _print(table, event_list, json=json)
    if not quiet:
        _remarks(notes, refused)


def schema() -> None:
    """Print the JSON Schema of the native log format: run.json and a line of metrics.jsonl.

    Example: twoclock schema > twoclock-run.schema.json
    """
    import orjson

    from twoclock.log_schema import json_schema

    sys.stdout.write(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode() + "\n")


def _print(
    table: pd.DataFrame, listed: Callable[[pd.DataFrame], RenderableType], *, json: bool
) -> None:
    if json:
        import orjson

        from twoclock.results import plain

        rows = [
            {str(key): _json(plain(value)) for key, value in row.items()}
            for row in table.to_dict("records")
        ]
        sys.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.console import Console

    Console().print(listed(table))


def _json(value: Any) -> Any:
    return None if value in ("inf", "-inf") else value


def _remarks(notes: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    for note in notes:
        where = f"{note.where}: " if note.where else ""
        print(f"warning: {where}{note.message} [{note.code}]", file=sys.stderr)
    for item in refused:
        print(f"refused: {item.path}: {item.reason}", file=sys.stderr)
