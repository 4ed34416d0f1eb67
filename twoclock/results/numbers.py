"""Numbers as the JSON contract writes them: absent is None, never NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pair = tuple[float, float]


def number(value: float | None) -> float | None:
    """Return a finite float, or None for anything that is not a finite number.

    Examples
    --------
    >>> number(0.5), number(float("nan")), number(None)
    (0.5, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def pair(ends: Pair | None) -> list[float | None] | None:
    """Return an interval as a JSON list; an end that is not finite is None.

    Examples
    --------
    >>> pair((0.1, float("inf")))
    [0.1, None]
    """
    return None if ends is None else [number(ends[0]), number(ends[1])]


def plain(value: Any) -> Any:
    """Return `value` as a JSON scalar: missing and non-finite become None ("inf" stays a word).

    Examples
    --------
    >>> plain(np.int64(3)), plain(pd.NA), plain(float("inf"))
    (3, None, 'inf')
    """
    if value is None or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value
