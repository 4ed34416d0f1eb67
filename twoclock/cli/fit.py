"""`twoclock fit`: the main job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twoclock.cli.options import (
    Fitting,
    Json,
    Out,
    Paths,
    Quiet,
    Reading,
    Rule,
    grouped,
    settings_of,
)
from twoclock.cli.progress import Bar
from twoclock.errors import SettingsError

if TYPE_CHECKING:
    from twoclock.results import TwoClocks

_FREE = {"paths", "out", "json", "quiet", "strict", "settings"}
"""Options that may stand beside --settings."""


@grouped
def fit(
    *,
    context: typer.Context,
    paths: Paths = None,
    reading: Reading,
    rule: Rule,
    fitting: Fitting,
    out: Out = None,
    json: Json = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="Repeat the fit of a settings.toml; only PATH and output options beside."
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 3 when a headline rests on one run a cell or one batch size."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit both clocks: exponents of responses-to-target and to-failure against batch size.

    Example: twoclock fit data/learning data/failure --out report
    """
    from twoclock.job import Job, run

    if settings is None:
        job = Job(
            tuple(map(str, paths or ())), reading.options(), settings_of(reading, rule, fitting)
        )
    else:
        _only_free(context)
        job = Job.load(settings, paths=tuple(map(str, paths or ())))
    with Bar(quiet=quiet) as bar:
        result = run(job, progress=bar)
        if out is not None:
            from twoclock.report import write_report

            write_report(result, out, progress=bar)
    show(result, json=json, out=out, quiet=quiet)
    if strict and result.thin:
        raise typer.Exit(3)


def _only_free(context: typer.Context) -> None:
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _FREE:
            msg = (
                f"--{name.replace('_', '-')} cannot stand beside --settings; edit the file instead"
            )
            raise SettingsError(msg)


def show(result: TwoClocks, *, json: bool, out: Path | None, quiet: bool) -> None:
    """Print a result: JSON alone, or the one-screen text."""
    if json:
        import orjson

        sys.stdout.write(orjson.dumps(result.to_dict(), option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        from rich.console import Console

        from twoclock.report.text import render

        Console().print(render(result))
    if out is not None and not quiet:
        print(f"written to {out}", file=sys.stderr)
