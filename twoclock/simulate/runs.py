"""Runs and events with known truth, to test estimators and to plan experiments.

What is true and how it is observed are settings of `twoclock.simulate.truth`. The policy of a run
changes only when a rollout is finished, and validations see it through binomial noise.
Both clocks are log-normal over seeds around a power law of the batch size. Nothing here fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from twoclock.errors import SettingsError
from twoclock.events.series import Bools, Floats
from twoclock.events.table import interval
from twoclock.schema import EVALS, EVENTS, RUNS, STEPS, conform, empty
from twoclock.simulate.truth import Design, Law, Truth

__all__ = ["Design", "Law", "SimulatedRuns", "Truth", "simulate_events", "simulate_runs"]

GROUP_SIZE = 8
STEPS_PER_ROLLOUT = 8


def simulate_events(
    law: Law,
    design: Design,
    rng: np.random.Generator,
    *,
    clock: Literal["learning", "failure"] = "learning",
    target: float = 0.6,
) -> pd.DataFrame:
    """Return an events table drawn directly from a law, and the true responses beside.

    Validated every v rollouts, an event at R is known as ``(floor, floor + v*B]`` with floor the
    multiple of v*B below R; not seen by the last validation before the cap, it is right-censored
    there. The clock's floor (R >= B) is not imposed.

    Parameters
    ----------
    law : Law
        Truth.
    design : Design
        Runs and observation.
    rng : numpy.random.Generator
        Source of randomness.
    clock : {"learning", "failure"}
        Which clock the rows are of.
    target : float
        Accuracy written into learning rows.

    Returns
    -------
    DataFrame
        `schema.EVENTS` and `truth` (responses).

    Examples
    --------
    >>> events = simulate_events(Law(0.0, 30_000.0, 0.0), Design((64, 4096), 1, every_rollouts=20),
    ...                          np.random.default_rng(0))
    >>> events[["lower", "upper", "censoring"]].values.tolist()
    [[29440.0, 30720.0, 'interval'], [0.0, 81920.0, 'left']]
    """
    size, seed = design.cells()
    truth = law.draw(size, seed, rng)
    between = design.rollouts_between(size)
    if between is None:
        lower, upper, last = truth, truth, np.full(len(truth), design.cap)
    else:
        step = between * size
        upper = np.ceil(truth / step) * step
        lower, last = upper - step, np.floor(design.cap / step) * step
    late = upper > last
    lower, upper = np.where(late, last, lower), np.where(late, math.inf, upper)
    rows = [
        interval(low, high, "simulated", [])
        for low, high in zip(lower.tolist(), upper.tolist(), strict=True)
    ]
    frame = pd.DataFrame(rows).assign(
        run_id=_names(size, seed),
        clock=clock,
        target=target if clock == "learning" else math.nan,
        batch_size=size,
        seed=seed,
        flags="",
        clip_active="no",
        truth=truth,
    )
    return conform(frame, EVENTS, where="simulated events")


@dataclass(frozen=True)
class SimulatedRuns:
    """Tables in schema form, and the truth behind them.

    Parameters
    ----------
    runs, steps, evals : DataFrame
        As `schema` says.
    truth : DataFrame
        run_id, batch_size, seed, responses_to_target, responses_to_failure (inf: never).
    """

    runs: pd.DataFrame
    steps: pd.DataFrame
    evals: pd.DataFrame
    truth: pd.DataFrame


def simulate_runs(
    truth: Truth,
    design: Design,
    rng: np.random.Generator,
    *,
    train_rows: bool = True,
    base_lr: float = 1e-5,
) -> SimulatedRuns:
    """Return whole runs: a validation curve and train rows for every seed of every batch size.

    Parameters
    ----------
    truth : Truth
        How runs learn and fail.
    design : Design
        Runs and observation; validations at rollouts 0, v, 2v, ...
    rng : numpy.random.Generator
        Source of randomness: the laws' draws come first, so that the truth of a seed does not
        depend on how its runs are observed.
    train_rows : bool
        Whether to make the `steps` table (one row per rollout).
    base_lr : float
        Learning rate at the smallest B; the others by the square-root rule.

    Raises
    ------
    SettingsError
        The design never ends.

    Examples
    --------
    >>> made = simulate_runs(Truth(), Design((64, 256), 2, 5120.0), np.random.default_rng(0))
    >>> len(made.runs), len(made.steps), len(made.evals)
    (4, 200, 204)
    """
    if math.isinf(design.cap):
        msg = f"cap == {design.cap}, must be finite where whole runs are made"
        raise SettingsError(msg)
    size, seed = design.cells()
    reached = truth.learning.draw(size, seed, rng)
    failed = np.full(len(size), math.inf)
    if truth.failure is not None:
        failed = truth.failure.draw(size, seed, rng)
    names = _names(size, seed)
    between = design.rollouts_between(size)
    every = np.ones(len(size)) if between is None else between
    evals, steps = [], []
    for k, name in enumerate(names):
        rollouts = np.arange(int(design.cap // size[k]) + 1)
        true = truth.accuracy(rollouts * size[k], float(reached[k]), float(failed[k]))
        evals.append(_evals(name, true, int(size[k]), int(every[k]), design.n_problems, rng))
        if train_rows:
            dead = rollouts[1:] * size[k] > failed[k] if truth.kind == "nonfinite" else None
            steps.append(_steps(name, true, int(size[k]), dead, rng))
    drawn = pd.DataFrame(
        {
            "run_id": names,
            "batch_size": size.astype(int),
            "seed": seed.astype(int),
            "responses_to_target": reached,
            "responses_to_failure": failed,
        }
    )
    table = conform(pd.concat(steps, ignore_index=True), STEPS) if steps else empty(STEPS)
    scored = conform(pd.concat(evals, ignore_index=True), EVALS)
    return SimulatedRuns(_runs(names, size, seed, design, base_lr), table, scored, drawn)


def _names(size: Floats, seed: Floats) -> list[str]:
    return [f"b{b:.0f}-s{s:.0f}" for b, s in zip(size, seed, strict=True)]


def _evals(
    name: str, true: Floats, size: int, every: int, n: int | None, rng: np.random.Generator
) -> pd.DataFrame:
    rollouts = np.arange(0, len(true), every)
    seen = true[rollouts]
    if n is not None:
        seen = rng.binomial(n, seen) / n
    columns: dict[str, Any] = {"run_id": name, "responses": rollouts * size, "rollout": rollouts}
    fixed = {"n": math.nan if n is None else n, "metric": "accuracy", "scale": "accuracy"}
    return pd.DataFrame({**columns, "accuracy": seen, **fixed})


def _steps(
    name: str, true: Floats, size: int, dead: Bools | None, rng: np.random.Generator
) -> pd.DataFrame:
    """Return train rows: the reward of rollout k is that of the policy after rollout k-1."""
    rollouts = np.arange(1, len(true))
    loss = 0.01 * rng.standard_normal(len(rollouts))
    bad = np.zeros(len(rollouts), dtype=bool) if dead is None else dead
    return pd.DataFrame(
        {
            "run_id": name,
            "rollout": rollouts,
            "optimizer_step": rollouts * STEPS_PER_ROLLOUT,
            "responses": rollouts * size,
            "reward": rng.binomial(size, true[:-1]) / size,
            "loss": np.where(bad, np.nan, loss),
            "nonfinite": np.where(bad, "loss", ""),
        }
    )


def _runs(
    names: list[str], size: Floats, seed: Floats, design: Design, base_lr: float
) -> pd.DataFrame:
    frame = pd.DataFrame({"run_id": names, "batch_size": size, "seed": seed}).assign(
        framework="twoclock",
        source="simulated",
        model="simulated",
        task="simulated",
        group_size=GROUP_SIZE,
        prompts_per_rollout=np.ceil(size / GROUP_SIZE),
        minibatches=STEPS_PER_ROLLOUT,
        epochs=1,
        optimizer_steps_per_rollout=STEPS_PER_ROLLOUT,
        lr=base_lr * np.sqrt(size / size.min()),
        base_lr=base_lr,
        clip_low=math.inf,
        clip_high=math.inf,
        clip_dual=math.inf,
        clip_active="no",
        eval_size=math.nan if design.n_problems is None else design.n_problems,
        ended="completed",
    )
    return conform(frame, RUNS, where="simulated runs")
