"""What train rows say about failure: losses that turn non-finite, and rewards that are lost.

Only whether a value is finite counts here, never how large it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoclock.events.failure import Failure
from twoclock.events.series import LOSS_LIKE, TOLERANCE, Bools, TrainLog

GRAD_NORM_ROWS = 3
"""Rows of non-finite gradient norm that count as a failure without a crash."""

REWARD_ROWS = 10
"""Train rows at the lowest reward that make a run suspect."""

REWARD_SHARE = 0.10
"""A reward is at the lowest when within this share of the range of rewards seen."""


@dataclass(frozen=True)
class Onset:
    """Where train rows turn bad: the interval ``(lower, upper]`` of responses, and why."""

    lower: float
    upper: float
    reason: str


def non_finite(log: TrainLog, *, crashed: bool, usable: frozenset[str]) -> Onset | None:
    """Return where a watched column turns non-finite for good.

    A loss-like column from one row to the end of the log; the gradient norm over at least three
    rows or before a crash. A column that was never finite in this run says nothing, unless it is
    finite in other runs (`usable`) and the run itself shows that it died in its first rows.

    Examples
    --------
    >>> log = TrainLog(np.arange(1.0, 4) * 64, np.full(3, np.nan),
    ...                {"loss": np.array([True, True, False])},
    ...                {"loss": np.array([False, False, True])})
    >>> non_finite(log, crashed=False, usable=frozenset())
    Onset(lower=128.0, upper=192.0, reason='non-finite loss')
    """
    found: list[Onset] = []
    for name, bad in log.bad.items():
        good = np.flatnonzero(log.finite[name])
        tail = np.flatnonzero(bad)
        if len(good):
            tail = tail[tail > good[-1]]
            lower = float(log.responses[good[-1]])
        elif name in usable and _died_at_once(log, crashed=crashed):
            lower = 0.0
        else:
            continue
        enough = 1 if name in LOSS_LIKE or crashed else GRAD_NORM_ROWS
        if len(tail) >= enough:
            found.append(Onset(lower, float(log.responses[tail[0]]), f"non-finite {name}"))
    return min(found, key=lambda o: (o.upper, -o.lower), default=None)


def never_finite(log: TrainLog) -> tuple[str, ...]:
    """Return the watched columns that were logged in this run but never finite."""
    return tuple(name for name, good in log.finite.items() if not good.any())


def _died_at_once(log: TrainLog, *, crashed: bool) -> bool:
    reward = log.reward[np.isfinite(log.reward)]
    fell = len(reward) > 1 and reward[0] > 0 and reward[-GRAD_NORM_ROWS:].mean() < 0.5 * reward[0]
    return crashed or bool(fell)


def reward_lost(log: TrainLog, rule: Failure, *, rows: int) -> Onset | None:
    """Return where the train reward fell to its lowest for good, for at least the last `rows` rows.

    The lowest: within 10 % of the range seen. Having been above: the second-highest reward before
    lies above it by a drop that would count for validations.

    Examples
    --------
    >>> reward = np.array([0.2, 0.4, 0.6, 0.6] + [0.0] * 12)
    >>> reward_lost(TrainLog(np.arange(1.0, 17) * 32, reward), Failure(), rows=10)
    Onset(lower=128.0, upper=160.0, reason='train reward low')
    """
    known: Bools = np.isfinite(log.reward)
    reward, responses = log.reward[known], log.responses[known]
    if len(reward) <= rows:
        return None
    lowest, highest = float(reward.min()), float(reward.max())
    above = np.flatnonzero(reward > lowest + REWARD_SHARE * (highest - lowest) + TOLERANCE)
    if not len(above) or len(reward) - 1 - above[-1] < rows:
        return None
    start = int(above[-1]) + 1
    before = reward[:start] - min(0.0, lowest)
    peak = np.sort(before)[-2:][:1]  # second-highest, the highest of one
    drop = rule.drop(peak, np.array([np.nan]))
    if float(peak[0] - drop[0]) < lowest - min(0.0, lowest):
        return None
    return Onset(float(responses[start - 1]), float(responses[start]), "train reward low")
