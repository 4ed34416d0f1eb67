"""Which values a user may give for a column of `runs`: one rule per column.

Checks single values at the door; what several of them say together is checked when they are used.
"""

from __future__ import annotations

import math
from typing import Any

from twoclock.runs.facts import NO_LIMIT, TRL_FACTS
from twoclock.schema import RUNS

_COUNTS = (*(c.name for c in RUNS.columns if c.kind == "int" and c.name != "seed"), *TRL_FACTS)
_RATES = ("lr", "base_lr")
_FLOATS = tuple(c.name for c in RUNS.columns if c.kind == "float")
_CHOICES = {c.name: c.choices for c in RUNS.columns if c.choices}


def broken_rule(name: str, value: Any) -> str:
    """Return what a value must be and is not; "" when it may stand in the column.

    Null is always allowed: no such limit, or not known. Numbers may be written as text, since
    YAML 1.1 reads ``1e-6`` as one.

    Examples
    --------
    >>> broken_rule("lr", -1), broken_rule("lr", "1e-6"), broken_rule("clip_high", math.inf)
    ('must be a number above 0', '', '')
    >>> broken_rule("batch_size", 64.5)
    'must be a whole number from 1'
    """
    if value is None:
        return ""
    if name in _CHOICES:
        allowed = _CHOICES[name]
        return "" if str(value) in allowed else f"must be one of {', '.join(allowed)}"
    if name in _COUNTS or name == "seed":
        least = 0 if name == "seed" else 1
        return "" if _is_whole(_number(value), least) else f"must be a whole number from {least}"
    if name not in _FLOATS:
        return ""
    number = _number(value)
    if name in _RATES:
        return "" if 0 < number < math.inf else "must be a number above 0"
    if name in NO_LIMIT:
        return "" if number >= 0 else "must be a number from 0, or .inf or null for no limit"
    return "" if 0 <= number < math.inf else "must be a number from 0"


def _number(value: Any) -> float:
    """Return the number that a value is or says; NaN, which breaks every rule, if none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _is_whole(number: float, least: int) -> bool:
    return least <= number < 2**62 and number.is_integer()
