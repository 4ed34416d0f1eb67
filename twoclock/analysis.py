"""The whole analysis: runs (or a table of events) in, both clocks and their comparison out.

Reads no files and draws nothing; each step has a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from twoclock.clocks import Tables, Workbench, eligible_runs, failure_fit, learning_fit
from twoclock.compare import equivalence
from twoclock.contrasts import differences, rises, windows
from twoclock.errors import SettingsError
from twoclock.fit.resample import SeedWeights
from twoclock.lr_rule import with_base_lr
from twoclock.notes import Note, printable
from twoclock.observe import Observed, check_kept, observe
from twoclock.progress import Progress, silent
from twoclock.published import published
from twoclock.results import ClockFit, TwoClocks
from twoclock.runs import Runs
from twoclock.select import select_rows
from twoclock.settings import Settings
from twoclock.sources.events_table import EventsTable
from twoclock.strata import Stratum, stratify


def analyse(
    runs: Runs,
    settings: Settings | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> TwoClocks:
    """Fit and compare both clocks.

    Parameters
    ----------
    runs : Runs
        From `read_runs`.
    settings : Settings, optional
        Every choice; defaults otherwise.
    given : mapping, optional
        What else belongs into the settings of the result (paths, reading options).
    progress : callable, optional
        Called with (done, total, text).

    Returns
    -------
    TwoClocks
        Every fit, comparison and warning.

    Raises
    ------
    NoUsableRuns
        The selection keeps no run.
    TargetError
        None of the targets that were asked for is possible on the scale of any metric.
    """
    settings = settings or Settings()
    found = observe(runs, settings)
    benches = _benches(found.strata.strata, found.tables.runs, settings)
    learning: list[ClockFit] = []
    failure: list[ClockFit] = []
    for done, bench in enumerate(benches):
        progress(done, len(benches), "fitting")
        learning += _learning_fits(bench, found)
        native = _of(found.failures.events, bench.stratum)
        fit = failure_fit(bench, found.tables.take(bench.stratum.run_ids), native)
        if fit is not None:
            failure.append(fit)
    progress(len(benches), len(benches), "fitting")
    events = [table[settings.crossing] for _, table in found.learning]
    read = _Read(
        found.tables,
        pd.concat([*events, found.failures.events], ignore_index=True),
        found.failures.marks,
        runs,
        found.lr_rule,
        len(runs.runs),
        given or {},
    )
    notes = [*found.notes, *_clip_notes(found, settings)]
    return _result(settings, benches, (learning, failure), notes, read)


def analyse_events(
    table: EventsTable,
    settings: Settings | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> TwoClocks:
    """Fit and compare both clocks from a table of events that were measured elsewhere.

    Parameters
    ----------
    table : EventsTable
        From `read_events`.
    settings, given, progress
        As for `analyse`; targets keep the learning rows of those targets, failure rule and
        crossing do not apply.

    Returns
    -------
    TwoClocks
        One fit per clock, stratum and target of the table.
    """
    settings = settings or Settings()
    events = table.events
    if settings.select is not None:
        events = events[select_rows(events, settings.select)]
        check_kept(events, settings)
    events = _of_targets(events, settings)
    runs, rule, lr_notes = _runs_of(events, settings)
    strata = stratify(runs, by=settings.by, pool=settings.pool)
    benches = _benches(strata.strata, runs, settings, floor="warn")
    fits: dict[str, list[ClockFit]] = {"learning": [], "failure": []}
    for done, bench in enumerate(benches):
        progress(done, len(benches), "fitting")
        own = _of(events, bench.stratum)
        for _, part in own.groupby(["clock", "target"], dropna=False, sort=True):
            fit = bench.fit(part)
            fits[fit.clock].append(fit)
    progress(len(benches), len(benches), "fitting")
    nothing = pd.DataFrame()
    read = _Read(
        Tables(runs, nothing, nothing), events, nothing, table, rule, len(runs), given or {}
    )
    notes = [*table.notes, *lr_notes, *strata.notes]
    return _result(settings, benches, (fits["learning"], fits["failure"]), notes, read)


def _of_targets(events: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return the failure rows of a table and the learning rows of the targets asked for.

    A table that names no targets is about one; then the one asked for is its name.
    """
    if settings.task_targets:
        msg = "--target TASK=X: an events table names its targets itself; give --target X"
        raise SettingsError(msg)
    wanted = settings.targets
    learning = (events["clock"] == "learning").to_numpy(dtype=bool)
    if not wanted or not learning.any():
        return events
    targets = events["target"].to_numpy(dtype=np.float64)
    if len(wanted) == 1 and np.isnan(targets[learning]).all():
        return events.assign(target=np.where(learning, wanted[0], np.nan))
    close = np.isclose(targets[:, None], np.array(wanted)[None, :], rtol=0, atol=1e-9).any(axis=1)
    if not (learning & close).any():
        known = ", ".join(f"{t:g}" for t in sorted(set(targets[learning & ~np.isnan(targets)])))
        msg = f"--target {wanted[0]:g}: the events table has {known or 'no'} targets"
        raise SettingsError(msg)
    kept: pd.DataFrame = events[~learning | close]
    return kept


