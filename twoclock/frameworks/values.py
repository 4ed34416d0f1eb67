"""How what a configuration writes becomes a fact, for `Setting.read` and for `Framework.complete`.

Each returns None where the written value says nothing, so that a later name can speak, and never
raises: configurations hold texts, lists, null and booleans where a number is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twoclock.frameworks.base import Fact, Facts, Source, limit
from twoclock.frameworks.config import Flat

_LARGEST = 2.0**62
_NOTHING = ("", "none", "null", "???")


def number_or_infinity(value: Any) -> float | None:
    """Return a number, also one that is written as a text; infinity is one, NaN and booleans not.

    Examples
    --------
    >>> number_or_infinity("1e-6"), number_or_infinity(".inf"), number_or_infinity("inf")
    (1e-06, None, inf)
    >>> number_or_infinity(True), number_or_infinity([1])
    (None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < _LARGEST or number == math.inf else None


def numeric(value: Any) -> float | None:
    """Return a finite number, also one that is written as a text.

    Examples
    --------
    >>> numeric("1e-6"), numeric(True), numeric("auto"), numeric(float("nan"))
    (1e-06, None, None, None)
    """
    number = number_or_infinity(value)
    return None if number == math.inf else number


def positive(value: Any) -> float | None:
    """Return a number above 0; 0 and less stand for "not set" in many configurations."""
    number = numeric(value)
    return None if number is None or number <= 0 else number


def not_negative(value: Any) -> float | None:
    """Return a number of 0 or more."""
    number = numeric(value)
    return None if number is None or number < 0 else number


def whole(value: Any) -> int | None:
    """Return a whole number.

    Examples
    --------
    >>> whole("42"), whole(42.0), whole(0.5)
    (42, 42, None)
    """
    number = numeric(value)
    return round(number) if number is not None and number == math.floor(number) else None


def count(value: Any) -> int | None:
    """Return a whole number of 1 or more."""
    number = whole(value)
    return None if number is None or number < 1 else number


def text(value: Any) -> str | None:
    """Return a text that says something: not a word for none, nor a reference to another setting.

    Examples
    --------
    >>> text("cosine"), text("None"), text("${policy.model_name}"), text("???")
    ('cosine', None, None, None)
    """
    if not isinstance(value, str) or value.strip().lower() in _NOTHING:
        return None
    return None if value.startswith("${") else value


def bound(value: Any) -> float | None:
    """Return a bound; null and the words for none are infinity, what is no number says nothing.

    Examples
    --------
    >>> bound(None), bound("0.2"), bound("yes")
    (inf, 0.2, None)
    """
    return math.inf if limit(value) == math.inf else numeric(value)


def bound_above_zero(value: Any) -> float | None:
    """Return a bound that 0 or less switches off."""
    found = bound(value)
    return math.inf if found is not None and found <= 0 else found


def item(position: int) -> Callable[[Any], float | None]:
    """Return a reader of one number of a list.

    Examples
    --------
    >>> item(1)([0.2, 0.28]), item(1)("0.2 0.28"), item(1)(0.2)
    (0.28, 0.28, None)
    """

    def read(value: Any) -> float | None:
        values = value.strip("()[]").replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(values, Sequence) or len(values) <= position:
            return None
        return numeric(values[position])

    return read


def named(words: Mapping[str, str]) -> Callable[[Any], str | None]:
    """Return a reader that puts our word for theirs; a text without one stays as it is."""

    def read(value: Any) -> str | None:
        found = text(value)
        return None if found is None else words.get(found, found)

    return read


def chosen(yes: str, no: str) -> Callable[[Any], str | None]:
    """Return a reader of a switch.

    Examples
    --------
    >>> chosen("token", "sequence")(True), chosen("token", "sequence")("false")
    ('token', 'sequence')
    """

    def read(value: Any) -> str | None:
        state = switch(value)
        return None if state is None else (yes if state else no)

    return read


def switch(value: Any) -> bool | None:
    """Return whether a switch is on, also where it is written as a text."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return words.get(str(value).strip().lower()) if isinstance(value, str | int) else None


def on(config: Flat, *names: str) -> bool:
    """Tell whether any of the switches is on."""
    return any(switch(config.get(name)) for name in names)


def first(config: Flat, *names: str, read: Callable[[Any], Any] = numeric) -> Any:
    """Return what the first of the names that says something says."""
    found = (read(config[name]) for name in names if name in config)
    return next((value for value in found if value is not None), None)


def put(facts: Facts, name: str, value: Any, source: Source = "config") -> None:
    """Add a fact in the place of what stands there, unless there is nothing to say."""
    if value is not None:
        facts[name] = Fact(value, source)


def put_clips(facts: Facts, low: float, high: float, dual: float) -> None:
    """Set the three bounds of a loss that is not clipped as its settings would make believe."""
    for name, value in (("clip_low", low), ("clip_high", high), ("clip_dual", dual)):
        facts[name] = Fact(value, "derived")


def drop_clips(facts: Facts) -> None:
    """Take out the bounds of a loss whose clipping no epsilon describes."""
    for name in ("clip_low", "clip_high", "clip_dual"):
        facts.pop(name, None)


def fact_number(facts: Facts, name: str) -> float | None:
    """Return a fact as a number."""
    return numeric(facts[name].value) if name in facts else None


def described(
    name: Any, *, betas: Any = None, eps: Any = None, decay: Any = None, momentum: Any = None
) -> str | None:
    """Return an optimizer's name with its settings, those that are 0 or absent left out.

    Examples
    --------
    >>> described("AdamW", betas=[0.9, 0.95], eps="1e-8", decay=0.0)
    'adamw(0.9,0.95,eps=1e-08)'
    """
    known = text(name)
    if known is None:
        return None
    pair = [item(i)(betas) for i in (0, 1)]
    parts = [f"{value:g}" for value in pair if value is not None] if None not in pair else []
    for label, value in (("eps", eps), ("weight_decay", decay), ("momentum", momentum)):
        number = numeric(value)
        if number:
            parts.append(f"{label}={number:g}")
    word = known.rpartition(".")[2].lower()
    return f"{word}({','.join(parts)})" if parts else word
