"""A synthetic `TwoClocks` with plausible numbers, for tests of what draws or prints results.

The numbers come from a seeded simulation and plain least squares, not from the estimator.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from twoclock import schema
from twoclock.laws import PowerLaw
from twoclock.notes import Note, Refusal
from twoclock.results import (
    Bound,
    Cell,
    ClockFit,
    Difference,
    Equivalence,
    Exponent,
    FitRef,
    Influence,
    LackOfFit,
    SafeWindow,
    TwoClocks,
)

SIZES = (64, 256, 1024, 4096)
TARGET = 0.6


def make_stratum(base_lr, **more):
    """Return the columns of one stratum."""
    return {
        "framework": "twoclock",
        "task": "sort_6",
        "base_lr": base_lr,
        "optimizer_steps_per_rollout": 8,
        "group_size": 8,
        "clip_low": float("inf"),
        "clip_high": float("inf"),
        **more,
    }


def make_events(clock, base_lr, alpha, rng, sizes=SIZES, seeds=5, level=20_000.0):
    """Return events of one stratum: intervals, a right- and a left-censored run, one floor cell."""
    rows = []
    for size in sizes:
        for seed in range(seeds):
            sigma = 0.15 if clock == "learning" else 0.35
            time = level * (size / 512) ** alpha * np.exp(sigma * rng.standard_normal())
            step = max(size, 512)
            upper = max(step * np.ceil(time / step), size)
            lower, kind = upper - step, "interval"
            if lower <= 0:
                lower, kind = 0.0, "left"
            if clock == "failure" and time > 70_000:
                lower, upper, kind = 70_000.0, np.inf, "right"
            rows.append(
                {
                    "run_id": f"lr{base_lr:g}/B{size}/seed{seed}",
                    "clock": clock,
                    "target": TARGET if clock == "learning" else np.nan,
                    "batch_size": size,
                    "seed": seed,
                    "lower": lower,
                    "upper": upper,
                    "censoring": kind,
                    "reason": "isotonic crossing" if clock == "learning" else "accuracy drop",
                    "flags": "",
                    "clip_active": "no",
                    "used": True,
                    "why_not": "",
                }
            )
    frame = schema.conform(pd.DataFrame(rows), schema.EVENTS)
    if clock == "learning":
        floor = frame["batch_size"].to_numpy() * 5 > frame["upper"].to_numpy()
        sparse = [
            size for size in sizes if floor[frame["batch_size"].to_numpy() == size].mean() > 0.5
        ]
        out = frame["batch_size"].isin(sparse).to_numpy()
        frame["used"] = ~out
        frame["why_not"] = np.where(out, "floor_bound", "")
    return frame


def make_fit(clock, base_lr, alpha, rng, status="converged", **kwargs):
    """Return a ClockFit of simulated events."""
    events = make_events(clock, base_lr, alpha, rng, **kwargs)
    cells = tuple(_cell(size, group) for size, group in events.groupby("batch_size", sort=True))
    used = events[events["used"]]
    common = {
        "clock": clock,
        "stratum": make_stratum(base_lr),
        "targets": (TARGET,) if clock == "learning" else (),
        "law": PowerLaw(),
        "status": status,
        "cells": cells,
        "events": events,
        "lack_of_fit": None,
        "sensitivity": {"crossing_first": 0.21, "all_cells": None},
        "notes": (),
        "exponent": None,
        "bound": None,
        "parameters": None,
        "sigma": None,
        "coefficient": None,
        "loglik": None,
        "aicc": None,
        "influence": (),
    }
    if status == "bound":
        common["bound"] = Bound("upper", 0.31, None, 0.31, 0.95)
    if status == "converged":
        common.update(_least_squares(used))
    return ClockFit(**common)


def _cell(size, group):
    count = group["censoring"].value_counts()
    events = group[np.isfinite(group["upper"])]
    flags = ("floor_bound",) if not group["used"].any() else ()
    return Cell(
        batch_size=int(size),
        n_runs=len(group),
        **{f"n_{kind}": int(count.get(kind, 0)) for kind in ("exact", "interval", "left", "right")},
        rollouts_to_event=float((events["upper"] / size).median()) if len(events) else None,
        flags=flags,
        in_headline=not flags,
    )


def _least_squares(used):
    high = used["upper"].to_numpy(dtype=float)
    low = np.maximum(used["lower"].to_numpy(dtype=float), 1.0)
    y = np.log(np.where(np.isfinite(high), np.sqrt(low * np.where(high < np.inf, high, 1)), low))
    logs = np.log(used["batch_size"].to_numpy(dtype=float))
    x = np.column_stack([np.ones_like(logs), logs - logs.mean()])
    beta, *_ = np.linalg.lstsq(x, y, rcond=None)
    residual = y - x @ beta
    covariance = np.linalg.inv(x.T @ x) * residual.var(ddof=2)
    se = float(np.sqrt(covariance[1, 1]))
    law, center = PowerLaw(), float(logs.mean())
    return {
        "exponent": Exponent(
            estimate=float(beta[1]),
            se=se,
            lower=float(beta[1] - 2.1 * se),
            upper=float(beta[1] + 2.1 * se),
            level=0.95,
            method="jackknife-t",
            percentile=(float(beta[1] - 1.8 * se), float(beta[1] + 1.8 * se)),
            profile=(float(beta[1] - 2.0 * se), np.inf),
            df=18.0,
        ),
        "parameters": beta,
        "sigma": float(residual.std()),
        "coefficient": law.coefficient(beta, center=center),
        "loglik": -12.5,
        "aicc": 31.2,
        "center": center,
        "covariance": covariance,
        "df": 18.0,
        "lack_of_fit": LackOfFit(1.3, 2.0, 16.0, 0.29),
        "influence": (
            Influence({"batch_size": 64}, float(beta[1]) + 0.04),
            Influence({"run_id": str(used["run_id"].iloc[0])}, float(beta[1]) - 0.02),
            Influence({"run_id": str(used["run_id"].iloc[-1])}, None),
        ),
    }


def make_two_clocks(n_strata=3, *, seed=0, seeds=5, last="not_identified"):
    """Return a TwoClocks of `n_strata` base learning rates.

    With three strata or more the second learning fit is a one-sided bound, the last one has the
    status `last`.
    """
    rng = np.random.default_rng(seed)
    rates = 1e-5 * np.geomspace(1, 30, n_strata)
    learning, failure = [], []
    for i, rate in enumerate(rates):
        status = "converged"
        if n_strata >= 3 and i == 1:
            status = "bound"
        if n_strata >= 3 and i == n_strata - 1:
            status = last
        level = 24_000.0 / (1 + 3 * i / max(n_strata - 1, 1))
        alpha = 0.15 + 0.3 * i / max(n_strata - 1, 1)
        learning.append(
            make_fit("learning", rate, alpha, rng, status=status, level=level, seeds=seeds)
        )
        failure.append(make_fit("failure", rate, 0.05, rng, level=45_000.0, seeds=seeds))
    events = pd.concat([fit.events for fit in learning + failure], ignore_index=True)
    evals, marks = make_evals(events, rng)
    pair = make_difference(learning[0], failure[0])
    rise = make_difference(learning[-1], learning[0])
    return TwoClocks(
        version="0.1.0",
        settings={
            "targets": [TARGET],
            "level": 0.95,
            "margin": 0.10,
            "draws": 10_000,
            "by": [],
            "select": None,
            "map": {"reward": ["train/reward", 'odd "key"']},
        },
        runs=make_runs(events),
        steps=schema.empty(schema.STEPS),
        evals=evals,
        events=events.drop(columns=["used", "why_not"]),
        marks=marks,
        learning=tuple(learning),
        failure=tuple(failure),
        equivalence=tuple(make_equivalence(fit) for fit in failure),
        differences=(pair, rise) if n_strata > 1 else (pair,),
        rise=(rise,) if n_strata > 1 else (),
        safe_windows=(
            make_window(learning[0], failure[0], make_difference(failure[0], learning[0])),
        ),
        published=pd.DataFrame(
            {
                "clock": ["learning", "learning", "failure"],
                "base_lr": [1e-6, 1e-5, np.nan],
                "k": [8, 8, 8],
                "exponent": [0.15, 0.44, 0.0],
                "source": ["published, square-root rule"] * 3,
            }
        ),
        notes=(
            Note("cut_line", "last line is cut", ("a",), "a.jsonl line 3"),
            Note("cut_line", "last line is cut", ("b",), "b.jsonl line 9", 2),
            Note("confounded_with_B", "warmup_responses changes with B; 100% of runs_x", ("a",)),
        ),
        refused=(Refusal("logs/x_1.json", "batch size is not logged; give --batch-size"),),
        files=(("logs/a.jsonl", "00" * 32), ("logs/b & c.jsonl", "11" * 32)),
        n_read=len(events) // 2 + 1,
        n_used=len(events) // 2,
    )


def make_difference(a, b):
    """Return the difference of two fits' exponents, None where one has none."""
    refs = FitRef.of(a), FitRef.of(b)
    method = "paired jackknife-t" if a.clock != b.clock else "independent jackknife-t"
    differs = () if a.clock != b.clock else ("base_lr",)
    if a.exponent is None or b.exponent is None:
        return Difference(*refs, None, None, None, None, 0.95, method, differs=differs)
    value = a.exponent.estimate - b.exponent.estimate
    se = float(np.hypot(a.exponent.se, b.exponent.se))
    lower, upper = value - 2.1 * se, value + 2.1 * se
    return Difference(
        *refs, value, se, lower, upper, 0.95, method, (lower, upper), 0.03, differs, (64, 256, 1024)
    )


