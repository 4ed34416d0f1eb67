"""What tells that two logs are one run: agreeing values, and settings that do not contradict."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twoclock.runs.named import NamedLog
from twoclock.runs.stacking import Placed
from twoclock.sources.rows import Floats

TWIN_ROWS = 3
"""Fewer common steps, or fewer different values at them, do not tell that two logs are one run."""

ROUNDING = 0.00051
"""Difference that rounding to three decimals makes."""

_FLOAT32 = 1e-5
_SHARE = 0.95
"""Share of the common steps that must agree: sinks may differ where a run was resumed."""

_TELLING = ("reward", "response_tokens", "grad_norm", "entropy", "loss")
"""Training columns that hardly two runs share, best first."""

_IDENTITY = (
    "seed", "lr", "batch_size", "prompts_per_rollout", "group_size", "model", "task", "clip_low",
    "clip_high", "kl_coef", "generation_batch_size", "framework",
)  # fmt: skip
_SAMPLED_STEPS = 12


def conflict(one: NamedLog, two: NamedLog) -> bool:
    """Tell whether the settings of two logs contradict each other, so that they are two runs."""
    mine, theirs = settings_of(one), settings_of(two)
    return any(
        name in mine and name in theirs and not _same(mine[name], theirs[name])
        for name in _IDENTITY
    )


def settings_of(item: NamedLog) -> dict[str, object]:
    """Return what is known of a run: from its rows, its configuration and the user."""
    rows = item.log.rows.values
    told: dict[str, object] = {}
    for name in (name for name in _IDENTITY if name != "lr" and name in rows):
        distinct = np.unique(rows[name].finite().value)
        if len(distinct) == 1:
            told[name] = float(distinct[0])
    told |= {name: fact.value for name, fact in item.log.facts.items()}
    if item.log.framework is not None:
        told["framework"] = item.log.framework
    return {**told, **item.facts}


def _same(one: object, two: object) -> bool:
    if isinstance(one, int | float) and isinstance(two, int | float):
        return one == two or abs(one - two) <= 0.01 * max(abs(one), abs(two))
    return str(one) == str(two)


def _shared(one: Placed, two: Placed) -> Iterator[tuple[Floats, Floats]]:
    """Yield the values of each telling series at the steps that both logs have."""
    for name in _TELLING:
        if name in one.columns and name in two.columns:
            yield _common(one.series(name), two.series(name))
    for key in sorted(one.validated & two.validated):
        yield _common(one.scores(key), two.scores(key))


def _common(one: tuple[Floats, Floats], two: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    _, mine, theirs = np.intersect1d(one[0], two[0], assume_unique=True, return_indices=True)
    return one[1][mine], two[1][theirs]


def agree(one: Placed, two: Placed) -> bool:
    """Tell whether two sinks hold one run: its rewards or accuracies, to three decimals."""
    told = False
    fewer = min(len(np.unique(one.step)), len(np.unique(two.step)))
    for mine, theirs in _shared(one, two):
        close = np.abs(mine - theirs) <= ROUNDING + _FLOAT32 * np.abs(mine)
        if len(mine) and close.mean() < _SHARE:
            return False
        varied = len(np.unique(mine)) >= TWIN_ROWS and len(np.unique(theirs)) >= TWIN_ROWS
        told |= varied and len(mine) >= max(TWIN_ROWS, min(fewer // 2, 50))
    return told


def same_beginning(one: Placed, two: Placed) -> bool:
    """Tell whether one log of a format repeats another: equal at every common step, in every key.

    Such are the states of later checkpoints, which hold the whole history so far, and copies of a
    log that was still growing.
    """
    shorter, longer = sorted((one, two), key=lambda part: len(part.at))
    if not _repeats(shorter.rewards, longer.rewards):
        return False
    told = False
    for key in shorter.log.rows.values:
        if key not in longer.log.rows.values:
            return False
        mine = shorter.scores(key)
        if not _repeats(mine, longer.scores(key)):
            return False
        told |= key in shorter.validated or len(np.unique(mine[1])) >= TWIN_ROWS
    return told and len(np.unique(shorter.step)) >= TWIN_ROWS


def _repeats(one: tuple[Floats, Floats], longer: tuple[Floats, Floats]) -> bool:
    """Tell whether a series has all steps of another one, with its values."""
    size = len(one[0])
    if np.array_equal(one[0], longer[0][:size]):
        return np.array_equal(one[1], longer[1][:size])
    mine, theirs = _common(one, longer)
    return len(mine) == size and np.array_equal(mine, theirs)


Token = tuple[str, float, tuple[int, ...]]


def tokens(part: Placed) -> Iterator[Token]:
    """Yield marks that two logs of one run are likely to share, and two runs are not.

    A mark is the values, to two decimals, of a series at a round step and the two steps after it;
    round steps, since one log may begin or end in the middle of the other.
    """
    for name in _TELLING:
        yield from _marks(name, *part.series(name))
    for key in sorted(part.validated):
        yield from _marks("", *part.scores(key))


def _marks(name: str, steps: Floats, values: Floats) -> Iterator[Token]:
    if len(steps) < TWIN_ROWS:
        return
    whole = np.minimum(steps, 2.0**53).astype(np.int64)
    roundness = np.where(whole > 0, whole & -whole, 0)[: 1 - TWIN_ROWS]
    coarse = np.round(np.clip(values * 100, -1e15, 1e15)).astype(np.int64).tolist()
    for at in np.argsort(-roundness, kind="stable")[:_SAMPLED_STEPS].tolist():
        mark = tuple(coarse[at : at + TWIN_ROWS])
        if len(set(mark)) > 1:  # a flat stretch tells nothing
            yield name, float(steps[at]), mark
