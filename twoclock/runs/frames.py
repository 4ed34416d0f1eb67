"""The `steps` and `evals` rows of one run, once its rows are in order and its responses counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from twoclock.frameworks.base import Facts
from twoclock.frameworks.patterns import matching
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.runs.generated import Counts, Logged
from twoclock.runs.resuming import Course, Ticks
from twoclock.runs.validation import Validation, to_unit
from twoclock.sources.base import Log
from twoclock.sources.columns import ACCURACY_N, STEP_SECONDS
from twoclock.sources.rows import Floats, Values

Bools = npt.NDArray[np.bool_]

MAX_STEP_ROWS = 200_000
"""Step rows kept of one run; longer runs are thinned evenly, with a note."""

KEPT_AT_END = 1000
"""Last step rows that thinning never touches."""

_COUNTERS = ("optimizer_step", "responses_trained", "tokens", "flops", "seconds")


@dataclass
class Work:
    """One run on its way to the tables: what the steps of counting share.

    Parameters
    ----------
    log : Log
        What the file says.
    facts : dict of str to Fact
        What is known about the run so far.
    options : ReadOptions
        The user's choices.
    columns : dict of str to Values
        Training columns by name.
    validations : list of Validation
        Validation series.
    course : Course
        Rows that count, and where they stand.
    logged : Logged
        The log's own counts of responses.
    notes : list of Note
        Remarks so far.
    """

    log: Log
    facts: Facts
    options: ReadOptions
    columns: dict[str, Values] = field(default_factory=dict)
    validations: list[Validation] = field(default_factory=list)
    course: Course = field(default_factory=lambda: Course(np.empty(0, dtype=int), np.empty(0)))
    logged: Logged = field(default_factory=Logged)
    notes: list[Note] = field(default_factory=list)

    @property
    def where(self) -> str:
        """File, for messages."""
        return str(self.log.path)


def column_values(
    log: Log, name: str, options: ReadOptions, usual: tuple[str, ...]
) -> Values | None:
    """Return the values of a column, from the user's keys, the format's or the usual ones."""
    keys = (*options.map.get(name, ()), *log.columns.get(name, ()), *usual)
    found = matching(keys, log.rows.values)
    if not found:
        return None
    values = log.rows.values[found[0]]
    factor = options.scale.get(name)
    return values if factor is None else Values(values.at, values.value * factor)


@dataclass(frozen=True)
class Seen:
    """What the training columns say of the groups, without their values.

    Parameters
    ----------
    logged : array of bool, shape (g,)
        Groups with a training row.
    bad : mapping of str to array of bool, shape (g,)
        Non-finite values, of the columns that have any.
    most, repeated : int
        How often a column was logged at most in one group, and in how many groups more than once.
    """

    logged: Bools
    bad: Mapping[str, Bools]
    most: int = 0
    repeated: int = 0


def look(work: Work, ticks: Ticks) -> Seen:
    """Look through the training columns one by one: a long log has no room for all at once."""
    logged = np.zeros(len(ticks.tick), dtype=bool)
    bad: dict[str, Bools] = {}
    most = repeated = 0
    for name, column in work.columns.items():
        values, times = ticks.spread(column, work.options.duplicates)
        logged |= times > 0
        most = max(most, int(times.max(initial=0)))
        repeated = max(repeated, int((times > 1).sum()))
        mask = (times > 0) & ~np.isfinite(values)
        if name not in _COUNTERS and mask.any():
            bad[name] = mask
    return Seen(logged, bad, most, repeated)


def steps_frame(
    work: Work, ticks: Ticks, counts: Counts, trains: Bools, bad: Mapping[str, Bools]
) -> pd.DataFrame:
    """Return the `steps` rows, one for each group of rows with a training row.

    Parameters
    ----------
    work : Work
        The run.
    ticks : Ticks
        Its rows by rollout, g groups.
    counts : Counts
        Responses at each group.
    trains : array of bool, shape (g,)
        Groups with a training row.
    bad : mapping of str to array of bool, shape (g,)
        Groups where a column is not finite.
    """
    anything_bad = np.zeros(len(trains), dtype=bool)
    for mask in bad.values():
        anything_bad |= mask
    rows = _thinned(trains, anything_bad, work)
    data: dict[str, Any] = {
        "rollout": counts.rollout[rows],
        "responses": np.round(counts.generated[rows]),
    }
    if counts.trained is not None:
        data["responses_trained"] = np.round(counts.trained[rows])
    step_number = _optimizer_steps(work, ticks, counts, rows)
    if step_number is not None:
        data["optimizer_step"] = step_number
    for name, column in work.columns.items():
        picked = ticks.pick(column, rows, work.options.duplicates)
        data[name] = np.where(np.isfinite(picked), picked, np.nan)
    if "seconds" not in work.columns:
        seconds = _wall_seconds(work, ticks, counts, trains)
        data |= {} if seconds is None else {"seconds": seconds[rows]}
    names = np.full(len(rows), None, dtype=object)
    for at in np.flatnonzero(anything_bad[rows]):
        names[at] = ",".join(name for name, mask in bad.items() if mask[rows[at]])
    return pd.DataFrame({**data, "nonfinite": pd.array(names, dtype="string")}, copy=False)


def _thinned(trains: Bools, marked: Bools, work: Work) -> npt.NDArray[np.intp]:
    """Return the rows to keep of a very long run: the last ones, changes, and every k-th."""
    number = int(trains.sum())
    if number <= MAX_STEP_ROWS:
        return np.flatnonzero(trains)
    keep = np.zeros(number, dtype=bool)
    keep[:: -(-number // MAX_STEP_ROWS)] = True
    keep[-KEPT_AT_END:] = True
    changes = np.flatnonzero(np.diff(marked[trains]))
    keep[changes] = True
    keep[changes + 1] = True
    message = f"{number} step rows thinned to {int(keep.sum())}; validations are all kept"
    work.notes.append(Note("steps_thinned", message, where=work.where))
    kept = np.zeros(len(trains), dtype=bool)
    kept[trains] = keep
    return np.flatnonzero(kept)


def _optimizer_steps(
    work: Work, ticks: Ticks, counts: Counts, rows: npt.NDArray[np.intp]
) -> Floats | None:
    if work.log.step_counts == "optimizer":
        return ticks.pick(Values(work.course.at, work.course.step), rows)
    steps = work.facts.get("optimizer_steps_per_rollout")
    if steps is None:
        return None
    return np.asarray(counts.rollout[rows] * steps.value, dtype=np.float64)


def _wall_seconds(work: Work, ticks: Ticks, counts: Counts, trains: Bools) -> Floats | None:
    """Return the time since the start where every rollout from the first one logs its own."""
    for key in matching(STEP_SECONDS, work.log.rows.values):
        each = ticks.spread(work.log.rows.values[key].finite())[0]
        rollouts = counts.rollout[trains]
        whole = np.array_equal(rollouts, np.arange(1, len(rollouts) + 1))
        if whole and work.log.step_counts == "rollout" and np.isfinite(each[trains]).all():
            return np.asarray(np.cumsum(np.where(trains, each, 0.0)), dtype=np.float64)
    return None


def evals_frame(work: Work, ticks: Ticks, counts: Counts, series: Validation) -> pd.DataFrame:
    """Return the `evals` rows of one validation series: its finite values."""
    rows = ticks.groups_of(series.values)
    value = ticks.pick(series.values, rows, work.options.duplicates)
    finite = np.isfinite(value)
    rows, value = rows[finite], value[finite]
    dropped = int((~np.isfinite(series.values.value)).sum())
    if dropped and 2 * dropped < work.log.rows.count:
        message = f"{dropped} validations of {series.metric} are NaN or null: not counted"
        note = Note("nonfinite_validation", message, where=work.where, count=dropped)
        work.notes.append(note)
    factor = work.options.scale.get("accuracy")
    accuracy, scale, remarks = to_unit(value, series, factor, work.where)
    work.notes += remarks
    frame = pd.DataFrame(
        {
            "responses": np.round(counts.before_eval[rows]),
            "rollout": np.maximum(counts.rollouts_before_eval[rows], 0.0),
            "accuracy": accuracy,
            "metric": series.metric,
            "scale": scale,
        }
    )
    _add_size(frame, work, ticks, rows)
    seconds = column_values(
        work.log, "eval_seconds", work.options, ("eval_seconds", "timing_s/testing")
    )
    if seconds is not None:
        frame["eval_seconds"] = ticks.pick(seconds.finite(), rows)
    return frame.drop_duplicates("responses", keep="last", ignore_index=True)


def _add_size(frame: pd.DataFrame, work: Work, ticks: Ticks, rows: npt.NDArray[np.intp]) -> None:
    """Add the problems times samples of each validation: the user's, logged, or configured."""
    size = work.facts.get("eval_size")
    n = column_values(work.log, "n", work.options, ACCURACY_N)
    if n is not None and (size is None or size.source != "user"):
        logged = ticks.pick(n.finite(), rows)
        usable = np.isfinite(logged) & (logged >= 1)
        frame["n"] = np.where(usable, np.round(logged), np.nan)
    elif size is not None:
        frame["n"] = size.value
