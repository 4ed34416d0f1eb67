"""Words for numbers, exponents and strata: one wording for figures, tables and the terminal.

Nothing here computes a statistic, draws or prints.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from twoclock.results import Bound, ClockFit, Equivalence

COLUMN_WORDS = {
    "base_lr": "base lr",
    "optimizer_steps_per_rollout": "K",
    "group_size": "group size",
    "clip_low": "clip low",
    "clip_high": "clip high",
    "clip_dual": "dual clip",
    "kl_coef": "KL coefficient",
    "lr_schedule": "lr schedule",
    "warmup_responses": "warm-up",
    "batch_size": "B",
    "clip_active": "clipping",
}
"""Short words for columns whose own name does not read well; others lose their underscores."""

STATUS_WORDS = {
    "converged": "converged",
    "bound": "bounded",
    "not_identified": "not identified",
    "failed": "fit failed",
}


def column_words(name: str) -> str:
    """Return the words for a stratum column.

    Examples
    --------
    >>> column_words("optimizer_steps_per_rollout"), column_words("model")
    ('K', 'model')
    """
    return COLUMN_WORDS.get(name, name.replace("_", " "))


def number_text(value: Any) -> str:
    """Return a setting as people write it: 1e-5, 0.2, 2,048; inf is "none".

    Examples
    --------
    >>> [number_text(v) for v in (1e-05, 0.000316, 0.2, 2048.0, 8, float("inf"), None)]
    ['1e-5', '3.16e-4', '0.2', '2,048', '8', 'none', 'not logged']
    """
    if value is None:
        return "not logged"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value == "inf" else str(value)
    if math.isinf(value):
        return "none"
    if value == 0 or 0.01 <= abs(value) < 1e6:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
    mantissa, _, power = f"{value:.2e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(power)}"


def count_text(value: float) -> str:
    """Return a count (responses, batch size) in full, a huge one in short; never cut.

    Examples
    --------
    >>> [count_text(v) for v in (64, 2048.0, 1_048_576, 10**18, 2.5e9, 0.125)]
    ['64', '2,048', '1,048,576', '1e18', '2.5e9', '0.125']
    """
    if abs(value) >= 1e9:
        return number_text(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _decimals(half_width: float, numbers: Sequence[float], least: int) -> int:
    """Return how many decimals are worth showing.

    Two digits of a half-width that begins with 1, else one; one more where an end that is not zero
    would read as zero (which side of zero it lies on matters), and never fewer than `least`.
    """
    size = half_width if half_width > 0 else max((abs(n) for n in numbers), default=0.0) / 10
    if size <= 0 or not math.isfinite(size):
        return max(least, 2)
    power = math.floor(math.log10(size))
    decimals = (1 if size / 10.0**power < 1.95 else 0) - power
    decimals = min(max(decimals, least), 6)
    if any(n != 0 and abs(n) < 0.5 * 10.0**-decimals for n in numbers):
        decimals = min(decimals + 1, 6)
    return decimals


def _limit(value: float | None, decimals: int) -> str:
    if value is None or math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "no limit"
    return _signless(f"{value:.{decimals}f}")


def _signless(text: str) -> str:
    """Return `text` without the minus of a rounded zero."""
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def estimate_text(
    estimate: float | None, lower: float | None, upper: float | None, *, least: int = 2
) -> str:
    """Return an estimate with its interval, to the digits that the interval supports.

    `least` is the smallest number of decimals.

    Examples
    --------
    >>> estimate_text(0.1712, 0.0503, 0.2921)
    '0.17 [0.05, 0.29]'
    >>> estimate_text(0.1712, 0.1683, 0.1741)
    '0.171 [0.168, 0.174]'
    >>> estimate_text(0.093, -0.003, 0.189)
    '0.093 [-0.003, 0.189]'
    >>> estimate_text(0.17, None, None), estimate_text(None, None, None)
    ('0.170 (no interval)', 'not known')
    >>> estimate_text(12.31, 8.2, 18.4, least=0)
    '12 [8, 18]'
    """
    if estimate is None or math.isnan(estimate):
        return "not known"
    ends = [end for end in (lower, upper) if end is not None and math.isfinite(end)]
    half = max((abs(end - estimate) for end in ends), default=0.0)
    if len(ends) == 2:
        half = (max(ends) - min(ends)) / 2
    decimals = _decimals(half, [estimate, *ends], least)
    middle = _signless(f"{estimate:.{decimals}f}")
    if not ends:
        return f"{middle} (no interval)"
    return f"{middle} [{_limit(lower, decimals)}, {_limit(upper, decimals)}]"


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
    return f"{word} {_limit(bound.value, 2)}"


def pair_text(lower: float, upper: float) -> str:
    """Return an interval that has no point in it, to the digits that its width supports.

    Examples
    --------
    >>> pair_text(-0.1312, 0.0309), pair_text(-0.2, float("inf"))
    ('[-0.13, 0.03]', '[-0.20, no limit]')
    """
    ends = [end for end in (lower, upper) if math.isfinite(end)]
    decimals = _decimals(abs(upper - lower) / 2 if len(ends) == 2 else 0.0, ends, 2)
    return f"[{_limit(lower, decimals)}, {_limit(upper, decimals)}]"


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


def stratum_labels(strata: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """Return one short label per stratum (what tells it from the others) and what they all share.

    Labels name the task and the base learning rate where these differ, and of the other columns
    that differ only as many as are needed; `stratum_details` says the rest. A stratum without
    neighbours is called by its base learning rate, else "all runs".

    Examples
    --------
    >>> a = {"task": "sort", "base_lr": 1e-05, "group_size": 8}
    >>> stratum_labels([a, {**a, "base_lr": 1e-04}])
    (('base lr 1e-5', 'base lr 1e-4'), 'task sort, group size 8')
    >>> stratum_labels([a])[0]
    ('base lr 1e-5',)
    >>> b = {**a, "base_lr": 1e-04, "group_size": 4}
    >>> stratum_labels([a, a, b])[0]
    ('base lr 1e-5', 'base lr 1e-5', 'base lr 1e-4')
    """
    names = _columns(strata)
    differing = _differing(strata)
    shown = _telling(strata) or [n for n in ("base_lr",) if n in names]
    hidden = {*differing, *shown}
    common = _pairs(strata[0], [n for n in names if n not in hidden]) if strata else ""
    labels = tuple(_label(stratum, shown) or "all runs" for stratum in strata)
    return labels, common


def stratum_details(strata: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what `stratum_labels` leaves unsaid: the other columns in which the strata differ.

    One line for each set of values, headed by the task where that decides them.

    Examples
    --------
    >>> a = {"task": "sort", "base_lr": 1e-05, "clip_low": 0.2}
    >>> b = {"task": "add", "base_lr": 1e-04, "clip_low": None}
    >>> stratum_details([a, b])
    ('task sort: clip low 0.2', 'task add: clip low not logged')
    """
    shown = _telling(strata)
    hidden = [name for name in _differing(strata) if name not in shown]
    if not hidden:
        return ()
    labels, _ = stratum_labels(strata)
    by_task = len({str((s.get("task"), _pairs(s, hidden))) for s in strata}) == len(
        {str(s.get("task")) for s in strata}
    )
    lines: dict[str, list[str]] = {}
    for stratum, label in zip(strata, labels, strict=True):
        head = _pairs(stratum, ["task"]) if by_task else label
        heads = lines.setdefault(_pairs(stratum, hidden), [])
        if head not in heads:
            heads.append(head)
    return tuple(f"{'; '.join(heads)}: {text}" for text, heads in lines.items())


