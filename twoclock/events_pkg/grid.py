"""One grid of validations for runs that are compared over B, and the cells too coarse for it.

Validated every rollout, small batches have many more validations: more dips are seen, more lucky
recoveries, and a failure that does not depend on B seems to. Order of use: find failures on the
validations as logged, leave out `coarse_cells`, take the `common_grid` of the rest, find again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from twoclock.cleaning import one_metric
from twoclock.errors import TableError
from twoclock.schema import check_columns
from twoclock.series import Series, floats, spacings, split_runs

MIN_VALIDATIONS = 8
"""Validations that a cell needs to feed the failure exponent."""

MAX_SPACING = 0.25
"""Largest spacing of a cell's validations, as a share of the stratum's median failure."""


def common_grid(runs: pd.DataFrame, evals: pd.DataFrame, *, metric: str | None = None) -> float:
    """Return W: the coarsest validation spacing among the runs, in responses.

    The spacing of one run is the median gap between its validations (the first one counted from
    0), so that a single missed or additional validation does not change it.

    Raises
    ------
    TableError
        No run has a validation after responses 0.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a", "b"]})
    >>> evals = pd.DataFrame({"run_id": list("aaabb"), "responses": [0, 64, 128, 0, 512],
    ...                       "accuracy": 0.5})
    >>> common_grid(runs, evals)
    512.0
    """
    check_columns(evals, ("run_id", "responses", "accuracy"), where="evals")
    wanted = set(runs["run_id"].astype(str))
    chosen = one_metric(evals, metric)
    responses = floats(chosen, "responses")
    gaps = [spacings(Series(responses[rows])) for run, rows in split_runs(chosen) if run in wanted]
    medians = [float(np.median(gap)) for gap in gaps if len(gap)]
    if not medians:
        msg = "evals: no validation after responses 0 in these runs, so there is no common grid"
        raise TableError(msg)
    return max(medians)


@dataclass(frozen=True)
class CoarseCell:
    """A cell whose validations are too coarse or too few to feed the failure exponent.

    Parameters
    ----------
    batch_size : int
        B of the cell.
    reason : str
        One phrase with the numbers.
    spacing : float
        Median over its runs of the largest gap between validations, responses.
    n_validations : int
        Validations of its longest run.
    run_ids : tuple of str
        Its runs.
    """

    batch_size: int
    reason: str
    spacing: float
    n_validations: int
    run_ids: tuple[str, ...]

    def to_dict(self) -> Mapping[str, object]:
        """Return a JSON object."""
        return {
            "batch_size": self.batch_size,
            "reason": self.reason,
            "spacing": self.spacing if np.isfinite(self.spacing) else None,
            "n_validations": self.n_validations,
            "run_ids": list(self.run_ids),
        }


def coarse_cells(events: pd.DataFrame) -> list[CoarseCell]:
    """Return the cells of one stratum that do not feed the failure exponent.

    A cell is too coarse when the spacing of its validations exceeds a quarter of the stratum's
    median failure (middle of the failure intervals), and too short when none of its runs has eight
    validations: the longest run tells, because a run that fails early also stops early, and cells
    must not be chosen by their outcome.

    Parameters
    ----------
    events : DataFrame
        Failure events of one stratum on the validations as logged (`find_failures` without grid).

    Examples
    --------
    >>> events = pd.DataFrame({"run_id": ["a", "b"], "batch_size": [64, 4096],
    ...     "lower": [29440.0, 0.0], "upper": [30720.0, 81920.0],
    ...     "spacing": [1280.0, 81920.0], "n_validations": [60, 3]})
    >>> [(c.batch_size, c.reason) for c in coarse_cells(events)]
    [(4096, 'validated every 81920 responses, over a quarter of the median failure at 35520')]
    """
    check_columns(
        events,
        ("run_id", "batch_size", "lower", "upper", "spacing", "n_validations"),
        where="events",
    )
    upper = floats(events, "upper")
    failed = np.isfinite(upper) & (upper > 0)
    middle = 0.5 * (floats(events, "lower") + upper)[failed]
    median = float(np.median(middle)) if len(middle) else np.inf
    cells = []
    for size, cell in events.groupby("batch_size", sort=True):
        spacing = float(np.median(floats(cell, "spacing")))
        count = int(cell["n_validations"].max())
        reason = _reason(spacing, count, median)
        if reason:
            names = tuple(str(run) for run in cell["run_id"])
            cells.append(CoarseCell(int(str(size)), reason, spacing, count, names))
    return cells


def _reason(spacing: float, count: int, median: float) -> str:
    if spacing > MAX_SPACING * median:
        where = f"over a quarter of the median failure at {median:.0f}"
        return f"validated every {spacing:.0f} responses, {where}"
    if count < MIN_VALIDATIONS:
        return f"{count} validations in its longest run, fewer than {MIN_VALIDATIONS}"
    return ""
