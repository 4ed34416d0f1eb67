"""One verdict per run: validations, non-finite rows and lost rewards put together.

The earliest failure counts. Nothing here builds tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from twoclock.cleaning import validation_series
from twoclock.errors import SettingsError
from twoclock.failure import Failure, Verdict, healthy_after, judge_accuracy
from twoclock.schema import check_columns
from twoclock.series import Series, TrainLog, train_logs
from twoclock.trainrows import REWARD_ROWS, Onset, non_finite, reward_lost

_CRASH_ROWS = 3
"""Train rows at the lowest reward before a crash that make it an abort for lack of signal."""

_SOLVED = 0.95
"""Mean reward of the last rows from which a run that was stopped counts as solved."""


@dataclass(frozen=True)
class Facts:
    """What the rule needs to know of a run beside the validations it judges.

    Parameters
    ----------
    native : Series
        All accepted validations, whatever the grid.
    log : TrainLog
        Train rows.
    ended : str
        How the run ended (`runs.ended`).
    usable : frozenset of str
        Watched columns that are finite somewhere in the runs read together.
    """

    native: Series
    log: TrainLog
    ended: str = "unknown"
    usable: frozenset[str] = frozenset()

    @property
    def end(self) -> float:
        """Responses at the end of the log."""
        last = float(self.native.responses[-1]) if len(self.native.responses) else 0.0
        return max(last, self.log.end)

    @property
    def solved(self) -> bool:
        """Whether the run was ended while its reward could hardly rise any further."""
        reward = self.log.reward[np.isfinite(self.log.reward)][-REWARD_ROWS:]
        return self.ended in ("crashed", "stopped") and len(reward) > 0 and reward.mean() >= _SOLVED

    def judged(self, grid: float | None) -> Series:
        """Return the validations that the rule looks at: all, or those on a grid."""
        return self.native if grid is None else self.native.on_grid(grid)


def run_facts(
    runs: pd.DataFrame, steps: pd.DataFrame, evals: pd.DataFrame, *, metric: str | None = None
) -> dict[str, Facts]:
    """Check the tables and return the facts of every run, in the order of `runs`.

    Raises
    ------
    TableError
        A column is missing, or a run has several metrics and none was chosen.
    """
    check_columns(runs, ("run_id", "batch_size"), where="runs")
    check_columns(steps, ("run_id", "responses"), where="steps")
    check_columns(evals, ("run_id", "responses", "accuracy"), where="evals")
    logs = train_logs(steps)
    curves = validation_series(runs, evals, logs, metric=metric)
    usable = frozenset(k for log in logs.values() for k, good in log.finite.items() if good.any())
    ended = runs["ended"].astype("string") if "ended" in runs.columns else [""] * len(runs)
    return {
        str(name): Facts(
            curves.get(str(name), Series()),
            logs.get(str(name), TrainLog()),
            "unknown" if pd.isna(end) else str(end),
            usable,
        )
        for name, end in zip(runs["run_id"], ended, strict=True)
    }


def grid_of(grid: float | Mapping[str, float] | None, run: str) -> float | None:
    """Return the grid spacing of one run in responses, None for its own validations.

    Raises
    ------
    SettingsError
        The spacing is not positive, or there is none for the run.
    """
    if grid is None:
        return None
    if isinstance(grid, Mapping):
        if run not in grid:
            msg = f"grid has no spacing for run {run}, must have one for every run"
            raise SettingsError(msg)
        grid = grid[run]
    if not 0 < grid < math.inf:
        msg = f"grid == {grid}, must be a positive number of responses"
        raise SettingsError(msg)
    return float(grid)


def judge(series: Series, facts: Facts, rule: Failure) -> Verdict:
    """Judge one run on the validations of `series` (its own, or those on the common grid).

    Non-finite rows count unless a later validation, on any grid, is healthy. An accuracy failure
    seen earlier than they start goes first; otherwise they give the narrower interval.

    Examples
    --------
    >>> log = TrainLog(np.arange(1.0, 7) * 64, np.full(6, np.nan),
    ...                {"loss": np.array([True] * 5 + [False])},
    ...                {"loss": np.array([False] * 5 + [True])})
    >>> v = judge(Series(), Facts(Series(), log), Failure())
    >>> v.status, v.reason, v.lower, v.upper
    ('failed', 'non-finite loss', 320.0, 384.0)
    """
    crashed = facts.ended == "crashed"
    onset = non_finite(facts.log, crashed=crashed, usable=facts.usable)
    if onset is not None and healthy_after(facts.native, rule, onset.upper):
        onset = None
    died = onset.upper if onset else facts.end if crashed else math.inf
    verdict = judge_accuracy(series, rule, end=facts.end, died=died)
    if onset is not None:
        earlier = verdict.status == "failed" and verdict.upper < onset.upper
        return verdict if earlier else _at_onset(verdict, series, onset)
    if verdict.status in ("healthy", "dip"):
        lost = reward_lost(facts.log, rule, rows=_CRASH_ROWS if crashed else REWARD_ROWS)
        if lost is not None and not np.any(facts.native.responses >= lost.upper):
            return replace(
                verdict,
                status="failed" if crashed else "suspect",
                reason="abort: no reward signal" if crashed else "suspect: train reward low",
                lower=lost.lower,
                upper=lost.upper,
            )
    return verdict


def _at_onset(verdict: Verdict, series: Series, onset: Onset) -> Verdict:
    """Return a failure at the first non-finite row; the last validation before it was healthy."""
    before = series.responses[series.responses < onset.upper]
    lower = max(onset.lower, float(before[-1]) if len(before) else 0.0)
    dips = tuple(d for d in verdict.dips if series.responses[d[1]] < onset.upper)
    return replace(
        verdict,
        status="failed",
        reason=onset.reason,
        lower=lower,
        upper=onset.upper,
        dips=dips,
        breach=None,
    )
