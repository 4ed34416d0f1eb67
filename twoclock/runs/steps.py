"""Where each row of a log stands: the key that counts its steps, and the order of its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from twoclock.errors import MissingFacts, SourceError
from twoclock.frameworks.patterns import matching
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.runs.resuming import Course, resolve, rows_of
from twoclock.runs.sampling import LOGGER_STEP
from twoclock.runs.validation import Validation
from twoclock.sources.base import Log
from twoclock.sources.columns import RESPONSES_TOTAL, STEP_KEYS
from twoclock.sources.rows import Ints, Values

_LIKE_STEPS = re.compile(
    r"(?:.*[_/ .-])?(?:steps?|iters?|iterations?|updates?|rollouts?|episodes?|rounds?|epochs?|batch"
    r"|batch_idx|idx|index|num_steps|samples)",
    re.IGNORECASE,
)
"""Names that may count something; which of them counts rollouts is for the user to say."""


def find_course(
    log: Log, columns: Mapping[str, Values], validations: list[Validation], options: ReadOptions
) -> Course:
    """Return the rows that count with the step (or, without steps, the responses) of each.

    Parameters
    ----------
    log : Log
        The log.
    columns : mapping of str to Values
        Its training columns: rows with one are training rows.
    validations : list of Validation
        Its validation series.
    options : ReadOptions
        ``map["step"]`` and `on_reset`.

    Raises
    ------
    MissingFacts
        Nothing counts steps or responses.
    SourceError
        Steps are no whole numbers, or fall back to the start.
    """
    where = str(log.path)
    notes: list[Note] = []
    chosen = _step_key(log, validations, options, notes)
    by_responses = chosen is None
    if chosen is not None:
        step = _completed(log, chosen, options)
        if log.known is None and options.map.get("step") is None:
            step = _between(log, step, chosen, validations, notes)
    else:
        keys = (*options.map.get("responses", ()), *log.columns.get("responses", ()))
        found = matching((*keys, *RESPONSES_TOTAL), log.rows.values)
        if not found:
            msg = (
                "rows carry no step: name the key that counts rollouts with --map step=KEY, "
                "or the one that counts responses with --map responses=KEY"
            )
            like = tuple(sorted(key for key in log.rows.names if _LIKE_STEPS.fullmatch(key)))
            raise MissingFacts(msg, where=where, facts=("rollout",), candidates={"rollout": like})
        step = log.rows.values[found[0]].finite()
    if not len(step.at):
        msg = "no data: no row has a step"
        raise SourceError(msg, where=where)
    bad = step.value[(step.value < 0) | (step.value != np.floor(step.value))]
    if len(bad):
        msg = f"step {bad[0]:g} is not a whole number from 0; name another with --map step=KEY"
        raise SourceError(msg, where=where)
    leads = np.zeros(log.rows.count, dtype=bool)
    for values in columns.values():
        leads[rows_of(values, log.rows.count)] = True
    _tell_unplaced(log, step, leads, validations, notes)
    course = resolve(step, leads, resumed_at=log.resumed_at, on_reset=options.on_reset, where=where)
    return Course(
        course.at, course.step, (*notes, *course.notes), by_responses, _first_step(log, chosen)
    )


def _first_step(log: Log, key: str | None) -> int | None:
    if log.first_step is not None or log.known is None or key is None:
        return log.first_step
    return log.known.steps.get(key)


def _tell_unplaced(
    log: Log, step: Values, leads: npt.NDArray[np.bool_], validations: list[Validation],
    notes: list[Note],
) -> None:  # fmt: skip
    """Remark on rows that hold something and have no step."""
    unplaced = leads.copy()
    for series in validations:
        unplaced[series.values.at] = True
    unplaced[rows_of(step, log.rows.count)] = False
    lost = int(unplaced.sum())
    if lost:
        line = int(log.rows.lines[int(np.argmax(unplaced))])
        message = f"{lost} rows have no step and are left out, the first is row {line}"
        notes.append(Note("rows_without_step", message, where=str(log.path), count=lost))


def _step_key(
    log: Log, validations: list[Validation], options: ReadOptions, notes: list[Note]
) -> str | None:
    """Return the key that counts steps: the first that reaches the validations, if any does."""
    own = (*options.map.get("step", ()), *log.columns.get("step", ()))
    keys = matching((*own, *STEP_KEYS), log.rows.values)
    if not keys:
        return None
    wanted = validations[0].values.at if validations else np.empty(0, dtype=np.int64)
    chosen = next((key for key in keys if _reaches(log, key, wanted)), keys[0])
    if chosen == LOGGER_STEP and log.known is None and not own and _drifts(log, keys[0]):
        return keys[0]
    if not own:
        _tell_other_steps(log, chosen, keys, notes)
    return chosen


def _completed(log: Log, chosen: str, options: ReadOptions) -> Values:
    """Return the steps under a key, with those of rows that only have another key for them.

    Only a key that says the same on every row that has both is taken: a trainer may leave its own
    counter out of a validation before training.
    """
    mine = log.rows.values[chosen].finite()
    if len(mine.at) == log.rows.count or chosen in options.map.get("step", ()):
        return mine
    for key in matching((*log.columns.get("step", ()), *STEP_KEYS), log.rows.values):
        other = log.rows.values[key].finite()
        _, i, j = np.intersect1d(mine.at, other.at, assume_unique=True, return_indices=True)
        alone = ~np.isin(other.at, mine.at, assume_unique=True)
        if key != chosen and len(i) and alone.any() and (mine.value[i] == other.value[j]).all():
            at = np.concatenate([mine.at, other.at[alone]])
            order = np.argsort(at, kind="stable")
            value = np.concatenate([mine.value, other.value[alone]])
            mine = Values(at[order], value[order])
    return mine


def _drifts(log: Log, key: str) -> bool:
    """Tell whether the logger's own step does not count what a key counts."""
    mine, other = log.rows.values[key].finite(), log.rows.values[LOGGER_STEP].finite()
    _, i, j = np.intersect1d(mine.at, other.at, assume_unique=True, return_indices=True)
    return bool(np.diff(mine.value[i] - other.value[j]).any())


