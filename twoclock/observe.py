"""What happened in the runs: strata, targets, and the events of both clocks. Nothing is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from twoclock.clocks import Tables
from twoclock.errors import NoUsableRuns, SettingsError, TargetAtBase, TargetError
from twoclock.events.find import find_failures, find_targets
from twoclock.events.table import EventTable
from twoclock.events.target import CROSSINGS, Target
from twoclock.events.target_choice import check_target, default_target
from twoclock.lr_rule import with_base_lr
from twoclock.notes import Note
from twoclock.runs import Runs
from twoclock.select import select_rows
from twoclock.settings import Settings
from twoclock.strata import Strata, stratify


@dataclass(frozen=True, eq=False)
class Observed:
    """Runs with their strata and the events of both clocks, before anything is fitted.

    Parameters
    ----------
    tables : Tables
        Runs (base_lr filled), steps, evals.
    strata : Strata
        The strata.
    failures : EventTable
        Failures on native grids, every run.
    learning : tuple of (float, dict of str to DataFrame)
        For each target, the learning events under every crossing rule.
    notes : tuple of Note
        Warnings so far.
    lr_rule : str
        How lr was scaled, in words.
    marks : DataFrame
        Marks for plots.
    """

    tables: Tables
    strata: Strata
    failures: EventTable
    learning: tuple[tuple[float, Mapping[str, pd.DataFrame]], ...]
    notes: tuple[Note, ...]
    lr_rule: str


def observe(runs: Runs, settings: Settings) -> Observed:
    """Return the events of both clocks for every run, with strata and targets; nothing is fitted.

    Raises
    ------
    NoUsableRuns
        The selection keeps no run.
    TargetError
        None of the targets that were asked for is possible on the scale of any metric.
    """
    if settings.select is not None:
        kept = runs.runs.loc[select_rows(runs.runs, settings.select), "run_id"]
        runs = runs.select(kept)
        check_kept(runs.runs, settings)
    table, rule, lr_notes = with_base_lr(
        runs.runs, gamma=settings.lr_rule, reference_batch=settings.reference_batch
    )
    table = _with_metric(table, runs.evals)
    tables = Tables(table, runs.steps, runs.evals)
    pool = tuple(name for name in settings.pool if name != "metric")
    several = len(table["metric"].unique()) > 1 and pool == settings.pool
    strata = stratify(table, by=(*settings.by, *(("metric",) if several else ())), pool=pool)
    failures = find_failures(table, runs.steps, runs.evals, settings.failure)
    learning, target_notes = _learning_events(tables, failures.events, settings)
    notes = (*runs.notes, *lr_notes, *strata.notes, *failures.notes, *target_notes)
    return Observed(tables, strata, failures, learning, notes, rule.describe())


def check_kept(rows: pd.DataFrame, settings: Settings) -> None:
    """Raise NoUsableRuns when the selection kept nothing."""
    if rows.empty:
        msg = f"--select {settings.select!r} keeps none of the runs"
        raise NoUsableRuns(msg)


def _learning_events(
    tables: Tables, failures: pd.DataFrame, settings: Settings
) -> tuple[tuple[tuple[float, Mapping[str, pd.DataFrame]], ...], tuple[Note, ...]]:
    """Return, per task, model and metric, the events of each target under every crossing rule."""
    groups = _target_groups(tables)
    _check_tasks(settings, [task for task, _ in groups])
    found: list[tuple[float, Mapping[str, pd.DataFrame]]] = []
    notes: list[Note] = []
    impossible: list[TargetError] = []
    for task, group in groups:
        asked = _asked(task, settings)
        try:
            targets = asked or (default_target(group.runs, group.evals),)
        except TargetError as err:
            notes.append(_no_target(err, group))
            continue
        for value in targets:
            try:
                check_target(group.runs, group.evals, Target(value))
            except TargetError as err:
                notes.append(_no_target(err, group))
                if asked and not isinstance(err, TargetAtBase):
                    impossible.append(err)
                continue
            if not asked:
                notes.append(_chosen(value, task))
            by_rule: dict[str, EventTable] = {
                rule: find_targets(
                    group.runs, group.steps, group.evals, Target(value, rule), failures
                )
                for rule in CROSSINGS
            }
            notes += by_rule[settings.crossing].notes
            found.append((value, {rule: table.events for rule, table in by_rule.items()}))
    if impossible and not found:
        raise impossible[0]
    return tuple(found), tuple(notes)


def _check_tasks(settings: Settings, tasks: list[str]) -> None:
    for name in settings.task_targets:
        if name not in tasks:
            known = ", ".join(sorted({task for task in tasks if task})) or "none is named"
            msg = f"--target {name}=...: no such task; the runs have: {known}"
            raise SettingsError(msg)


def _asked(task: str, settings: Settings) -> tuple[float, ...]:
    if task in settings.task_targets:
        return (settings.task_targets[task],)
    return settings.targets


def _no_target(err: TargetError, group: Tables) -> Note:
    runs = tuple(str(run) for run in group.runs["run_id"])
    named = ", ".join(runs[:3]) + (f" and {len(runs) - 3:,} more" if len(runs) > 3 else "")
    return Note("no_target", f"{named}: {err}", runs)


def _chosen(value: float, task: str) -> Note:
    what = f" of task {task}" if task else ""
    text = (
        f"target {value:g}{what} chosen: the highest multiple of 0.05 that half of the runs of "
        "every B reached (--target to choose another)"
    )
    return Note("default_target", text)


def _with_metric(runs: pd.DataFrame, evals: pd.DataFrame) -> pd.DataFrame:
    """Return `runs` with the metric that each was validated by; scores are called so."""
    first = evals.drop_duplicates("run_id").set_index("run_id")
    metric = runs["run_id"].map(first["metric"]).astype("string").fillna("")
    score = (runs["run_id"].map(first["scale"]) == "score").fillna(value=False)
    return runs.assign(metric=metric.where(~score.to_numpy(dtype=bool), metric + " (score)"))


def _target_groups(tables: Tables) -> list[tuple[str, Tables]]:
    """Return the runs of each task, model and metric, with the name of the task."""
    runs = tables.runs
    columns = (runs["task"], runs["model"], runs["metric"])
    texts = (column.astype("string").fillna("") for column in columns)
    keys = pd.Series(["\n".join(key) for key in zip(*texts, strict=True)])
    return [
        (str(key).partition("\n")[0], tables.take(tuple(runs["run_id"].iloc[rows.index])))
        for key, rows in keys.groupby(keys, sort=True)
    ]
