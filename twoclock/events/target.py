"""When does a noisy validation curve reach a target? The three crossing rules.

A crossing is an interval ``(previous validation, this validation]`` of responses, never a point.
Which run counts, and what a failure does to it, is decided in `twoclock.events`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twoclock.errors import SettingsError
from twoclock.events.series import TOLERANCE, Bools, Floats, Series

Crossing = Literal["isotonic", "first", "sustain2"]

CROSSINGS: tuple[Crossing, ...] = ("isotonic", "first", "sustain2")

_WINDOW = 3
"""Validations in the window that ends the curve."""


@dataclass(frozen=True)
class Target:
    """A validation accuracy to reach, and the rule that says when it is reached.

    Parameters
    ----------
    value : float
        The target, in the unit of the validations (1 = everything right).
    crossing : {"isotonic", "first", "sustain2"}
        ``isotonic``: first pooled value of the rising part of the curve; ``first``: first value;
        ``sustain2``: first of two values in a row.

    Raises
    ------
    SettingsError
        Not a finite number, or no such rule.

    Examples
    --------
    >>> Target(0.6).crossing
    'isotonic'
    >>> Target(0.6, "best")
    Traceback (most recent call last):
    ...
    twoclock.errors.SettingsError: crossing == 'best', must be isotonic, first or sustain2
    """

    value: float
    crossing: Crossing = "isotonic"

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            msg = f"target == {self.value}, must be a finite number"
            raise SettingsError(msg)
        if self.crossing not in CROSSINGS:
            msg = f"crossing == {self.crossing!r}, must be isotonic, first or sustain2"
            raise SettingsError(msg)

    def met(self, accuracy: Floats) -> Bools:
        """Return which values reach the target, rounding errors of 1e-12 forgiven."""
        return accuracy >= self.value - TOLERANCE


def weights_of(n: Floats) -> Floats:
    """Return the weights of the validations: n when all are known, else 1 for all.

    A validation over n answers has variance ``p * (1 - p) / n`` around the policy's accuracy, so
    pooling neighbours (nearly equal p) with weights n is the most precise. When some n are unknown
    there is no common scale, and equal weights are the honest choice.

    Examples
    --------
    >>> weights_of(np.array([100.0, np.nan])).tolist()
    [1.0, 1.0]
    """
    known = bool(np.all(np.isfinite(n)) and np.all(n > 0))
    return n if known else np.ones(len(n))


def pooled(accuracy: Floats, n: Floats) -> Floats:
    """Return the pooled (isotonic) values of the rising part of a validation curve.

    The rising part ends with the 3-validation window of highest mean (the first one of equals;
    everything when there are fewer than three): isotonic regression over the whole curve would drag
    a run that collapses later below every target. Pool-adjacent-violators on it minimises
    ``sum w_i (x_i - a_i)**2`` over non-decreasing x.

    Parameters
    ----------
    accuracy, n : ndarray, shape (m,)
        Validations in order; problems times samples behind each (NaN: unknown).

    Returns
    -------
    ndarray, shape (k,), k <= m
        Pooled values of validations 0..k-1.

    Examples
    --------
    >>> curve = np.array([0.50, 0.61, 0.52, 0.58, 0.62, 0.63])
    >>> pooled(curve, np.full(6, np.nan)).round(3).tolist()
    [0.5, 0.565, 0.565, 0.58, 0.62, 0.63]
    """
    from scipy.optimize import isotonic_regression  # slow to load, and settings need only names

    weights = weights_of(n)
    stop = len(accuracy)
    if stop > _WINDOW:
        ones = np.ones(_WINDOW)
        means = np.convolve(accuracy * weights, ones, "valid") / np.convolve(weights, ones, "valid")
        stop = int(np.flatnonzero(means >= means.max() - TOLERANCE)[0]) + _WINDOW
    if not stop:
        return accuracy
    fitted = isotonic_regression(accuracy[:stop], weights=weights[:stop])
    return np.asarray(fitted.x, dtype=np.float64)


def crossing_index(series: Series, target: Target) -> int | None:
    """Return the position of the validation at which the target is reached, or None.

    Examples
    --------
    >>> a = np.array([0.50, 0.61, 0.52, 0.58, 0.62, 0.63])
    >>> curve = Series(np.arange(6.0), a, np.full(6, np.nan))
    >>> [crossing_index(curve, Target(0.6, rule)) for rule in CROSSINGS]
    [4, 1, 4]
    """
    if target.crossing == "isotonic":
        met = target.met(pooled(series.accuracy, series.n))
    else:
        met = target.met(series.accuracy)
        if target.crossing == "sustain2":
            met = met[:-1] & met[1:]
    found = np.flatnonzero(met)
    return int(found[0]) if len(found) else None


def bracket(series: Series, target: Target) -> tuple[float, float]:
    """Return the interval ``(lower, upper]`` of responses in which the target was reached.

    Upper is inf when it was not: lower then is the last validation that rules the crossing out
    (under ``sustain2`` a last value above the target is undecided, so it is the one before).
    Both are 0 when the target was met before any training.

    Examples
    --------
    >>> s = Series(np.array([0.0, 640.0, 1280.0]), np.array([0.2, 0.5, 0.62]), np.full(3, np.nan))
    >>> bracket(s, Target(0.6)), bracket(s, Target(0.6, "sustain2")), bracket(s, Target(0.9))
    ((640.0, 1280.0), (640.0, inf), (1280.0, inf))
    """
    at, responses = crossing_index(series, target), series.responses
    if at is not None:
        return (float(responses[at - 1]) if at else 0.0), float(responses[at])
    if not len(responses):
        return 0.0, math.inf
    undecided = target.crossing == "sustain2" and bool(target.met(series.accuracy[-1:])[0])
    if not undecided:
        return float(responses[-1]), math.inf
    return (float(responses[-2]) if len(responses) > 1 else 0.0), math.inf