def _label(stratum: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the pairs of `names`; the task stands without its word, to leave room."""
    task = [number_text(stratum.get("task"))] if "task" in names else []
    rest = _pairs(stratum, [name for name in names if name != "task"])
    return ", ".join([*task, *([rest] if rest else [])])


def _columns(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for stratum in strata for name in stratum))


def _differing(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    return [n for n in _columns(strata) if len({str(s.get(n)) for s in strata}) > 1]


def _telling(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fewest columns that tell every stratum from the others."""
    differing = _differing(strata)
    first = [name for name in ("task", "base_lr") if name in differing]
    others = [name for name in differing if name not in first]
    distinct = len({str([s.get(n) for n in differing]) for s in strata})
    for count in range(len(others) + 1):
        for more in itertools.combinations(others, count):
            chosen = [*first, *more]
            if len({str([s.get(n) for n in chosen]) for s in strata}) == distinct:
                return chosen
    return differing


def _pairs(stratum: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{column_words(n)} {number_text(stratum.get(n))}" for n in names)


def stratum_order(stratum: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a sort key: by base learning rate, then by the other columns as text.

    Examples
    --------
    >>> sorted([{"base_lr": 1e-4}, {"base_lr": 1e-5}, {}], key=stratum_order)
    [{'base_lr': 1e-05}, {'base_lr': 0.0001}, {}]
    """
    rate = stratum.get("base_lr")
    rest = tuple((name, str(value)) for name, value in stratum.items() if name != "base_lr")
    return (math.inf if rate is None else float(rate), rest)


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


def common_column(labels: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the words that all labels of one varying column begin with, and the labels without.

    Examples
    --------
    >>> common_column(["base lr 1e-5", "base lr 1e-4"])
    ('base lr', ('1e-5', '1e-4'))
    >>> common_column(["task a, K 1", "task b, K 8"])
    ('runs', ('task a, K 1', 'task b, K 8'))
    """
    for words in COLUMN_WORDS.values():
        alone = all(label.startswith(f"{words} ") and "," not in label for label in labels)
        if labels and alone:
            return words, tuple(label.removeprefix(f"{words} ") for label in labels)
    return "runs", tuple(labels)
