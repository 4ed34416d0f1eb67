"""The order of a log's rows: resumed runs, repeated steps, counters that fall back.

A fall of the step to a later one than the first is a resume: what the abandoned branch had logged
from there on is dropped. A fall to the first step or below is a reset, which only the user can
explain. Rows that come late without repeating a step are put in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.sources.rows import Floats, Ints, Values

MAX_FALLS = 1000
"""A log whose step falls more often is a mixture of runs, not a resumed run."""


def rows_of(values: Values, rows: int) -> Ints | slice:
    """Return the rows that hold a value, to index with; all `rows` of them as a slice."""
    return slice(None) if len(values.at) == rows else values.at


@dataclass(frozen=True)
class Course:
    """The rows that count, in file order.

    Parameters
    ----------
    at : array of int, shape (n,)
        Row numbers.
    step : array of float, shape (n,)
        Step of each, continued over resets.
    notes : tuple of Note
        What was dropped.
    by_responses : bool
        The rows have no steps: `step` holds responses.
    first_step : int, optional
        Step of the first training row of a run, where the framework tells it.
    """

    at: Ints
    step: Floats
    notes: tuple[Note, ...] = ()
    by_responses: bool = False
    first_step: int | None = None


def resolve(
    step: Values,
    leads: npt.NDArray[np.bool_],
    *,
    resumed_at: tuple[int, ...] = (),
    on_reset: str | None = None,
    where: str = "",
) -> Course:
    """Return the rows that count.

    Parameters
    ----------
    step : Values
        Step of each row that has one (finite).
    leads : array of bool, shape (rows,)
        Rows whose steps tell a resume: training rows where there are any, else all. A late
        validation is no resume.
    resumed_at : tuple of int
        Rows before which the log itself says that it resumed from a checkpoint.
    on_reset : {None, "offset", "restart"}
        See `ReadOptions`.
    where : str
        File, for messages.

    Raises
    ------
    SourceError
        The step falls back to its start and `on_reset` is None.

    Examples
    --------
    >>> steps = Values(np.arange(5), np.array([1.0, 2.0, 3.0, 2.0, 3.0]))
    >>> course = resolve(steps, np.ones(5, dtype=bool))
    >>> course.at, course.notes[0].message
    (array([0, 3, 4]), 'steps 2-3 overwritten by a later segment')
    """
    at = step.at
    led = leads[rows_of(step, len(leads))]
    if led.all() or not led.any():
        led = np.ones(len(at), dtype=bool)
    steps = step.value if led.all() else step.value[led]
    fallen = np.flatnonzero(steps[1:] < steps[:-1])
    if not len(fallen):
        return Course(at, step.value)
    lead, value = np.flatnonzero(led), step.value.copy()
    falls = lead[1:][fallen]
    if len(falls) > MAX_FALLS:
        msg = (
            f"step falls {len(falls)} times; name the column that tells the runs apart "
            "with --map run_id=KEY"
        )
        raise SourceError(msg, where=where)
    keep = np.ones(len(at), dtype=bool)
    notes: list[Note] = []
    for fall in falls:
        before = _last_lead(lead, fall)
        explained = _explained(int(at[before]), int(at[fall]), resumed_at)
        if step.value[fall] <= step.value[lead[0]] and not explained:
            _reset(value, step.value, keep, (before, fall), at, on_reset, notes, where)
        else:
            _resume(value, keep, fall, lead, notes, where)
    return Course(at[keep], value[keep], tuple(notes))


def _last_lead(lead: Ints, fall: int) -> int:
    return int(lead[np.searchsorted(lead, fall) - 1])


def _explained(before: int, fall: int, resumed_at: tuple[int, ...]) -> bool:
    return any(before < row <= fall for row in resumed_at)


def _reset(
    value: Floats, raw: Floats, keep: npt.NDArray[np.bool_], falls: tuple[int, int], at: Ints,
    on_reset: str | None, notes: list[Note], where: str,
) -> None:  # fmt: skip
    before, fall = falls
    told = f"step falls {raw[before]:g} -> {raw[fall]:g} at row {at[fall] + 1}"
    if on_reset is None:
        msg = (
            f"{told}; give --on-reset offset (training went on) "
            "or --on-reset restart (it began anew)"
        )
        raise SourceError(msg, where=where)
    if on_reset == "restart":
        keep[:fall] = False
        notes.append(Note("step_reset", f"{told}: earlier rows left out", where=where))
    else:
        value[fall:] = raw[fall:] + value[:fall][keep[:fall]].max()
        notes.append(Note("step_reset", f"{told}: counted on from there", where=where))


def _resume(
    value: Floats, keep: npt.NDArray[np.bool_], fall: int, lead: Ints, notes: list[Note],
    where: str,
) -> None:  # fmt: skip
    old = np.flatnonzero(keep[:fall] & (value[:fall] >= value[fall]))
    after = lead[lead >= fall]
    falls_again = np.flatnonzero(np.diff(value[after]) < 0)
    segment = value[after[: falls_again[0] + 1]] if len(falls_again) else value[after]
    if not len(old) or not np.isin(value[old], segment).any():
        return  # rows that came late, at steps that nothing else has
    keep[old] = False
    low, high = value[old].min(), value[old].max()
    steps = f"step {low:g}" if low == high else f"steps {low:g}-{high:g}"
    message = f"{steps} overwritten by a later segment"
    notes.append(Note("resumed", message, where=where, count=len(old)))


@dataclass(frozen=True)
class Ticks:
    """Rows grouped by rollout.

    Parameters
    ----------
    tick : array of float, shape (g,)
        Rollout (or step) of each group, ascending.
    group : array of int, shape (rows,)
        Group of each row of the log; -1 for rows that do not count.
    plain : bool
        Every row is a group of its own, in order.
    """

    tick: Floats
    group: Ints
    plain: bool = False

    @classmethod
    def of(cls, course: Course, tick: Floats, rows: int) -> Ticks:
        """Group the rows of a course by `tick`, shape (n,)."""
        if len(tick) == rows and (tick[1:] > tick[:-1]).all():
            return cls(tick, course.at, plain=True)
        distinct, inverse = np.unique(tick, return_inverse=True)
        group = np.full(rows, -1, dtype=np.int32)
        group[course.at] = inverse
        return cls(distinct, group)

    def spread(
        self, values: Values, duplicates: str = "last"
    ) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Return each group's value (NaN where absent) and how many rows logged one.

        The value logged last wins, or the mean of the finite ones when `duplicates` is "mean".
        """
        whole = len(values.at) == len(self.group)
        if self.plain and whole:
            return values.value, np.broadcast_to(np.int32(1), len(self.tick))
        group = self.group if whole else self.group[values.at]
        value = values.value
        if not (group >= 0).all():
            group, value = group[group >= 0], value[group >= 0]
        size = len(self.tick)
        counts = np.bincount(group, minlength=size).astype(np.int32)
        out = np.full(size, np.nan)
        out[group] = value
        if duplicates == "mean":
            finite = np.isfinite(value)
            number = np.bincount(group[finite], minlength=size)
            total = np.bincount(group[finite], value[finite], minlength=size)
            some = number > 0
            out[some] = total[some] / number[some]
        return out, counts

    def pick(
        self, values: Values, groups: npt.NDArray[np.intp], duplicates: str = "last"
    ) -> Floats:
        """Return what `spread` gives for some groups (ascending)."""
        if not self.plain:
            return self.spread(values, duplicates)[0][groups]
        if len(values.at) == len(self.group):
            return values.value[groups]
        out = np.full(len(groups), np.nan)
        if len(values.at):
            wanted = groups.astype(values.at.dtype)
            place = np.minimum(np.searchsorted(values.at, wanted), len(values.at) - 1)
            there = values.at[place] == wanted
            out[there] = values.value[place[there]]
        return out

    def groups_of(self, values: Values) -> npt.NDArray[np.intp]:
        """Return the groups (ascending) that logged a value."""
        groups = np.unique(self.group[values.at])
        return groups[groups >= 0].astype(np.intp)
