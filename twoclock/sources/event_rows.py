"""One row of an events table: its bounds, its censoring, and the rules that it can break."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from twoclock.reading import ReadOptions
from twoclock.schema import CENSORING, CLIP_ACTIVE, CLOCKS, EVENTS, RUNS
from twoclock.sources.cells import number, text_number

TIMES = ("responses", "lower", "upper")
"""Columns that say when the event was."""

NUMBERS = frozenset(
    c.name for table in (RUNS, EVENTS) for c in table.columns if c.kind in ("int", "float")
)
"""Columns whose cells must be numbers."""


def event_of(row: Mapping[str, Any], index: int, options: ReadOptions) -> dict[str, Any]:
    """Return one event with bounds and censoring that agree.

    Raises
    ------
    ValueError
        With the rule that the row breaks.
    """
    event = {name: _value(name, cell) for name, cell in row.items()}
    if event.get("batch_size") is None and options.batch_size is not None:
        event["batch_size"] = options.batch_size
    if event.get("seed") is None and options.seed is not None:
        event["seed"] = options.seed
    size = event.get("batch_size")
    if size is None or not size >= 1 or not float(size).is_integer():
        msg = f"batch_size is {shown(size)}, must be a whole number from 1"
        raise ValueError(msg)
    lower, upper, censoring = _bounds(event)
    event.update(lower=lower, upper=upper, censoring=censoring)
    event.pop("responses", None)
    if event.get("clock") is None:
        event["clock"] = "learning"
    if event["clock"] not in CLOCKS:
        msg = f"clock is {event['clock']!r}, must be {' or '.join(CLOCKS)}"
        raise ValueError(msg)
    if event.get("clip_active") not in (None, *CLIP_ACTIVE):
        msg = f"clip_active is {event['clip_active']!r}, must be yes, no or unknown"
        raise ValueError(msg)
    event["run_id"] = shown(event.get("run_id")) if event.get("run_id") else f"row{index}"
    return event


def _value(name: str, cell: Any) -> Any:
    """Return a cell as a number where its column is one, None where it is blank."""
    if isinstance(cell, str):
        parsed = text_number(cell)
        blank = not cell.strip()
    else:
        parsed = number(cell) if not isinstance(cell, np.generic) else number(cell.item())
        blank = cell is None or (isinstance(cell, float) and math.isnan(cell))
    if blank:
        return None
    if name in NUMBERS or name in TIMES:
        if not isinstance(parsed, float) or math.isnan(parsed):
            msg = f"{name} is {cell!r}, must be a number"
            raise ValueError(msg)
        if name == "seed" and not parsed.is_integer():
            msg = f"seed is {cell!r}, must be a whole number"
            raise ValueError(msg)
        return parsed
    return cell.strip() if isinstance(cell, str) else cell


def _bounds(event: Mapping[str, Any]) -> tuple[float, float, str]:
    """Return (lower, upper, censoring).

    Raises
    ------
    ValueError
        The bounds contradict each other or the stated censoring, or there are none.
    """
    stated = _stated(event.get("censoring"))
    if event.get("responses") is not None:
        return _at_responses(event, stated)
    lower, upper, censoring = _between(event, stated)
    # (0, upper] is left-censored here, and an interval in the words of others
    if stated not in (None, censoring) and (stated, censoring) != ("interval", "left"):
        msg = (
            f"censoring is {stated} but lower {shown(event.get('lower'))} and upper "
            f"{shown(event.get('upper'))} mean {censoring}; {_RULES[str(stated)]}"
        )
        raise ValueError(msg)
    return lower, upper, censoring


_RULES = {
    "exact": "exact needs equal lower and upper",
    "interval": "interval needs lower below upper",
    "left": "left needs lower 0 or blank, and upper",
    "right": "right needs lower, and upper blank",
    "before_start": "before_start needs lower 0 and upper 0",
}


def _stated(cell: Any) -> str | None:
    """Return the censoring that a row states; None: nothing."""
    if cell is None:
        return None
    word = shown(cell).lower()
    if word not in CENSORING:
        msg = f"censoring is {shown(cell)!r}, must be one of {', '.join(CENSORING)} or blank"
        raise ValueError(msg)
    return word


def _at_responses(event: Mapping[str, Any], stated: str | None) -> tuple[float, float, str]:
    """Return the bounds of a row that tells one number of responses and perhaps a censoring."""
    at = event["responses"]
    if not 0 < at < math.inf:
        msg = f"responses is {shown(at)}, must be above 0 and finite"
        raise ValueError(msg)
    censoring = stated or "exact"
    if censoring not in ("exact", "left", "right"):
        msg = f"censoring is {censoring} but there is only responses; {_RULES[censoring]}"
        raise ValueError(msg)
    low = 0.0 if censoring == "left" else at
    high = math.inf if censoring == "right" else at
    for name, bound in (("lower", low), ("upper", high)):
        given = event.get(name)
        if given is not None and given != bound:
            said = f" and censoring {stated}" if stated else ""
            msg = f"responses is {shown(at)}{said} but {name} is {shown(given)}"
            raise ValueError(msg)
    return low, high, censoring


def _between(event: Mapping[str, Any], stated: str | None) -> tuple[float, float, str]:
    """Return the bounds of a row with lower and upper, and the censoring that they mean."""
    lower, upper = event.get("lower"), event.get("upper")
    if "lower" not in event and "upper" not in event:
        msg = "responses is blank and there are no lower and upper"
        raise ValueError(msg)
    for name, bound in (("lower", lower), ("upper", upper)):
        if bound is not None and bound < 0:
            msg = f"{name} is {shown(bound)}, must not be negative"
            raise ValueError(msg)
    low = 0.0 if lower is None else lower
    if upper is None or upper == math.inf:
        if low <= 0 or low == math.inf:
            msg = "lower and upper are both blank or 0: the row says nothing"
            raise ValueError(msg)
        return low, math.inf, "right"
    if low > upper:
        msg = f"lower {shown(low)} is above upper {shown(upper)}"
        raise ValueError(msg)
    if upper == 0:
        if stated == "before_start":
            return 0.0, 0.0, "before_start"
        msg = "lower and upper are 0: an event cannot come before the first response"
        raise ValueError(msg)
    if low == upper:
        return low, upper, "exact"
    return low, upper, "left" if low == 0 else "interval"


def shown(value: Any) -> str:
    """Return a value for a message, whole numbers without a fraction.

    Examples
    --------
    >>> shown(3.0), shown(None)
    ('3', 'blank')
    """
    if value is None:
        return "blank"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
