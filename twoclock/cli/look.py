"""`twoclock runs`, `events`, `schema`: what was read, what happened in it, what a log holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoclock.cli.options import Fitting, Json, Paths, Quiet, Reading, Rule, grouped, settings_of
from twoclock.cli.progress import Bar
from twoclock.errors import NoUsableRuns
from twoclock.notes import refusal_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from twoclock.notes import Note, Refusal
    from twoclock.runs import Runs


ASKED = ("missing_seed", "missing_lr", "no_validation")
"""Remarks on what `twoclock runs` asks for below its list, and so need not say above it."""


@grouped
def runs(
    *,
    paths: Paths = None,
    reading: Reading,
    sources: Annotated[
        bool,
        typer.Option("--sources", help="Say run by run where each fact and file came from."),
    ] = False,
    init: Annotated[
        bool,
        typer.Option("--init", help="Write what is missing into PATH as a runs.yaml to fill in."),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the runs that were read, what was refused and why, and what is missing.

    Example: twoclock runs outputs/ --batch-size 512
    """
    from twoclock.runs import read_runs
    from twoclock.runs.draft import write_draft

    nothing: NoUsableRuns | None = None
    found: Runs | None = None
    with Bar(quiet=quiet) as bar:
        try:
            found = read_runs(paths or [], reading.options(), progress=bar)
        except NoUsableRuns as err:
            if json or not any(item.facts for item in err.details):
                raise
            nothing = err
    refused = tuple(nothing.details) if found is None and nothing is not None else ()
    refused = refused if found is None else found.refused
    if init:
        file, blanks = write_draft(paths or [], found, refused)
        print(f"{file}: {blanks} blanks to fill in, then `twoclock runs` again", file=sys.stderr)
        return
    if found is not None:
        asked = () if json else ASKED
        tell_notes([n for n in found.notes if n.code not in asked], quiet=quiet)
    _show(found, refused, json=json, full=sources, quiet=quiet)
    if nothing is not None:
        raise NoUsableRuns(str(nothing))


def _show(
    found: Runs | None, refused: Sequence[Refusal], *, json: bool, full: bool, quiet: bool
) -> None:
    """Print the list, or its rows as JSON; refusals stand beside JSON on stderr."""
    from twoclock.overview import run_rows

    table = None if found is None else run_rows(found)
    if json and table is not None:
        _print_json(table)
        if not quiet:
            tell_refused(refused)
        return
    from rich.console import Console

    from twoclock.report.listing import run_list
    from twoclock.report.telling import refused_list, source_list, want_list
    from twoclock.runs.wants import list_wants

    console = Console(highlight=False)
    if found is not None and table is not None:
        console.print(run_list(table))
        if full:
            console.print(source_list(table, found.files))
    console.print(refused_list(refused, full=full), end="")
    console.print(want_list(list_wants(found, refused), full=full), end="")


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
    if json:
        _print_json(table)
    else:
        from rich.console import Console

        Console().print(event_list(table))
    tell_notes(notes, quiet=quiet)
    if not quiet:
        tell_refused(refused)


def schema() -> None:
    """Print the JSON Schema of the native log format: run.json and a line of metrics.jsonl.

    Example: twoclock schema > twoclock-run.schema.json
    """
    import orjson

    from twoclock.log_schema import json_schema

    sys.stdout.write(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode() + "\n")


def _print_json(table: pd.DataFrame) -> None:
    import orjson

    from twoclock.results import plain

    rows = [
        {str(key): _json(plain(value)) for key, value in row.items()}
        for row in table.to_dict("records")
    ]
    sys.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode() + "\n")


def _json(value: Any) -> Any:
    return None if value in ("inf", "-inf") else value


def tell_notes(notes: Sequence[Note], *, quiet: bool) -> None:
    """Print each remark on a line of stderr."""
    for note in () if quiet else notes:
        where = f"{note.where}: " if note.where else ""
        print(f"warning: {where}{note.message} [{note.code}]", file=sys.stderr)


def tell_refused(refused: Sequence[Refusal]) -> None:
    """Print what was refused and why, a line of stderr for each reason."""
    for line in refusal_lines(refused):
        print(f"refused: {line}", file=sys.stderr)
