"""When has training failed? The rule, and its accuracy part on one run's validations.

The part that reads train rows (non-finite losses, lost reward) is in `twoclock.trainrows`. The size
of entropy, KL, ratios, gradient norms or response lengths never makes a failure: those are looked
at in `twoclock.precursors`, and only shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twoclock.errors import SettingsError
from twoclock.series import TOLERANCE, Floats, Series

_POINTS = 2
"""Validations from the breach on that can confirm it."""

_SHARE, _FROM_ZERO = (False, 1.0, "above 0 and at most 1"), (True, 1.0, "from 0 to 1")
_RANGES: dict[str, tuple[bool, float, str]] = {  # may it be 0, the largest value, in words
    "drop_abs": _SHARE,
    "drop_rel": _SHARE,
    "hard": _SHARE,
    "floor": _FROM_ZERO,
    "recover": _FROM_ZERO,
    "confirm": (True, math.inf, "0 or more"),
    "dip_limit": (False, math.inf, "above 0 (inf: no limit)"),
}
_CHOICES = {"suspect": ("censor", "event", "drop"), "never_learned": ("drop", "censor")}


@dataclass(frozen=True)
class Failure:
    """The failure rule.

    With P the second-highest accuracy so far and n the answers per validation, the drop that
    counts is ``D = min(max(min(drop_abs, drop_rel * P), floor), hard * P)``, floor being at least
    ``3 * sqrt(2 * P * (1 - P) / n)`` where n is known.

    Parameters
    ----------
    drop_abs : float
        Drop in accuracy that counts.
    drop_rel : float
        Drop as a share of the peak that counts, for low peaks.
    floor : float
        Smallest drop that counts, in accuracy.
    recover : float
        A dip is over at ``P - recover * D``.
    hard : float
        One validation that lost this share of the peak needs no confirmation.
    confirm : float
        The log must go on for this share more responses after the breach.
    dip_limit : float
        A dip longer than this many times all training before it is a failure.
    suspect : {"censor", "event", "drop"}
        What an unconfirmed failure is: censored before it, an event, or left out of the fit.
    never_learned : {"drop", "censor"}
        Whether runs that never rose leave the failure fit or stay in it, censored.

    Raises
    ------
    SettingsError
        A value is outside its range.

    Examples
    --------
    >>> Failure(drop_abs=0)
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: drop_abs == 0, must be above 0 and at most 1
    """

    drop_abs: float = 0.10
    drop_rel: float = 0.50
    floor: float = 0.02
    recover: float = 0.5
    hard: float = 0.80
    confirm: float = 0.10
    dip_limit: float = 1.0
    suspect: Literal["censor", "event", "drop"] = "censor"
    never_learned: Literal["drop", "censor"] = "drop"

    def __post_init__(self) -> None:
        for name, (zero, high, text) in _RANGES.items():
            value = getattr(self, name)
            if not (0 < value <= high or (zero and value == 0)):
                msg = f"{name} == {value}, must be {text}"
                raise SettingsError(msg)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                msg = f"{name} == {getattr(self, name)!r}, must be {' or '.join(choices)}"
                raise SettingsError(msg)

    def floor_at(self, peak: Floats, n: Floats) -> Floats:
        """Return the smallest drop that counts, ``max(floor, 3 * sqrt(2 * P * (1 - P) / n))``.

        Three standard errors of the difference of two validations of accuracy P over n answers.
        """
        variance = np.clip(peak * (1 - peak), 0.0, None)
        noise: Floats = 3 * np.sqrt(2 * variance / np.where(n > 0, n, np.inf))  # unknown n: none
        return np.maximum(noise, self.floor)

    def drop(self, peak: Floats, n: Floats) -> Floats:
        """Return the drop that counts below each peak.

        Examples
        --------
        >>> unknown = np.full(2, np.nan)
        >>> Failure().drop(np.array([0.60, 0.085]), unknown).tolist()
        [0.1, 0.0425]
        """
        drop = np.minimum(self.drop_abs, self.drop_rel * peak)
        return np.minimum(np.maximum(drop, self.floor_at(peak, n)), self.hard * peak)


@dataclass(frozen=True)
class Verdict:
    """What the rule says about one run.

    Parameters
    ----------
    status : {"healthy", "dip", "suspect", "failed"}
        ``dip``: healthy, with a recovered dip.
    reason : str
        Short phrase.
    lower, upper : float
        Responses: for failed and suspect, the interval ``(last healthy, first bad]``; else the last
        accepted validation and inf.
    peak : float
        Second-highest accuracy before the failure, or of the whole run; NaN without validations.
    dips : tuple of (int, int)
        Positions of the breach and of the recovery of every dip.
    breach : int or None
        Position of the validation at which accuracy failed.
    never_learned : bool
        Accuracy never rose above the first validation by more than the floor (no when the very
        second validation is a breach: it may have risen and fallen in between).
    """

    status: Literal["healthy", "dip", "suspect", "failed"]
    reason: str
    lower: float
    upper: float
    peak: float = math.nan
    dips: tuple[tuple[int, int], ...] = ()
    breach: int | None = None
    never_learned: bool = False

    @property
    def kind(self) -> Literal["healthy", "suspect", "failed"]:
        """The status, a recovered dip counting as healthy."""
        return "healthy" if self.status == "dip" else self.status


def peaks(accuracy: Floats) -> Floats:
    """Return for each validation the second-highest of those before it (the first has none: 0).

    The highest where there is only one. One lucky validation is no peak.

    Examples
    --------
    >>> peaks(np.array([0.30, 0.33, 0.47, 0.33])).tolist()
    [0.0, 0.3, 0.3, 0.33]
    """
    if not len(accuracy):
        return accuracy
    best = np.maximum.accumulate(accuracy)
    second = np.maximum.accumulate(np.minimum(best[:-1], accuracy[1:]))
    return np.concatenate([[0.0], accuracy[:1], second])[: len(accuracy)]


def unit_accuracy(series: Series) -> Floats:
    """Return the accuracies on the scale 0..1 (scores: within the range seen)."""
    return (series.accuracy - series.low) / (series.high - series.low)


def judge_accuracy(series: Series, rule: Failure, *, end: float, died: float) -> Verdict:
    """Apply the accuracy part of the failure rule to one run.

    Parameters
    ----------
    series : Series
        Accepted validations.
    rule : Failure
        The rule.
    end : float
        Responses at the end of the log.
    died : float
        Responses at a non-finite or crash event, inf when there was none: it confirms a breach.

    Examples
    --------
    >>> a = np.array([0.20, 0.45, 0.60, 0.62, 0.30, 0.05, 0.00, 0.00])
    >>> s = Series(np.arange(8.0) * 1280, a, np.full(8, np.nan))
    >>> v = judge_accuracy(s, Failure(), end=8960.0, died=float("inf"))
    >>> v.status, v.lower, v.upper
    ('failed', 3840.0, 5120.0)
    """
    accuracy, responses = unit_accuracy(series), series.responses
    peak = peaks(accuracy)
    drop = rule.drop(peak, series.n)
    breached = np.flatnonzero((peak > 0) & (accuracy <= peak - drop + TOLERANCE))
    dips: list[tuple[int, int]] = []
    free = 0  # first validation that no dip covers
    for i in breached:
        if i < free:
            continue
        line = peak[i] - rule.recover * drop[i] - TOLERANCE
        back = np.flatnonzero(accuracy[i + 1 :] >= line)
        if len(back):
            j = int(i + 1 + back[0])
            if responses[j] - responses[i] > rule.dip_limit * responses[i]:
                return _fallen(series, rule, int(i), "failed", "long dip", dips, float(peak[i]))
            dips.append((int(i), j))
            free = j + 1
            continue
        status, reason = _unrecovered(accuracy, responses, int(i), float(peak[i]), rule, end, died)
        return _fallen(series, rule, int(i), status, reason, dips, float(peak[i]))
    last = float(responses[-1]) if len(responses) else 0.0
    top = float(peaks(np.append(accuracy, 0.0))[-1]) if len(responses) else math.nan
    return Verdict(
        "dip" if dips else "healthy", "end of log", last, math.inf, _in_source(series, top),
        tuple(dips), None, never_learned(series, rule),
    )  # fmt: skip


def _unrecovered(
    accuracy: Floats,
    responses: Floats,
    i: int,
    peak: float,
    rule: Failure,
    end: float,
    died: float,
) -> tuple[Literal["suspect", "failed"], str]:
    """Tell whether a breach at `i` that never recovers is confirmed."""
    points = len(accuracy) - i
    longer = end >= responses[i] * (1 + rule.confirm) - TOLERANCE
    if points >= _POINTS and longer:
        return "failed", "accuracy drop"
    if bool(np.any(accuracy[i:] <= (1 - rule.hard) * peak + TOLERANCE)):
        return "failed", "accuracy lost"
    if responses[i] <= died < math.inf:
        return "failed", "accuracy drop, then the run died"
    low = "last validation low" if points == 1 else "low to the end of a short log"
    return "suspect", f"suspect: {low}"


def _in_source(series: Series, value: float) -> float:
    return series.low + value * (series.high - series.low)


def _fallen(
    series: Series,
    rule: Failure,
    i: int,
    status: Literal["suspect", "failed"],
    reason: str,
    dips: list[tuple[int, int]],
    peak: float,
) -> Verdict:
    lower = float(series.responses[i - 1])
    return Verdict(
        status, reason, lower, float(series.responses[i]), _in_source(series, peak), tuple(dips),
        i, never_learned(series, rule, i),
    )  # fmt: skip


def never_learned(series: Series, rule: Failure, breach: int | None = None) -> bool:
    """Tell whether the second-highest later accuracy stays below the first one plus the floor.

    With one later validation that one decides; with none nothing is known, and the answer is no.
    A run that fell at validation `breach` never learned only if it had not risen before either.

    Examples
    --------
    >>> a = np.array([0.21, 0.20, 0.22, 0.21, 0.20])
    >>> never_learned(Series(np.arange(5.0), a, np.full(5, np.nan)), Failure())
    True
    """
    accuracy = unit_accuracy(series)
    stops = {len(accuracy), len(accuracy) if breach is None else breach}
    if min(stops) < 2:
        return False
    line = accuracy[0] + float(rule.floor_at(accuracy[:1], series.n[:1])[0]) - TOLERANCE
    return all(np.sort(accuracy[1:stop])[-2:][0] < line for stop in stops)


def healthy_after(series: Series, rule: Failure, since: float) -> bool:
    """Tell whether any validation at or after `since` responses is positive and no breach."""
    accuracy = unit_accuracy(series)
    peak = peaks(accuracy)
    fine = (accuracy > 0) & (accuracy > peak - rule.drop(peak, series.n) + TOLERANCE)
    return bool(np.any(fine & (series.responses >= since)))
