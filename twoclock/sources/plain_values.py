"""Settings that a tracker stored as texts."""

from __future__ import annotations

from typing import Any

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def plain_value(value: Any) -> Any:
    """Return what a text stands for: a number, true, false, none, or the text itself.

    Whole numbers that were stored as floats become whole numbers again.

    Examples
    --------
    >>> [plain_value(text) for text in ("1e-6", "8", "True", "None", "adamw", 4.0)]
    [1e-06, 8, True, None, 'adamw', 4]
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if "_" in word:
        return value  # Python's own numbers may have them, texts of settings do not mean one
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
