"""From tables of runs to tables of events: when each run reached the target, and when it failed.

Every event is an interval ``(lower, upper]`` of responses; what did not happen is right-censored,
never missing and never dropped. Rows are emitted for all runs: which of them feed a fit (clipping,
strata, floors) is decided later. The rules themselves are in `target`, `failure` and `verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from twoclock.events.failure import Failure, Verdict
from twoclock.events.series import Series, floats
from twoclock.events.table import (
    EventTable,
    assemble,
    flag_notes,
    interval,
    invalid_marks,
    marks_table,
    series_notes,
    verdict_marks,
)
from twoclock.events.target import Target, bracket
from twoclock.events.trainrows import never_finite
from twoclock.events.verdict import Facts, grid_of, judge, run_facts
from twoclock.schema import check_columns

__all__ = ["EventTable", "Failure", "Target", "find_failures", "find_targets"]


def find_targets(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    evals: pd.DataFrame,
    target: Target,
    failures: pd.DataFrame | None = None,
    *,
    metric: str | None = None,
) -> EventTable:
    """Return when every run reached the target: the learning clock.

    Parameters
    ----------
    runs, steps, evals : DataFrame
        Tables of `schema`.
    target : Target
        Accuracy and crossing rule.
    failures : DataFrame, optional
        Events of `find_failures`. A run that failed before it reached the target is right-censored
        at the upper end of its failure interval, flag ``failed_before_target``.
    metric : str, optional
        Which metric to use when runs have several.

    Returns
    -------
    EventTable
        clock ``learning``.

    Raises
    ------
    TableError
        A column is missing, or a run has several metrics.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "batch_size": [64]})
    >>> evals = pd.DataFrame({"run_id": "a", "responses": [0, 640, 1280],
    ...                       "accuracy": [0.1, 0.3, 0.6]})
    >>> steps = pd.DataFrame({"run_id": [], "responses": []})
    >>> found = find_targets(runs, steps, evals, Target(0.6)).events
    >>> found[["lower", "upper", "censoring"]].values.tolist()
    [[640.0, 1280.0, 'interval']]
    """
    curves = {
        name: facts.native for name, facts in run_facts(runs, steps, evals, metric=metric).items()
    }
    ends = _failure_ends(failures)
    rows = []
    for (name, series), warmup in zip(
        curves.items(), floats(runs, "warmup_responses"), strict=True
    ):
        row = _target_row(series, target, ends.get(name, math.inf))
        if 0 < row["upper"] <= warmup:
            row["flags"].append("inside_warmup")
        rows.append(row)
    events = assemble(runs, rows, curves, clock="learning", target=target.value)
    notes = (*series_notes(curves), *flag_notes(events))
    return EventTable(events, notes, marks_table(invalid_marks(curves)))


def find_failures(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    evals: pd.DataFrame,
    rule: Failure | None = None,
    *,
    grid: float | Mapping[str, float] | None = None,
    metric: str | None = None,
) -> EventTable:
    """Return when every run failed: the failure clock, one row per run, clipped or not.

    Parameters
    ----------
    runs, steps, evals : DataFrame
        Tables of `schema`.
    rule : Failure, optional
        The rule; its defaults when not given.
    grid : float or mapping of str to float, optional
        Spacing W in responses (one for all, or by run_id) of the common grid, see
        `twoclock.events.grid.common_grid`: each run keeps its last validation at or before every
        multiple of W, and the rule runs on those. Runs whose status differs from that on their own
        validations are flagged ``grid_sensitive``. Without it the rule runs on the validations as
        logged.
    metric : str, optional
        Which metric to use when runs have several.

    Returns
    -------
    EventTable
        clock ``failure``; status is failed, suspect, dip or healthy.

    Raises
    ------
    TableError
        A column is missing, or a run has several metrics.
    SettingsError
        The grid is not positive, or lacks a run.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "batch_size": [128]})
    >>> evals = pd.DataFrame({"run_id": "a", "responses": np.arange(8) * 1280,
    ...                       "accuracy": [.2, .45, .6, .62, .3, .05, 0, 0]})
    >>> steps = pd.DataFrame({"run_id": [], "responses": []})
    >>> found = find_failures(runs, steps, evals, Failure()).events
    >>> found[["status", "lower", "upper"]].values.tolist()
    [['failed', 3840.0, 5120.0]]
    """
    rule = rule or Failure()
    found = run_facts(runs, steps, evals, metric=metric)
    curves = {name: facts.native for name, facts in found.items()}
    rows: list[dict[str, Any]] = []
    marks = invalid_marks(curves)
    for name, facts in found.items():
        spacing = grid_of(grid, name)
        series = facts.judged(spacing)
        verdict = judge(series, facts, rule)
        row = _failure_row(verdict, facts, rule)
        if spacing is not None:
            row["grid"] = spacing
            if judge(facts.native, facts, rule).kind != verdict.kind:
                row["flags"].append("grid_sensitive")
        rows.append(row)
        marks += verdict_marks(name, series, verdict)
    events = assemble(runs, rows, curves, clock="failure", target=math.nan)
    notes = (*series_notes(curves), *flag_notes(events))
    return EventTable(events, notes, marks_table(marks))


def _failure_ends(failures: pd.DataFrame | None) -> dict[str, float]:
    """Return the responses by which each run had failed (inf: did not)."""
    if failures is None or failures.empty:
        return {}
    check_columns(failures, ("run_id", "upper"), where="failures")
    ends = failures["upper"].to_numpy(dtype=np.float64, na_value=math.inf)
    if {"status", "doubt_upper"} <= set(failures.columns):
        # a run that fell without ever having risen is censored on the failure clock, yet dead
        fell = (failures["status"] == "failed").fillna(value=False).to_numpy(dtype=bool)
        doubt = failures["doubt_upper"].to_numpy(dtype=np.float64)
        ends = np.where(fell & np.isinf(ends) & np.isfinite(doubt), doubt, ends)
    return dict(zip(failures["run_id"].astype(str), ends.tolist(), strict=True))


def _target_row(series: Series, target: Target, failed: float) -> dict[str, Any]:
    """Return the learning event of one run that failed by `failed` responses (inf: did not)."""
    lower, upper = bracket(series, target)
    if upper == 0:
        return interval(0.0, 0.0, "above the target before training", ["before_start"])
    if upper > failed:
        return interval(failed, math.inf, "failed before target", ["failed_before_target"])
    if not len(series.responses):
        return interval(0.0, math.inf, "no validation", ["no_validation"])
    reason = f"{target.crossing} crossing" if upper < math.inf else "not reached"
    return interval(lower, upper, reason, [])


def _failure_row(verdict: Verdict, facts: Facts, rule: Failure) -> dict[str, Any]:
    """Return the failure event of one run."""
    failed = verdict.status == "failed" or (verdict.status == "suspect" and rule.suspect == "event")
    flags = ["dip"] if verdict.dips else []
    flags += ["never_learned"] if verdict.never_learned else []
    flags += ["suspect"] if verdict.status == "suspect" else []
    flags += ["no_validation"] if not len(facts.native.responses) and not failed else []
    flags += ["solved"] if facts.solved and verdict.status in ("healthy", "dip") else []
    flags += [f"never_finite:{name}" for name in never_finite(facts.log)]
    # only a fall of accuracy is undone by not having risen: a non-finite loss is a failure anyway
    unrisen = verdict.never_learned and verdict.breach is not None
    reason = f"{verdict.reason}, but it never rose" if unrisen else verdict.reason
    upper = verdict.upper if failed and not unrisen else math.inf
    row = interval(verdict.lower, upper, reason, flags)
    row |= {"status": verdict.status, "peak": verdict.peak, "n_dips": len(verdict.dips)}
    if math.isinf(upper) and math.isfinite(verdict.upper):
        row |= {"doubt_lower": verdict.lower, "doubt_upper": verdict.upper}
    return row
