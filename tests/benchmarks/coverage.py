"""Coverage of the three intervals and of the separation bound, by simulation.

Run by hand (``python -m tests.benchmarks.coverage [REPS]``); prints a table. The figures quoted in
docstrings and in the documentation come from here. Nominal level 95 %; responses are log-normal.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from tests.fit_tables import table
from twoclock.fit.bounds import separation_bound
from twoclock.fit.estimate import Problem, choose_sigma
from twoclock.fit.headline import headline
from twoclock.fit.identify import DOWN
from twoclock.fit.resample import SeedWeights
from twoclock.fit.settings import FitSettings
from twoclock.laws import LAWS

SIZES = (64, 256, 1024, 4096, 16384)
TRUTH, DRAWS = 0.3, 1000


@dataclass(frozen=True)
class Case:
    """One simulated design."""

    name: str
    seeds: tuple[int, ...]
    sigma: tuple[float, ...] = (0.4,) * 5
    grid: float | None = None
    cap: float = np.inf
    mode: str = "auto"


RISING = (0.2, 0.28, 0.4, 0.56, 0.8)
CASES = (
    Case("2 seeds, exact", (2,) * 5),
    Case("3 seeds, exact", (3,) * 5),
    Case("5 seeds, exact", (5,) * 5),
    Case("3 seeds, validated every max(B, 8192)", (3,) * 5, grid=8192.0),
    Case("5 seeds, validated every max(B, 8192)", (5,) * 5, grid=8192.0),
    Case("3 seeds, 35 % right-censored", (3,) * 5, cap=1.5e5),
    Case("5 seeds, 35 % right-censored", (5,) * 5, cap=1.5e5),
    Case("3 seeds, sd ratio 4", (3,) * 5, RISING),
    Case("5 seeds, sd ratio 4", (5,) * 5, RISING),
    Case(
        "5 seeds, sd ratio 4, censored, sigma constant", (5,) * 5, RISING, None, 1.5e5, "constant"
    ),
    Case("5 seeds, sd ratio 4, censored, sigma auto", (5,) * 5, RISING, None, 1.5e5),
    Case("3, 3, 3, 1, 1 seeds", (3, 3, 3, 1, 1)),
    Case("5, 1, 1, 1, 1 seeds", (5, 1, 1, 1, 1)),
    Case("1 seed everywhere", (1,) * 5),
    Case("2 sizes, 3 seeds", (3, 3), (0.4,) * 2),
)


def draw(rng: np.random.Generator, case: Case) -> dict[int, list[object]]:
    """Return the runs of one simulated data set."""
    cells: dict[int, list[object]] = {}
    for size, seeds, sigma in zip(SIZES, case.seeds, case.sigma, strict=False):
        values = 1e5 * (size / 512) ** TRUTH * np.exp(sigma * rng.normal(size=seeds))
        cells[size] = [_seen(value, size, case) for value in values]
    return cells


def _seen(value: float, size: int, case: Case) -> object:
    if value > case.cap:
        return f">{case.cap}"
    if case.grid is None:
        return value
    every = max(float(size), case.grid)
    count = np.ceil(value / every)
    return (count - 1) * every, count * every


def study(case: Case, reps: int) -> str:
    """Return the row of one design."""
    rng = np.random.default_rng(0)
    held = dict.fromkeys(("headline", "percentile", "profile"), 0)
    errors, settings = [], FitSettings(draws=DRAWS, sigma=case.mode)
    for _ in range(reps):
        rows = table(draw(rng, case)).sort_values("run_id")
        problem, found = choose_sigma(Problem.of(rows, LAWS["power"]), settings.sigma)
        if not found.ok[0]:
            continue
        weights = SeedWeights.of(rows, draws=DRAWS, rng=rng)
        point = headline(problem, found, rows, weights, settings).exponent
        errors.append(point.estimate - TRUTH)
        ends = {
            "headline": (point.lower, point.upper),
            "percentile": point.percentile,
            "profile": point.profile,
        }
        for name, pair in ends.items():
            held[name] += pair is not None and pair[0] <= TRUTH <= pair[1]
    n = len(errors)
    shares = "".join(f"{held[name] / n:11.3f}" for name in held)
    return f"{case.name:48s}{np.mean(errors):+8.3f}{shares}{n:7d}"


def separated(seeds: int, margin: float, reps: int) -> str:
    """Return the row of one separated design, the small size `margin` sigmas beyond the cap."""
    rng, slope, cap, sigma = np.random.default_rng(1), -0.8, np.log(1e6), 0.5
    size = np.repeat([64, 512], seeds)
    level = cap + margin * sigma + slope * np.log(size / 64)
    calibrated = chi = seen = tries = 0
    while seen < reps and tries < 100 * reps:
        tries += 1
        y = level + sigma * rng.normal(size=2 * seeds)
        if not (y[:seeds] > cap).all() or (y[seeds:] > cap).any():
            continue
        cells = {64: [">1e6"] * seeds, 512: np.exp(y[seeds:]).tolist()}
        problem = Problem.of(table(cells), LAWS["power"])
        seen += 1
        calibrated += slope <= separation_bound(problem, DOWN, 0.95)
        chi += slope <= separation_bound(problem, DOWN, 0.95, chi_square=True)
    name = f"{seeds} seeds, separates in {seen / tries:.0%}"
    return f"{name:34s}{calibrated / seen:14.3f}{chi / seen:14.3f}{seen:7d}"


def main() -> None:
    """Print both tables."""
    reps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(
        f"{'design':48s}{'bias':>8s}{'headline':>11s}{'percentile':>11s}{'profile':>11s}{'n':>7s}"
    )
    for case in CASES:
        print(study(case, reps), flush=True)
    print(f"\n{'separated':34s}{'calibrated':>14s}{'chi-square':>14s}{'n':>7s}")
    for seeds in (2, 3, 5):
        for margin in (0.3, 1.0):
            print(separated(seeds, margin, reps // 2), flush=True)


if __name__ == "__main__":
    main()
