"""From what a log says to the tables: responses counted, rows joined, one row per rollout.

The same for every format. All counts are of responses generated; where filtering or masking makes
the number trained on differ, both are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from twoclock.errors import MissingFacts, SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.runs.deriving import clip_activity, derive
from twoclock.runs.facts import HELPERS, gather
from twoclock.runs.frames import Seen, Work, column_values, evals_frame, look, steps_frame
from twoclock.runs.generated import count_generated, logged_counts
from twoclock.runs.probes import probes_frame
from twoclock.runs.resuming import Ticks
from twoclock.runs.schedule import describe_lr
from twoclock.runs.steps import find_course
from twoclock.runs.validation import choose
from twoclock.sources.base import Fact, Log
from twoclock.sources.columns import STEP_COLUMNS, STEP_KEYS
from twoclock.sources.rows import Floats

MAX_RESPONSES = 2**53
"""More responses than whole numbers in a float: the step or the batch size is wrong."""


@dataclass(frozen=True)
class Counted:
    """One run as tables.

    Parameters
    ----------
    run : dict
        Its `runs` row.
    steps, evals, probes : pandas.DataFrame
        Its rows of those tables, without `run_id`.
    notes : tuple of Note
        Remarks.
    """

    run: dict[str, Any]
    steps: pd.DataFrame
    evals: pd.DataFrame
    probes: pd.DataFrame
    notes: tuple[Note, ...]


def count_run(log: Log, given: Mapping[str, Any], options: ReadOptions) -> Counted:
    """Turn a log into tables.

    Parameters
    ----------
    log : Log
        What the file says.
    given : mapping
        Facts that the user gave for this run (options over `runs.yaml`).
    options : ReadOptions
        Aliases, factors and what to do with resets and repeats.

    Raises
    ------
    MissingFacts
        The batch size or the accuracy key is not known; the message says what gives it.
    SourceError
        The rows contradict themselves.
    """
    facts = gather(log, given, options.map)
    work = Work(log, facts, options, notes=list(log.notes))
    work.columns = {
        name: found
        for name, usual in STEP_COLUMNS.items()
        if (found := column_values(log, name, options, usual)) is not None
    }
    work.notes += _not_numbers(log)
    problems: list[MissingFacts] = []
    try:
        work.validations = choose(log, options.map.get("accuracy", ()), work.notes)
    except MissingFacts as err:
        problems.append(err)
    try:
        work.course = find_course(log, work.columns, work.validations, options)
        work.notes += work.course.notes
        if not work.columns and not work.validations and not problems:
            raise _nothing_known(log)
        work.notes += derive(work.facts, work.where, log.known)
        work.logged = logged_counts(log, options, work.facts)
        _need_batch_size(work)
    except MissingFacts as err:
        problems.append(err)
    if problems:
        reason = "; ".join(err.reason for err in problems)
        missing = tuple(dict.fromkeys(name for err in problems for name in err.facts))
        keys = {name: found for err in problems for name, found in err.candidates.items()}
        known = {name: fact.value for name, fact in work.facts.items() if name not in HELPERS}
        raise MissingFacts(reason, where=work.where, facts=missing, candidates=keys, known=known)
    return _tables(work)


def _nothing_known(log: Log) -> MissingFacts:
    """Say that no key of a log is a metric that is known, and which keys there are."""
    keys = sorted(str(key) for key in log.rows.names if key not in STEP_KEYS)
    named = ", ".join(keys[:8]) + (", ..." if len(keys) > 8 else "")
    msg = (
        f"no metrics: none of its keys is known ({named or 'there is none'}); name them with "
        "--map accuracy=KEY, --map reward=KEY"
    )
    return MissingFacts(msg, where=str(log.path), facts=("accuracy",))


def _not_numbers(log: Log) -> list[Note]:
    """Remark on values that are no numbers, under keys that otherwise hold numbers."""
    return [
        Note(
            "not_a_number",
            f"{bad.count} values of {key} are not numbers and left out, first {bad.example}",
            where=f"{log.path} row {bad.line}",
            count=bad.count,
        )
        for key, bad in sorted(log.rows.rejected.items())
        if key in log.rows.values
    ]


def _need_batch_size(work: Work) -> None:
    """Take the batch size from the log's own counts where no setting gives it, or check it.

    Raises
    ------
    MissingFacts
        Nothing gives it.
    """
    log, facts = work.log, work.facts
    seen = None if log.step_counts == "optimizer" else work.logged.batch_size(work.course)
    if "batch_size" in facts:
        size = facts["batch_size"].value
        if seen is not None and seen.value != size:
            message = f"batch size {size} is used; the log counts {seen.value} responses a rollout"
            work.notes.append(Note("batch_size_disagrees", message, where=work.where))
        return
    if seen is None:
        msg = f"batch size (responses per rollout) is not logged; {_remedy(log)}"
        raise MissingFacts(msg, where=work.where, facts=("batch_size",))
    facts["batch_size"] = seen
    derive(facts, work.where, log.known)


def _remedy(log: Log) -> str:
    """Return what gives the batch size of a log, in the words of its framework."""
    remedy = "give --batch-size, or batch_size in runs.yaml beside the log"
    if "prompts_per_process" in log.facts:
        return f"{remedy}; or --world-size, since the configuration counts prompts of one process"
    if log.step_counts == "optimizer":
        return (
            f"{remedy} (TRL: generation_batch_size; or --world-size, with "
            "gradient_accumulation_steps in runs.yaml)"
        )
    if log.framework == "verl":
        return f"{remedy}, or put the run's .hydra folder there"
    if log.known is not None:
        return f"{remedy}, or put the run's configuration there"
    return remedy


def _tables(work: Work) -> Counted:
    log, facts, options, notes = work.log, work.facts, work.options, work.notes
    ticks = Ticks.of(work.course, _rollouts_of(work), log.rows.count)
    seen = look(work, ticks)
    trains = seen.logged & ~_blank_rows(work, ticks)
    validated = work.validations[0].values if work.validations else None
    counts = count_generated(
        work.logged, log, ticks, facts, trains, validated, first_step=work.course.first_step
    )
    if len(counts.generated) and counts.generated[-1] > MAX_RESPONSES:
        msg = f"{counts.generated[-1]:.3g} responses cannot be; look at the step and batch size"
        raise SourceError(msg, where=work.where)
    notes += [*_repeats(work, seen), *counts.notes, *_left_truncated(ticks.tick, work.where)]
    lr = ticks.spread(work.columns["lr"], options.duplicates)[0] if "lr" in work.columns else None
    notes += describe_lr(facts, lr, counts.generated, work.where)
    del lr
    assumed = "assumed_steps_per_rollout" in {note.code for note in notes}
    synchronous = None if assumed else log.synchronous
    facts["clip_active"] = clip_activity(facts, synchronous=synchronous)
    steps = steps_frame(work, ticks, counts, trains, seen.bad)
    evals = [evals_frame(work, ticks, counts, series) for series in work.validations]
    probes = probes_frame(work, ticks, counts)
    shown = {name: fact for name, fact in facts.items() if name not in HELPERS}
    run = {name: fact.value for name, fact in shown.items()}
    run |= {f"{name}_from": fact.source for name, fact in shown.items()}
    run.setdefault("ended", "unknown")
    joined = pd.concat(evals, ignore_index=True) if evals else pd.DataFrame()
    return Counted(run, steps, joined, probes, tuple(notes))


def _blank_rows(work: Work, ticks: Ticks) -> npt.NDArray[np.bool_]:
    """Return the groups whose training values are all null only because every key is always there.

    Exports of whole tables write null for what was not logged. Such a log has null validations on
    most of its rows; a row without any training value is then no training row.
    """
    blank = np.zeros(len(ticks.tick), dtype=bool)
    if not work.validations or not work.columns:
        return blank
    values = work.validations[0].values
    if 2 * int((~np.isfinite(values.value)).sum()) < work.log.rows.count:
        return blank
    validated = np.isfinite(ticks.spread(values)[0])
    trained = np.zeros(len(ticks.tick), dtype=bool)
    for column in work.columns.values():
        trained |= np.isfinite(ticks.spread(column, work.options.duplicates)[0])
    return validated & ~trained


def _rollouts_of(work: Work) -> Floats:
    """Return the rollouts behind each step."""
    step, facts = work.course.step, work.facts
    if work.course.by_responses:
        return _ceil(step / facts["batch_size"].value)
    if work.log.step_counts == "rollout":
        return step
    steps = facts.get("optimizer_steps_per_rollout")
    if steps is None:
        message = (
            "one optimizer step per rollout is assumed; give optimizer_steps_per_rollout "
            "(or num_iterations) in runs.yaml"
        )
        work.notes.append(Note("assumed_steps_per_rollout", message, where=work.where))
        facts["optimizer_steps_per_rollout"] = Fact(1, "derived")
        return step
    return _ceil(step / facts.get("uneven_steps_per_rollout", steps).value)


def _ceil(values: Floats) -> Floats:
    return np.asarray(np.ceil(values - 1e-9), dtype=np.float64)


def _repeats(work: Work, seen: Seen) -> list[Note]:
    """Remark on steps that were logged several times with the same keys."""
    several_rows = work.log.known is not None and work.log.known.several_rows
    if seen.most < 2 or several_rows or work.log.step_counts != "rollout":
        return []
    how = "the mean counts" if work.options.duplicates == "mean" else "the last value counts"
    message = (
        f"{seen.repeated} steps are logged up to {seen.most} times; {how} (--duplicates last|mean)"
    )
    return [Note("repeated_steps", message, where=work.where, count=seen.repeated)]


def _left_truncated(tick: Floats, where: str) -> list[Note]:
    if not len(tick) or tick[0] <= 1:
        return []
    spacing = float(np.median(np.diff(tick))) if len(tick) > 1 else 1.0
    if tick[0] <= 1.5 * spacing:
        return []
    message = f"the log begins at step {tick[0]:g}; responses count from the start of the run"
    return [Note("left_truncated", message, where=where)]