def _between(
    log: Log, step: Values, key: str, validations: list[Validation], notes: list[Note]
) -> Values:
    """Return the steps with those of validations that only the logger's own step counts.

    Each was measured after the training row before it, and before the one after it.
    """
    if not validations or LOGGER_STEP not in log.rows.values or not len(step.at):
        return step
    alone = np.setdiff1d(validations[0].values.at, step.at)
    alone = alone[np.isin(alone, log.rows.values[LOGGER_STEP].at)]
    if not len(alone):
        return step
    first = step.value[0]
    before = np.searchsorted(step.at, alone) - 1
    value = step.value[before] + (first == 0)  # from 0 on, a validation at s is before row s
    value = np.where(before < 0, max(first - 1, 0), value)
    message = (
        f"{len(alone)} validations have no {key} and count at the row before them "
        f"({LOGGER_STEP} counts calls of the logger)"
    )
    notes.append(Note("step_key", message, where=str(log.path), count=len(alone)))
    at = np.concatenate([step.at, alone])
    order = np.argsort(at, kind="stable")
    return Values(at[order], np.concatenate([step.value, value])[order])


def _reaches(log: Log, key: str, wanted: Ints) -> bool:
    at = log.rows.values[key].at
    return not len(wanted) or bool(np.isin(wanted, at).mean() > 0.5)


def _tell_other_steps(log: Log, chosen: str, keys: Iterable[str], notes: list[Note]) -> None:
    mine = log.rows.values[chosen]
    for key in keys:
        if key == chosen:
            continue
        other = log.rows.values[key]
        _, i, j = np.intersect1d(mine.at, other.at, return_indices=True)
        if (mine.value[i] != other.value[j]).any():
            message = f"steps are counted by {chosen}; {key} differs (--map step=KEY to choose)"
            notes.append(Note("step_key", message, where=str(log.path)))
            return
