"""Which series of a log is the validation accuracy, and in what unit it is written.

Two candidates that mean different things are never chosen between, averaged or guessed: the run is
refused and the keys are named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from twoclock.errors import MissingFacts
from twoclock.frameworks.base import Framework, Tiers
from twoclock.frameworks.patterns import matching
from twoclock.notes import Note
from twoclock.sources.base import Log
from twoclock.sources.columns import ACCURACY, PLAIN_ACCURACY, SCORES, looks_like_validation
from twoclock.sources.native import SERIES
from twoclock.sources.rows import Floats, Values

PERCENT_FROM = 10.0
"""A maximum above this, up to 100, is a percentage; between 1 and this it could be any score."""

_EPS = 1e-9


@dataclass(frozen=True)
class Validation:
    """One validation series.

    Parameters
    ----------
    metric : str
        The source's key.
    values : Values
        As logged.
    is_score : bool
        The key names a reward, not an accuracy.
    scale : str
        What the format itself says: "accuracy", "score", or empty when it says nothing.
    """

    metric: str
    values: Values
    is_score: bool = False
    scale: str = ""


def choose(log: Log, aliases: tuple[str, ...], notes: list[Note]) -> list[Validation]:
    """Return the validation series of a log: one, several where the format names them, or none.

    Parameters
    ----------
    log : Log
        The log.
    aliases : tuple of str
        Keys that the user named, in order.
    notes : list of Note
        Doubts are added here.

    Raises
    ------
    MissingFacts
        Several keys could be the accuracy, or the named keys are not in the log.
    """
    where = str(log.path)
    present = [key for key, values in log.rows.values.items() if len(values.at)]
    if aliases:
        found = _aliased(log, aliases, present, where)
        return [found] if found is not None else _none(where, notes)
    if log.known is not None:
        never = set(matching(log.known.never_validation, present))
        present = [key for key in present if key not in never]
    if log.metrics:
        return [
            Validation(
                key.removeprefix(SERIES), log.rows.values[key], scale=log.scales.get(key, "")
            )
            for key in log.metrics
            if key in log.rows.values
        ]
    for tiers, is_score in _tiers(log.known):
        for tier in tiers:
            keys = matching(tier, present)
            if len(keys) > 1:
                raise _ambiguous(keys, where)
            if keys:
                values = log.rows.values[keys[0]]
                _tell_other(log, keys[0], values, present, notes)
                return [Validation(keys[0], values, is_score)]
    return _unclear(log, present, where, notes)


def _tiers(known: Framework | None) -> list[tuple[Tiers, bool]]:
    """Return the tiers of keys and whether they are scores; the framework's own go first."""
    own = Framework("") if known is None else known
    return [(own.accuracy, False), (ACCURACY, False), (own.scores, True), (SCORES, True)]


def _aliased(
    log: Log, aliases: tuple[str, ...], present: list[str], where: str
) -> Validation | None:
    """Join the named keys: where a row has several, the first finite one in the user's order.

    None when the log has no validation at all, as that of a run that died early.
    """
    known = {key.removeprefix(SERIES): key for key in present} | {key: key for key in present}
    found = [known[key] for key in aliases if key in known]
    if not found:
        like: list[str] = []
        rejected = [key for key in aliases if key in log.rows.rejected]
        if rejected:
            bad = log.rows.rejected[rejected[0]]
            msg = (
                f"{rejected[0]!r} holds no number: {bad.example} at row {bad.line}; "
                "name a nested value as KEY.NAME"
            )
        else:
            like = candidates([k.removeprefix(SERIES) for k in present]) or [*log.metrics]
            if not like:
                return None
            named = " or ".join(repr(alias) for alias in aliases)
            msg = f"no key {named}; the log has {', '.join(like)}".replace(SERIES, "")
        raise MissingFacts(
            msg, where=where, facts=("accuracy",), candidates={"accuracy": tuple(like)}
        )
    merged: dict[int, float] = {}
    for key in reversed(found):
        values = log.rows.values[key]
        for at, value in zip(values.at.tolist(), values.value.tolist(), strict=True):
            if np.isfinite(value) or at not in merged:
                merged[at] = value
    rows = sorted(merged)
    joined = Values(np.array(rows, dtype=np.int64), np.array([merged[r] for r in rows]))
    return Validation(",".join(found).replace(SERIES, ""), joined)


def candidates(keys: Collection[str], known: Framework | None = None) -> list[str]:
    """Return the keys that look like a validation score, those of a framework's training not."""
    never = set(matching(known.never_validation, keys)) if known is not None else set()
    return sorted(key for key in keys if looks_like_validation(key) and key not in never)


def _ambiguous(keys: list[str], where: str) -> MissingFacts:
    msg = f"several keys could be the accuracy: {', '.join(keys)}; give --map accuracy=KEY"
    return MissingFacts(msg, where=where, facts=("accuracy",), candidates={"accuracy": tuple(keys)})


