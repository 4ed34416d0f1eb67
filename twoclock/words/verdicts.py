"""Words for exponents, events and verdicts: never more than the result carries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from twoclock.results import Bound, ClockFit, Equivalence
from twoclock.words.numbers import estimate_text, limit_text, pair_text

STATUS_WORDS = {
    "converged": "converged",
    "bound": "bounded",
    "not_identified": "not identified",
    "failed": "fit failed",
}


def exponent_text(fit: ClockFit) -> str:
    """Return the exponent of a fit with its interval, its bound, or why there is none."""
    if fit.exponent is not None:
        exponent = fit.exponent
        if exponent.method == "degenerate":  # an interval of no width says nothing
            return estimate_text(exponent.estimate, None, None)
        return estimate_text(exponent.estimate, exponent.lower, exponent.upper)
    bound = fit.bound
    if bound is None:
        return STATUS_WORDS.get(fit.status, fit.status)
    if bound.side == "both":
        lower, upper = bound.lower or 0.0, bound.upper or 0.0
        return f"set {pair_text(lower, upper)}"
    word = "at most" if bound.side == "upper" else "at least"
    return f"{word} {limit_text(bound.value, 2)}"


def set_text(bound: Bound | None) -> str:
    """Return what the set of a bound on both sides is, and how far seed noise widens it.

    Empty for any other bound.

    Examples
    --------
    >>> set_text(Bound("both", None, -0.13, 0.03, 1.0, (-0.22, 0.17), 0.95)).partition("; ")[2]
    'with seed noise [-0.22, 0.17] at 95 %'
    """
    if bound is None or bound.side != "both":
        return ""
    text = "set: exponents with which one line passes through every interval"
    if bound.profile is None:
        return text
    text += f"; with seed noise {pair_text(*bound.profile)}"
    return text if bound.profile_level is None else f"{text} at {100 * bound.profile_level:g} %"


def published_text(exponent: float, source: str) -> str:
    """Return a published exponent, or the words that its source gives after a colon instead.

    Examples
    --------
    >>> published_text(0.44, "a study"), published_text(math.nan, "a study: about independent of B")
    ('0.44', 'about independent of B')
    """
    if math.isnan(exponent):
        return source.rpartition(": ")[2] if ": " in source else "no number given"
    return f"{exponent:.2f}"


def event_text(clock: str, targets: Sequence[float]) -> str:
    """Return what the responses of a clock lead to, for axis labels and headings.

    Examples
    --------
    >>> event_text("learning", (0.6,)), event_text("failure", ())
    ('Responses to 0.60 validation accuracy', 'Responses to failure')
    """
    if clock == "failure":
        return "Responses to failure"
    if not targets:
        return "Responses to target"
    names = ", ".join(target_text(target) for target in targets)
    unit = "validation accuracy" if all(0 <= t <= 1 for t in targets) else "validation score"
    return f"Responses to {names} {unit}"


def target_text(target: float) -> str:
    """Return a target with two decimals, more where it has them.

    Examples
    --------
    >>> target_text(0.6), target_text(0.625), target_text(12.0)
    ('0.60', '0.625', '12.00')
    """
    text = f"{target:.6f}".rstrip("0")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<2}"


def margin_text(margin: float, factor: float | None) -> str:
    """Return a margin of an exponent, with the factor that it means over the range of B.

    Examples
    --------
    >>> margin_text(0.1, 64**0.1)
    '+-0.10 (a factor of 1.52)'
    """
    return f"+-{margin:.2f}" + ("" if factor is None else f" (a factor of {factor:.3g})")


def equivalence_text(item: Equivalence, fit: ClockFit | None = None) -> str:
    """Return the verdict on independence of batch size in plain words, and no more than it says.

    Parameters
    ----------
    item : Equivalence
        The verdict.
    fit : ClockFit, optional
        The fit that it is about: says why there is no verdict.
    """
    margin = margin_text(item.margin, item.factor)
    if item.verdict == "not_identified":
        return f"no verdict: {_why_none(fit)}"
    value = estimate_text(item.estimate, item.lower, item.upper)
    value = f"exponent {value} at {100 * item.level:g} %"
    if item.estimate is None and fit is not None and fit.bound is not None:
        value = f"exponent {exponent_text(fit)}"
        if fit.bound.level < 1:
            value += f" at {100 * fit.bound.level:g} %"
    if item.verdict == "supported":
        return f"supported: {value} lies within {margin}"
    if item.verdict == "rejected":
        return f"rejected: {value} lies outside {margin}"
    parts = [f"inconclusive: {value} reaches beyond {margin}"]
    if item.smallest_margin is not None:
        factor = item.factor
        if factor is not None and item.margin > 0:
            factor = factor ** (item.smallest_margin / item.margin)
        parts.append(f"these data would support {margin_text(item.smallest_margin, factor)}")
    if item.runs_per_cell is not None:
        parts.append(
            f"about {item.runs_per_cell:,} runs per batch size would settle +-{item.margin:.2f}"
        )
    return "; ".join(parts)


def _why_none(fit: ClockFit | None) -> str:
    """Return why a fit gives no verdict on its exponent."""
    if fit is not None and fit.bound is not None:
        if fit.bound.side == "both":
            return f"the data give a set of exponents only ({exponent_text(fit)})"
        return f"the data bound the exponent on one side only ({exponent_text(fit)})"
    if fit is not None and fit.exponent is not None:
        if fit.exponent.method == "degenerate":
            return "no interval (all runs of a batch size are alike)"
        return "the exponent has no seed interval"
    if fit is not None and fit.status == "failed":
        return "the fit failed"
    return "the exponent is not identified"
