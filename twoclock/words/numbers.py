"""Words for numbers: to the digits that their uncertainty supports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


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


def limit_text(value: float | None, decimals: int) -> str:
    """Return one end of an interval.

    Examples
    --------
    >>> limit_text(0.126, 2), limit_text(float("inf"), 2), limit_text(None, 2)
    ('0.13', 'no limit', 'not known')
    """
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
    return f"{middle} [{limit_text(lower, decimals)}, {limit_text(upper, decimals)}]"


def pair_text(lower: float, upper: float) -> str:
    """Return an interval that has no point in it, to the digits that its width supports.

    Examples
    --------
    >>> pair_text(-0.1312, 0.0309), pair_text(-0.2, float("inf"))
    ('[-0.13, 0.03]', '[-0.20, no limit]')
    """
    ends = [end for end in (lower, upper) if math.isfinite(end)]
    decimals = _decimals(abs(upper - lower) / 2 if len(ends) == 2 else 0.0, ends, 2)
    return f"[{limit_text(lower, decimals)}, {limit_text(upper, decimals)}]"