def _unclear(log: Log, present: list[str], where: str, notes: list[Note]) -> list[Validation]:
    keys = candidates(present)
    plain = [PLAIN_ACCURACY] if PLAIN_ACCURACY in present else []
    if len(keys) + len(plain) > 1:
        raise _ambiguous([*plain, *keys], where)
    if plain:
        values = log.rows.values[PLAIN_ACCURACY]
        if len(values.at) > 2 and len(values.at) == log.rows.count:
            message = (
                f"{PLAIN_ACCURACY} is taken as the validation accuracy; it stands on every row, as "
                "that of the training batch may do: --map accuracy=KEY names another"
            )
            notes.append(Note("accuracy_key", message, where=where))
        return [Validation(PLAIN_ACCURACY, values)]
    if keys:
        message = f"{keys[0]} is taken as the validation accuracy"
        notes.append(Note("accuracy_key", message, where=where))
        return [Validation(keys[0], log.rows.values[keys[0]])]
    bad = candidates(log.rows.rejected)
    if bad:
        first = log.rows.rejected[bad[0]]
        msg = (
            f"{bad[0]} holds no number that can be read: {first.example} at row {first.line}; "
            "name a nested value as --map accuracy=KEY.NAME"
        )
        raise MissingFacts(msg, where=where, facts=("accuracy",))
    return _none(where, notes)


def _none(where: str, notes: list[Note]) -> list[Validation]:
    notes.append(Note("no_validation", "no validation is logged", where=where))
    return []


def _tell_other(log: Log, key: str, values: Values, present: list[str], notes: list[Note]) -> None:
    """Remark on a validation key that ends before the chosen one begins: a key renamed mid-run."""
    for other in candidates(present):
        series = log.rows.values[other]
        if other != key and len(values.at) and series.at[-1] < values.at[0]:
            message = (
                f"{key} starts where {other} ends: if they are one series, give "
                f"--map accuracy={key},{other}; the earlier part is not read"
            )
            notes.append(Note("renamed_key", message, where=str(log.path)))


def to_unit(
    accuracy: Floats, series: Validation, factor: float | None, where: str
) -> tuple[Floats, str, list[Note]]:
    """Return the accuracies as fractions where their unit is clear, and their scale.

    Parameters
    ----------
    accuracy : array of float, shape (n,)
        Finite values as logged.
    series : Validation
        What they are.
    factor : float, optional
        The user's factor: then nothing is guessed.
    where : str
        File, for messages.

    Returns
    -------
    tuple of array, str, list of Note
        Values; ``"accuracy"`` (0..1) or ``"score"``; remarks.

    Examples
    --------
    >>> series = Validation("val/acc", Values(np.arange(2), np.array([12.0, 61.5])))
    >>> values, scale, notes = to_unit(series.values.value, series, None, "r1")
    >>> values, scale, notes[0].code
    (array([0.12 , 0.615]), 'accuracy', 'rescaled_percent')
    """
    if factor is not None:
        accuracy = accuracy * factor
    if series.scale and factor is None:
        return accuracy, series.scale, []
    if not len(accuracy):
        return accuracy, "score" if series.is_score else "accuracy", []
    low, high = float(accuracy.min()), float(accuracy.max())
    name = series.metric
    if low < -_EPS:
        message = f"{name} goes down to {low:g}: a reward, not an accuracy; read as a score"
        return accuracy, "score", [Note("score_scale", message, where=where)]
    if series.is_score and factor is None:
        message = (
            "validated by a reward, which is read as a score (metric in `twoclock runs`); name an "
            "accuracy with --map accuracy=KEY, or the unit with --scale accuracy=FACTOR"
        )
        return accuracy, "score", [Note("score_scale", message, where=where)]
    if high <= 1 + _EPS:
        return accuracy, "accuracy", []
    if factor is None and PERCENT_FROM < high <= 100 + 1e-6:
        message = f"rescaled {name} from percent (highest value {high:g})"
        notes = [Note("rescaled_percent", message, where=where), *_two_units(accuracy, name, where)]
        return accuracy / 100, "accuracy", notes
    message = (
        f"{name}: values above 1 but not percent-like (highest {high:g}); looks like a score; "
        "give a target in its unit, or --scale accuracy=FACTOR"
    )
    return accuracy, "score", [Note("score_scale", message, where=where)]


def _two_units(accuracy: Floats, name: str, where: str) -> list[Note]:
    """Remark on percentages next to values that can be fractions: the unit may have changed."""
    low = np.minimum(accuracy[1:], accuracy[:-1])
    high = np.maximum(accuracy[1:], accuracy[:-1])
    jumps = np.flatnonzero((low > 0) & (low <= 1) & (high > PERCENT_FROM))
    if not len(jumps):
        return []
    before, after = accuracy[jumps[0]], accuracy[jumps[0] + 1]
    message = (
        f"{name} goes from {before:g} to {after:g}, as where the unit changes within a run; all "
        "is read as percent"
    )
    return [Note("mixed_units", message, where=where, count=len(jumps))]
