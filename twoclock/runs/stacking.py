"""Several logs of one run put into one: their rows in order of steps, under common keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from twoclock.errors import MissingFacts, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs.frames import column_values
from twoclock.runs.steps import find_course
from twoclock.runs.validation import Validation, candidates, choose
from twoclock.sources.base import Log
from twoclock.sources.columns import STEP_COLUMNS
from twoclock.sources.rows import Floats, Ints, Rows, Stretches, Values

STEP = "step"
"""Key under which the rows of a joined log hold their step."""


@dataclass(frozen=True)
class Placed:
    """A log whose rows are in order.

    Parameters
    ----------
    log : Log
        The log, with remarks on what was overwritten within it.
    at : array of int, shape (n,)
        Its rows that count.
    step : array of float, shape (n,)
        Step of each, ascending.
    columns : mapping of str to Values
        Its training columns by name.
    validated : frozenset of str
        Its keys that look like validations.
    """

    log: Log
    at: Ints
    step: Floats
    columns: dict[str, Values]
    validated: frozenset[str]

    @property
    def first(self) -> float:
        """Its first step."""
        return float(self.step[0])

    @property
    def last(self) -> float:
        """Its last step."""
        return float(self.step[-1])

    @cached_property
    def spacing(self) -> float:
        """The usual distance of its steps."""
        gaps = np.diff(np.unique(self.step))
        return float(np.median(gaps)) if len(gaps) else 1.0

    @cached_property
    def rewards(self) -> tuple[Floats, Floats]:
        """(steps, values) of its rewards, kept: they tell most logs apart."""
        return self.series("reward")

    def series(self, name: str) -> tuple[Floats, Floats]:
        """Return (steps, values) of a training column, the last finite value of each step."""
        column = self.columns.get(name)
        return self._series(column) if column is not None else (np.empty(0), np.empty(0))

    def scores(self, key: str) -> tuple[Floats, Floats]:
        """Return (steps, values) of a key."""
        return self._series(self.log.rows.values[key])

    def _series(self, column: Values) -> tuple[Floats, Floats]:
        where = np.full(self.log.rows.count, np.nan)
        where[column.at] = column.value
        value = where[self.at]
        known = np.isfinite(value)
        steps, value = self.step[known][::-1], value[known][::-1]
        distinct, index = np.unique(steps, return_index=True)
        return distinct, value[index]


def place(log: Log, options: ReadOptions) -> Placed | None:
    """Return the log with its rows in order; None when they have no steps or fall to their start.

    Such a log is not joined with others; it is refused by itself, with the reason.
    """
    columns = {
        name: found
        for name, usual in STEP_COLUMNS.items()
        if (found := column_values(log, name, options, usual)) is not None
    }
    scores = frozenset(candidates(log.rows.values, log.known))
    try:
        course = find_course(log, columns, _validations(log, options, scores), options)
    except SourceError:
        return None
    if course.by_responses or not len(course.at):
        return None
    order = np.argsort(course.step, kind="stable")
    placed = replace(
        log, notes=(*log.notes, *course.notes), resumed_at=(), first_step=course.first_step
    )
    return Placed(placed, course.at[order], course.step[order], columns, scores)


def _validations(log: Log, options: ReadOptions, scores: frozenset[str]) -> list[Validation]:
    """Return the validations, whose rows need a step as well; all, where one is to be chosen."""
    try:
        return choose(log, options.map.get("accuracy", ()), [])
    except MissingFacts:
        return [Validation(key, log.rows.values[key]) for key in sorted(scores)]


def stack(parts: Sequence[tuple[Placed, npt.NDArray[np.bool_], frozenset[str] | None]]) -> Log:
    """Return one log of several: rows in order of steps, those of later parts last within a step.

    Parameters
    ----------
    parts : sequence of (Placed, array of bool, set of str or None)
        Each part with its rows that are taken (of `Placed.at`) and the keys that are taken (None:
        all). The last part is the main one: its name, path and facts go first.
    """
    main = parts[-1][0].log
    steps = np.concatenate([part.step[taken] for part, taken, _ in parts])
    order = np.argsort(steps, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    columns: dict[str, list[tuple[Ints, Floats]]] = {}
    lines = np.concatenate([_lines(part, taken) for part, taken, _ in parts])[order]
    start = 0
    for part, taken, keys in parts:
        at = part.at[taken]
        new = np.full(part.log.rows.count, -1, dtype=np.int64)
        new[at] = rank[start : start + len(at)]
        start += len(at)
        for key, values in part.log.rows.values.items():
            if keys is None or key in keys:
                columns.setdefault(key, []).append((new[values.at], values.value))
    merged = {key: _merged(pairs) for key, pairs in columns.items()}
    merged[STEP] = Values(np.arange(len(order)), steps[order])
    logs = [part.log for part, _, _ in parts]
    rows = Rows(
        len(order),
        _stretches(lines),
        {key: column for key, column in merged.items() if len(column.at)},
        {k: v for log in logs for k, v in log.rows.texts.items()},
        {k: v for log in logs for k, v in log.rows.rejected.items()},
        frozenset().union(*(log.rows.names for log in logs)),
    )
    if main.known is None and main.framework is None:
        main = _as_known(main, logs)
    files = tuple(dict.fromkeys(f for log in logs[::-1] for f in (log.files or (log.path,))))
    return replace(
        main,
        rows=rows,
        config={k: v for log in logs for k, v in log.config.items()},
        facts={k: v for log in logs for k, v in log.facts.items()},
        columns={**main.columns, "step": (STEP,)},
        first_step=_first_step(logs),
        resumed_at=(),
        files=files,
        notes=tuple(dict.fromkeys(note for log in logs for note in log.notes)),
    )


def _as_known(main: Log, logs: Sequence[Log]) -> Log:
    """Return the main log as of the framework that another part was recognised to be of."""
    other = next((log for log in logs[::-1] if log.known is not None), None)
    if other is None:
        return main
    return replace(
        main,
        known=other.known,
        framework=other.framework,
        columns={**other.columns, **main.columns},
        step_counts=other.step_counts,
        synchronous=other.synchronous,
    )


def _merged(pairs: list[tuple[Ints, Floats]]) -> Values:
    at = np.concatenate([a for a, _ in pairs])
    value = np.concatenate([v for _, v in pairs])
    there = at >= 0
    at, value = at[there], value[there]
    order = np.argsort(at, kind="stable")
    return Values(at[order], value[order])


def _lines(part: Placed, taken: npt.NDArray[np.bool_]) -> Ints:
    count = part.log.rows.count
    return part.log.rows.lines.numbers(count)[part.at[taken]]


def _stretches(lines: Ints) -> Stretches:
    out = Stretches()
    for index, line in enumerate(lines.tolist()):
        out.put(index, line)
    return out


def _first_step(logs: Sequence[Log]) -> int | None:
    known = [log.first_step for log in logs if log.first_step is not None]
    return known[-1] if known else None
