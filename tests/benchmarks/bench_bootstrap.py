"""Speed of 10,000 interval-censored bootstrap fits of 75 runs, as ratios measured in one run.

Run by hand (``python -m tests.benchmarks.bench_bootstrap``); prints a table. Ratios are to one
``scipy.special.log_ndtr`` call on a (10000, 75) array and to a loop of lifelines' fits (timed on
20, scaled), so that they mean the same on any machine.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from lifelines import LogNormalAFTFitter
from scipy.special import log_ndtr

from tests.fit_tables import simulate
from twoclock.fit.estimate import Problem, estimate
from twoclock.fit.resample import SeedWeights
from twoclock.laws import LAWS

DRAWS, SIZES, SEEDS, LOOP = 10_000, (64, 256, 1024, 4096, 16384), 15, 20


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Return the shortest wall time of some repeats, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def lifelines_loop(problem: Problem, weights: np.ndarray) -> Callable[[], None]:
    """Return a loop of lifelines' interval-censored fits of the first draws."""

    def work() -> None:
        for row in weights[:LOOP]:
            keep = row > 0
            frame = pd.DataFrame(
                {
                    "x": problem.data.design[keep, 1],
                    "lo": np.maximum(np.exp(problem.data.lower[keep]), 1.0),
                    "hi": np.exp(problem.data.upper[keep]),
                    "w": row[keep],
                }
            )
            LogNormalAFTFitter().fit_interval_censoring(frame, "lo", "hi", weights_col="w")

    return work


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    events = simulate(rng, SIZES, SEEDS, alpha=0.3, grid=8192.0)
    own = np.exp(rng.uniform(0.0, 0.01, len(events)))  # no two runs alike: nothing can be merged
    events = events.assign(lower=events["lower"] * own, upper=events["upper"] * own)
    problem = Problem.of(events, LAWS["power"])
    full = estimate(problem, problem.ones)
    start = full.fit.natural(0, loglinear=False)
    drawn = SeedWeights.of(events, draws=DRAWS, rng=rng)
    weights = drawn.columns_for(problem.run_ids)
    tilted = problem.with_sigma(loglinear=True)
    z = rng.normal(size=weights.shape)

    def fits() -> None:
        assert estimate(problem, weights, start=start).ok.all()

    unit = best_of(5, lambda: log_ndtr(z))
    ours = best_of(5, fits)
    loglinear = best_of(3, lambda: estimate(tilted, weights, start=np.append(start, 0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = best_of(1, lifelines_loop(problem, weights)) * DRAWS / LOOP
    print(f"{DRAWS} interval-censored fits of {len(problem)} runs")
    print(f"{'':34s}{'seconds':>10s}{'/ log_ndtr':>12s}{'speed-up':>10s}")
    rows = {
        "one log_ndtr on (10000, 75)": unit,
        "batch Newton": ours,
        "batch Newton, log-linear sigma": loglinear,
        f"lifelines loop ({LOOP} timed, scaled)": theirs,
    }
    for name, seconds in rows.items():
        print(f"{name:34s}{seconds:10.3f}{seconds / unit:12.1f}{theirs / seconds:10.0f}")


if __name__ == "__main__":
    main()
