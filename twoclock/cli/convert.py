"""`twoclock convert`: any logs as three Parquet tables that every command reads at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from twoclock.cli.look import tell_notes, tell_refused
from twoclock.cli.options import Paths, Quiet, Reading, grouped
from twoclock.cli.progress import Bar


@grouped
def convert(
    *,
    paths: Paths = None,
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables.")],
    quiet: Quiet = False,
) -> None:
    """Write runs, steps and evals as Parquet; every command reads the folder like the logs.

    Example: twoclock convert outputs/ --batch-size 512 --out tables
    """
    from twoclock.runs import read_runs
    from twoclock.runs.store import write_store

    with Bar(quiet=quiet) as bar:
        found = read_runs(paths or [], reading.options(), progress=bar)
    write_store(found, out)
    tell_notes(found.notes, quiet=quiet)
    if not quiet:
        tell_refused(found.refused)
        counts = ((found.runs, "run"), (found.notes, "remark"), (found.refused, "refusal"))
        words = [f"{len(n):,} {what}{'' if len(n) == 1 else 's'}" for n, what in counts]
        print(f"{out}: {words[0]} written, with {words[1]} and {words[2]}", file=sys.stderr)
