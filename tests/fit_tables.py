"""Small events tables for the tests of the estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from twoclock.fit.censored import CensoredData

TABLES = Path(__file__).resolve().parents[2] / "shared" / "tables"

needs_tables = pytest.mark.skipif(
    not TABLES.is_dir(), reason="the published tables are not beside this checkout"
)


def table(cells: Mapping[int, Sequence[object]], *, clock: str = "learning") -> pd.DataFrame:
    """Return events: a number is exact, ">x" right-censored, a pair (lower, upper]."""
    rows = []
    for size, runs in cells.items():
        for seed, value in enumerate(runs):
            if isinstance(value, tuple):
                lower, upper = value
            elif isinstance(value, str):
                lower, upper = float(value.removeprefix(">")), np.inf
            else:
                lower = upper = float(value)
            rows.append((f"b{size}s{seed}", clock, size, seed, lower, upper, _kind(lower, upper)))
    names = ["run_id", "clock", "batch_size", "seed", "lower", "upper", "censoring"]
    out = pd.DataFrame(rows, columns=names)
    return out.assign(target=0.6 if clock == "learning" else np.nan)


def _kind(lower: float, upper: float) -> str:
    if lower == upper:
        return "exact"
    if upper == np.inf:
        return "right"
    return "left" if lower == 0 else "interval"


def line_data(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> CensoredData:
    """Return censored data on a line in x (log responses)."""
    design = np.column_stack([np.ones_like(x), x])
    return CensoredData(design, lower, upper, x - x.mean())


def simulate(
    rng: np.random.Generator,
    sizes: Sequence[int],
    seeds: int,
    *,
    alpha: float,
    sigma: float = 0.4,
    grid: float | None = None,
    cap: float = np.inf,
) -> pd.DataFrame:
    """Return log-normal events; validated every max(B, grid) responses when `grid` is given."""
    cells = {}
    for size in sizes:
        median = 1e5 * (size / 512) ** alpha
        runs: list[object] = []
        for value in median * np.exp(sigma * rng.normal(size=seeds)):
            if value > cap:
                runs.append(f">{cap}")
            elif grid is None:
                runs.append(value)
            else:
                every = max(float(size), grid)
                count = np.ceil(value / every)
                runs.append(((count - 1) * every, count * every))
        cells[size] = runs
    return table(cells)


def gsm8k(threshold: float, *, interval: bool = False, largest: bool = True) -> pd.DataFrame:
    """Return the published GSM8K crossings, exact or by their 25-step validation intervals."""
    raw = pd.read_csv(TABLES / "grpo_gsm8k_batch_size_crossings.csv")
    raw = raw[raw["gsm8k_threshold"] == threshold]
    size = raw["batch_size_responses"].to_numpy(dtype=float)
    at = raw["responses_to_threshold_or_last_step"].to_numpy(dtype=float)
    reached = raw["reached"].to_numpy() == 1
    events = pd.DataFrame(
        {
            "run_id": raw["run"].to_numpy(),
            "clock": "learning",
            "target": threshold,
            "batch_size": size.astype(int),
            "lower": np.where(reached & interval, at - 25 * size, at),
            "upper": np.where(reached, at, np.inf),
        }
    )
    kinds = [_kind(a, b) for a, b in zip(events["lower"], events["upper"], strict=True)]
    events = events.assign(censoring=kinds)
    return events if largest else events[events["batch_size"] < 65536]
