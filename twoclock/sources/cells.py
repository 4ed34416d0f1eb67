"""One value of a foreign log: a number, non-finite, absent, or not a number at all."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from typing import Any

ABSENT = "absent"
"""What `number` returns for an empty cell: not logged, which is not the same as NaN."""

_WRAPPED = re.compile(
    r"(?:np\.|numpy\.|jnp\.|torch\.)?(?:float\d*|int\d*|tensor|array|Array)\(\s*([^,()\s]+)[^()]*\)"
)
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NON_FINITE = {
    "nan": math.nan, "+nan": math.nan, "-nan": math.nan, "null": math.nan, "none": math.nan,
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf,
    "-inf": -math.inf, "-infinity": -math.inf,
}  # fmt: skip


def number(value: Any) -> float | str | None:
    """Return the float behind a logged value, `ABSENT`, or None when it is not a number.

    Explicit nulls and the words NaN and infinity become non-finite floats; booleans, lists and
    dictionaries are not numbers.

    Examples
    --------
    >>> number("np.float64(0.5)"), number("1e-06"), number(None), number("-Infinity")
    (0.5, 1e-06, nan, -inf)
    >>> number(True), number({"mean": 0.6}), number(" ")
    (None, None, 'absent')
    """
    kind = type(value)
    if kind is float:
        return float(value)
    if kind is int:
        return _float(value)
    if value is None:
        return math.nan
    if kind is str:
        return text_number(value)
    return None


def text_number(text: str) -> float | str | None:
    """Return the float that a text means, `ABSENT` for a blank, None for other words.

    Examples
    --------
    >>> text_number("61.5%"), text_number("abc")
    (0.615, None)
    """
    text = text.strip()
    if not text:
        return ABSENT
    if _PLAIN.fullmatch(text):
        return float(text)
    if text[-1] == "%" and _PLAIN.fullmatch(text[:-1].rstrip()):
        return float(text[:-1]) / 100
    known = _NON_FINITE.get(text.lower())
    if known is not None:
        return known
    wrapped = _WRAPPED.fullmatch(text)
    return text_number(wrapped[1]) if wrapped else None


def all_numbers(cells: Sequence[str]) -> array[float] | None:
    """Return the floats that texts mean, or None when one of them is no plain number.

    Examples
    --------
    >>> all_numbers(["1e-6", " 2 ", "NaN"]), all_numbers(["1", ""]), all_numbers(["1_0"])
    (array('d', [1e-06, 2.0, nan]), None, None)
    """
    if "_" in "".join(cells):  # which only Python takes for part of a number
        return None
    try:
        return array("d", map(float, cells))
    except ValueError:
        return None


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