def make_equivalence(fit):
    """Return the verdict on a failure fit."""
    e = fit.exponent
    lower, upper = e.estimate - 1.7 * e.se, e.estimate + 1.7 * e.se
    inside = lower > -0.1 and upper < 0.1
    outside = lower > 0.1 or upper < -0.1
    verdict = "supported" if inside else "rejected" if outside else "inconclusive"
    return Equivalence(
        fit=FitRef.of(fit),
        margin=0.10,
        estimate=e.estimate,
        lower=lower,
        upper=upper,
        level=0.90,
        smallest_margin=max(abs(lower), abs(upper)),
        verdict=verdict,
        factor=64**0.10,
        runs_per_cell=36 if verdict == "inconclusive" else None,
    )


def make_window(learning, failure, difference):
    """Return the safe window of one stratum."""
    sizes = [float(size) for size in learning.batch_sizes]
    learn = learning.predict(sizes)["responses"].to_numpy()
    ratio = failure.predict(sizes)["responses"].to_numpy() / learn
    return SafeWindow(
        learning.stratum,
        TARGET,
        0.95,
        tuple(sizes),
        tuple(ratio),
        tuple(ratio * 0.7),
        tuple(ratio * 1.4),
        difference,
    )


def make_runs(events):
    """Return the runs table behind the events."""
    runs = events.drop_duplicates("run_id")[["run_id", "batch_size", "seed"]]
    return schema.conform(
        runs.assign(
            framework="twoclock", task="sort_6", group_size=8, ended="completed"
        ).reset_index(drop=True),
        schema.RUNS,
    )


