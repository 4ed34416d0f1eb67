"""The table that event finding returns: rows in the order of the runs, remarks, marks for plots.

Only assembles; what a row says is decided in `twoclock.events`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from twoclock.events.failure import Verdict
from twoclock.events.series import Series, spacings
from twoclock.notes import Note
from twoclock.schema import EVENTS, STRATUM_COLUMNS, conform

MARK_COLUMNS = ("run_id", "kind", "responses", "value", "until")
"""Columns of `EventTable.marks`; kind is dip, breach, peak or invalid."""

_FAILURE_COLUMNS = {
    "status": "string",
    "peak": "float64",
    "grid": "float64",
    "doubt_lower": "float64",
    "doubt_upper": "float64",
    "n_dips": "Int64",
}

Mark = tuple[str, str, float, float, float]

FLAG_NOTES = {
    "before_start": "above the target before training: no information about the learning clock",
    "failed_before_target": "failed before the target: right-censored at the end of its failure "
    "interval (the learning clock as if there were no failures)",
    "no_validation": "without any validation: nothing is known from accuracy",
    "inside_warmup": "reached the target inside the learning-rate warm-up",
    "suspect": "may have failed, not confirmed by the rule (--suspect censor|event|drop)",
    "never_learned": "never rose above the first validation by more than the floor: cannot fall "
    "(--never-learned drop|censor)",
    "grid_sensitive": "judged differently on the common grid and on its own validations",
    "solved": "stopped with rewards near the maximum: censored, not failed",
}
"""What each flag that makes a warning says of the runs that carry it."""


@dataclass(frozen=True)
class EventTable:
    """Events of one clock, with what was remarked on the way.

    Parameters
    ----------
    events : DataFrame
        `schema.EVENTS`, one row per run in the order of the runs, then n_validations, spacing
        (largest gap between validations as logged, responses), rollouts_to_event (upper divided by
        batch_size; inf when right-censored) and the stratum columns of the runs. Failures have
        status {failed, suspect, dip, healthy}, peak (accuracy), grid (responses; missing: as
        logged), doubt_lower and doubt_upper (responses: the interval of a fall that the table
        shows as censored) and n_dips beside.
    notes : tuple of Note
        Runs that were repaired, doubted or left without an answer.
    marks : DataFrame
        Points for plots: run_id, kind {dip, breach, peak, invalid}, responses, value, until (of a
        dip: responses at its recovery).
    """

    events: pd.DataFrame
    notes: tuple[Note, ...]
    marks: pd.DataFrame


def interval(lower: float, upper: float, reason: str, flags: list[str]) -> dict[str, Any]:
    """Return the columns of one event known to lie in ``(lower, upper]`` responses.

    Examples
    --------
    >>> interval(0.0, 64.0, "first crossing", [])["censoring"]
    'left'
    """
    if upper == 0:
        kind = "before_start"
    elif math.isinf(upper):
        kind = "right"
    elif lower == 0:
        kind = "left"
    else:
        kind = "exact" if lower == upper else "interval"
    return {"lower": lower, "upper": upper, "censoring": kind, "reason": reason, "flags": flags}


def assemble(
    runs: pd.DataFrame,
    rows: Sequence[dict[str, Any]],
    curves: Mapping[str, Series],
    *,
    clock: str,
    target: float,
) -> pd.DataFrame:
    """Return the events table: one row per run, `rows` and `curves` in the order of `runs`."""
    failure = clock == "failure"
    gaps = [spacings(series) for series in curves.values()]
    columns = ("lower", "upper", "censoring", "reason", *(_FAILURE_COLUMNS if failure else ()))
    frame = pd.DataFrame({name: [row.get(name) for row in rows] for name in columns})
    if failure:
        frame = frame.astype(_FAILURE_COLUMNS)
    frame["flags"] = [",".join(dict.fromkeys(row["flags"])) for row in rows]
    frame["run_id"], frame["clock"], frame["target"] = list(curves), clock, target
    frame["n_validations"] = [len(series.responses) for series in curves.values()]
    frame["spacing"] = [float(gap.max()) if len(gap) else math.nan for gap in gaps]
    for name in ("batch_size", "seed", "clip_active", *STRATUM_COLUMNS):
        if name in runs.columns:
            frame[name] = runs[name].reset_index(drop=True)
    frame["rollouts_to_event"] = frame["upper"].to_numpy() / runs["batch_size"].to_numpy(np.float64)
    return conform(frame, EVENTS, where="events")


def flag_notes(events: pd.DataFrame) -> tuple[Note, ...]:
    """Return one note for every flag that is a warning, naming its runs."""
    flags = [str(text).split(",") for text in events["flags"]]
    notes = []
    for code, text in FLAG_NOTES.items():
        runs = [str(r) for r, own in zip(events["run_id"], flags, strict=True) if code in own]
        if runs:
            notes.append(Note(code, f"{_count(runs)} {text}", tuple(runs)))
    broken: dict[str, list[str]] = {}
    for run, own in zip(events["run_id"], flags, strict=True):
        for flag in own:
            if flag.startswith("never_finite:"):
                broken.setdefault(flag.partition(":")[2], []).append(str(run))
    for name, runs in sorted(broken.items()):
        text = f"{name} unusable (never finite) in {_count(runs)}: not used to tell failures"
        notes.append(Note("never_finite", text, tuple(runs)))
    return tuple(notes)


def series_notes(curves: Mapping[str, Series]) -> tuple[Note, ...]:
    """Return notes on validations that were set aside or overwritten."""
    zero = [run for run, s in curves.items() if np.any(s.invalid[:, 1] == 0)]
    missing = [run for run, s in curves.items() if np.any(np.isnan(s.invalid[:, 1]))]
    twice = [run for run, s in curves.items() if s.repeats]
    found = (
        ("invalid_zero", zero, "validation 0 but train reward normal: those points are set aside"),
        ("invalid_validation", missing, "validations without a finite value: set aside"),
        ("repeated_validation", twice, "validations at equal responses: the last written counts"),
    )
    return tuple(
        Note(code, f"{_count(runs)}: {text}", tuple(runs)) for code, runs, text in found if runs
    )


def _count(runs: Sequence[str]) -> str:
    shown = ", ".join(runs[:5]) + (", ..." if len(runs) > 5 else "")
    return f"{len(runs)} run{'s' if len(runs) > 1 else ''} ({shown})"


def verdict_marks(run: str, series: Series, verdict: Verdict) -> list[Mark]:
    """Return the peak, the dips and the breach of one run."""
    marks: list[Mark] = []
    responses, accuracy = series.responses, series.accuracy
    if len(responses):
        stop = len(responses) if verdict.breach is None else verdict.breach
        at = int(np.argmin(np.abs(accuracy[:stop] - verdict.peak)))
        marks.append((run, "peak", float(responses[at]), float(accuracy[at]), math.nan))
    for i, j in verdict.dips:
        at_i, value, until = float(responses[i]), float(accuracy[i]), float(responses[j])
        marks.append((run, "dip", at_i, value, until))
    if verdict.breach is not None:
        i = verdict.breach
        marks.append((run, "breach", float(responses[i]), float(accuracy[i]), math.nan))
    return marks


def invalid_marks(curves: Mapping[str, Series]) -> list[Mark]:
    """Return the validations that were set aside."""
    return [
        (run, "invalid", float(responses), float(value), math.nan)
        for run, series in curves.items()
        for responses, value in series.invalid
    ]


def marks_table(marks: Iterable[Mark]) -> pd.DataFrame:
    """Return the marks as a frame, typed even when empty."""
    rows = sorted(marks, key=lambda mark: (mark[0], mark[2], mark[1]))
    frame = pd.DataFrame(rows, columns=list(MARK_COLUMNS))
    kinds = {"run_id": "string", "kind": "string"}
    numbers = dict.fromkeys(MARK_COLUMNS[2:], "float64")
    return frame.astype({**kinds, **numbers})
