"""`twoclock sweep`: a study's plan as a table, then its runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoclock.cli.options import Quiet, grouped
from twoclock.cli.progress import Bar
from twoclock.cli.training import done, load_trainer

if TYPE_CHECKING:
    from twoclock.trainer.plan import Plan, Row


@grouped
def sweep(
    *,
    study: Annotated[Path, typer.Argument(help="TOML file with [grid], [train], [[variant]].")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; that of the file by default.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Crews at a time; default: all cores.")
    ] = None,
    backend: Annotated[str, typer.Option(help="loky (local processes), dask or ray.")] = "loky",
    address: Annotated[str, typer.Option(help="Address of the Dask or Ray cluster.")] = "",
    crew_size: Annotated[int, typer.Option(help="Most runs trained at once by one process.")] = 16,
    checkpoint_every: Annotated[
        int, typer.Option(help="Responses of a run between checkpoints: what a kill can cost.")
    ] = 16_384,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train the grid of a study: batch sizes, learning rates, seeds; finished runs are skipped.

    A killed sweep goes on where it was. Example: twoclock sweep data/learning/study.toml
    """
    trainer = load_trainer()
    runs = trainer.load_study(study)
    options = trainer.SweepOptions(
        jobs=jobs,
        crew_size=crew_size,
        backend=backend,
        address=address,
        checkpoint_every=checkpoint_every,
        device=device,
    )
    show = None if quiet else show_plan
    if dry_run:
        show_plan(trainer.plan_sweep(runs, out or study.parent, options=options))
        return
    with Bar(quiet=quiet) as bar:
        folders = trainer.run_sweep(
            runs, out or study.parent, options=options, progress=bar, show=show
        )
    done(folders, quiet=quiet)


def show_plan(plan: Plan) -> None:
    """Print what a sweep will do, on stderr."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("variant", "B", "K", "base lr", "seeds", "runs", "responses", "state", "time"):
        words = name in ("variant", "base lr", "seeds", "state")
        table.add_column(name, justify="left" if words else "right")
    for row in plan.rows:
        table.add_row(*_cells(row, plan.jobs))
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 100)
    console.print(table)
    print(_sum(plan), file=sys.stderr)


def _cells(row: Row, jobs: int) -> list[str]:
    return [
        row.variant or "-",
        str(row.batch_size),
        str(row.steps_per_rollout),
        " ".join(f"{rate:g}" for rate in row.base_lrs),
        _spans(row.seeds),
        str(row.runs),
        f"{row.responses:,}",
        _state(row),
        duration(row.seconds / jobs) if row.seconds else "",
    ]


def _sum(plan: Plan) -> str:
    runs = sum(row.runs for row in plan.rows)
    left = runs - sum(row.finished for row in plan.rows)
    responses = sum(row.responses for row in plan.rows)
    text = f"{runs} runs, {responses:,} responses"
    if not left:
        return f"{text}; all are finished"
    first = f", {len(plan.bases)} base policies first" if plan.bases else ""
    return (
        f"{text}; {left} to train in {len(plan.crews)} crews, {plan.jobs} at a time{first}: "
        f"about {duration(plan.seconds)} on this machine, if it is otherwise idle"
    )


def _state(row: Row) -> str:
    counts: dict[str, Any] = {
        "finished": row.finished, "to resume": row.to_resume, "new": row.new
    }  # fmt: skip
    found = {name: n for name, n in counts.items() if n}
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{n} {name}" for name, n in found.items())


def _spans(numbers: tuple[int, ...]) -> str:
    """Return whole numbers with runs of neighbours as spans.

    Examples
    --------
    >>> _spans((0, 1, 2, 7, 9, 10))
    '0-2 7 9-10'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def duration(seconds: float) -> str:
    """Return a time span in words, to two figures or so.

    Examples
    --------
    >>> duration(0.4), duration(75), duration(5400), duration(360_000)
    ('1 s', '75 s', '1.5 h', '100 h')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 100 * 60:
        minutes = seconds / 60
        return f"{minutes / 60:.1f} h" if minutes >= 90 else f"{round(minutes)} min"
    return f"{seconds / 3600:.{1 if seconds < 36_000 else 0}f} h"