def _of(events: pd.DataFrame, stratum: Stratum) -> pd.DataFrame:
    return events[events["run_id"].isin(stratum.run_ids)]


def _benches(
    strata: Sequence[Stratum], runs: pd.DataFrame, settings: Settings, floor: str = "exclude"
) -> list[Workbench]:
    """Return one workbench per stratum, each with its own random stream."""
    benches = []
    streams = np.random.default_rng(settings.seed).spawn(len(strata))
    for stratum, stream in zip(strata, streams, strict=True):
        drawing, fitting = stream.spawn(2)
        weights = SeedWeights.of(
            _of(runs, stratum), draws=settings.draws, rng=drawing, resample=settings.resample
        )
        benches.append(Workbench(stratum, settings, weights, fitting, floor))
    return benches


def _learning_fits(bench: Workbench, found: Observed) -> list[ClockFit]:
    out = []
    for _, by_rule in found.learning:
        events = {rule: _of(table, bench.stratum) for rule, table in by_rule.items()}
        if len(events[bench.settings.crossing]):
            out.append(learning_fit(bench, events[bench.settings.crossing], events))
    return out


def _clip_notes(found: Observed, settings: Settings) -> list[Note]:
    """Say which runs the failure clock cannot use because clipping can act, or may."""
    table = found.tables.runs
    used = set(eligible_runs(table, include_clipped=settings.include_clipped))
    notes = []
    for state, text in (
        ("yes", "clipping can act in {} of {} runs: they do not feed the failure clock"),
        ("unknown", "whether clipping can act is unknown in {} of {} runs: they do not feed the "
         "failure clock (set clip_low, clip_high, clip_dual in runs.yaml, or --include-clipped)"),
    ):  # fmt: skip
        mask = (table["clip_active"].fillna("unknown") == state).to_numpy(dtype=bool)
        names = tuple(str(r) for r in table.loc[mask, "run_id"] if r not in used)
        if names:
            code = "clipped_runs" if state == "yes" else "clip_unknown"
            notes.append(Note(code, text.format(len(names), len(table)), names))
    return notes


def _runs_of(
    events: pd.DataFrame, settings: Settings
) -> tuple[pd.DataFrame, str, tuple[Note, ...]]:
    """Return one row per run of an events table, with base_lr, and the lr rule in words."""
    runs = events.drop_duplicates("run_id").reset_index(drop=True)
    if "lr" not in runs.columns and "base_lr" not in runs.columns:
        return runs, "no lr", ()
    for name in ("lr", "base_lr"):
        if name not in runs.columns:
            runs[name] = np.nan
    runs, rule, notes = with_base_lr(
        runs, gamma=settings.lr_rule, reference_batch=settings.reference_batch
    )
    return runs, rule.describe(), notes


@dataclass(frozen=True, eq=False)
class _Read:
    """What an analysis started from, for its result."""

    tables: Tables
    events: pd.DataFrame
    marks: pd.DataFrame
    source: Runs | EventsTable
    lr_rule: str
    n_read: int
    given: Mapping[str, Any]


def _result(
    settings: Settings,
    benches: Sequence[Workbench],
    fits: tuple[Sequence[ClockFit], Sequence[ClockFit]],
    notes: Sequence[Note],
    read: _Read,
) -> TwoClocks:
    learning, failure = fits
    by_stratum = {repr(dict(bench.stratum.values)): bench for bench in benches}

    def refit(fit: ClockFit, sizes: tuple[int, ...]) -> ClockFit:
        if sizes == fit.batch_sizes:
            return fit
        return by_stratum[repr(dict(fit.stratum))].fit(fit.events, sizes)

    rise, rise_notes = rises(learning, refit, level=settings.level)
    return TwoClocks(
        version=version("twoclock"),
        settings={
            **read.given,
            "analysis": settings.to_dict(),
            "found": {"lr_rule": read.lr_rule},
        },
        runs=read.tables.runs,
        steps=read.tables.steps,
        evals=read.tables.evals,
        events=read.events,
        marks=read.marks,
        learning=tuple(learning),
        failure=tuple(failure),
        equivalence=tuple(equivalence(fit, margin=settings.margin) for fit in failure),
        differences=differences(learning, failure, level=settings.level),
        rise=rise,
        safe_windows=windows(learning, failure, level=settings.level),
        published=published(),
        notes=(*notes, *rise_notes),
        refused=read.source.refused,
        files=tuple((printable(file.path), file.sha256) for file in read.source.files),
        n_read=read.n_read,
        n_used=len({str(r) for fit in (*learning, *failure) for r in fit.used["run_id"]}),
    )