def make_evals(events, rng):
    """Return validation curves that rise to the target and fall at the failure, and a dip mark."""
    rows, marks = [], []
    learning = events[events["clock"] == "learning"].set_index("run_id")
    failure = events[events["clock"] == "failure"].set_index("run_id")
    for run_id, event in learning.iterrows():
        end = failure.loc[run_id]
        last = end["lower"] if np.isinf(end["upper"]) else end["upper"] * 1.4
        size = int(event["batch_size"])
        step = max(size, 2048)
        grid = np.arange(0, last + step, step)
        rise = 0.25 + 0.66 * (1 - 0.5 ** (grid / max(event["upper"], 1.0)))
        value = np.where(grid < end["upper"], rise, 0.12) + 0.012 * rng.standard_normal(len(grid))
        rows.extend(
            {"run_id": run_id, "responses": int(r), "accuracy": float(np.clip(v, 0, 1)), "n": 500}
            for r, v in zip(grid, value, strict=True)
        )
        if event["seed"] == 0 and len(grid) > 4:
            marks.append((run_id, "dip", float(grid[3]), float(value[3])))
    evals = pd.DataFrame(rows).assign(metric="val/accuracy", scale="accuracy")
    return (
        schema.conform(evals, schema.EVALS),
        pd.DataFrame(marks, columns=["run_id", "kind", "responses", "value"]),
    )
