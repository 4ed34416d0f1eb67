"""`twoclock simulate`: runs with a known truth, to try the whole path on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from twoclock.cli.options import Quiet


def simulate(
    out: Annotated[Path, typer.Argument(help="Each run is written to OUT/RUN_ID.")],
    *,
    alpha: Annotated[float, typer.Option(help="True exponent of responses-to-target.")] = 0.3,
    sigma: Annotated[float, typer.Option(help="Spread of log responses between seeds.")] = 0.3,
    failure_alpha: Annotated[
        float | None,
        typer.Option(help="True exponent of responses-to-failure; none fails without."),
    ] = None,
    failure_at: Annotated[
        float, typer.Option(help="Median responses to failure at the smallest B.")
    ] = 50_000.0,
    batch_size: Annotated[
        list[int] | None,
        typer.Option(help="Rollout batch size; repeatable. [default: 64 256 1024]"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per batch size.")] = 5,
    cap: Annotated[float, typer.Option(help="Responses after which a run ends.")] = 100_000.0,
    problems: Annotated[int, typer.Option(help="Problems in a validation.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.", min=0)] = 0,
    quiet: Quiet = False,
) -> None:
    """Write simulated run logs whose exponents are known; the truth is in OUT.truth.csv.

    Example: twoclock simulate made --alpha 0.3 --failure-alpha 0 && twoclock fit made --target 0.6
    """
    import numpy as np

    from twoclock.simulate.logs import write_simulated
    from twoclock.simulate.runs import simulate_runs
    from twoclock.simulate.truth import Design, Law, Truth

    sizes = tuple(batch_size or (64, 256, 1024))
    design = Design(sizes, seeds, cap, every_responses=512.0, n_problems=problems)
    failure = None
    if failure_alpha is not None:
        scale = failure_at * min(sizes) ** -failure_alpha
        failure = Law(exponent=failure_alpha, coefficient=scale, sigma=sigma)
    made = simulate_runs(
        Truth(learning=Law(exponent=alpha, sigma=sigma), failure=failure),
        design,
        np.random.default_rng(seed),
    )
    folders = write_simulated(made, out)
    if not quiet:
        print(f"{len(folders)} runs in {out}", file=sys.stderr)
