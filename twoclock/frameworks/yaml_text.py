"""YAML from strangers: safe tags only, and no more nesting or repetition than a file can show.

A few lines of YAML can stand for billions of values (aliases of aliases), or nest deeper than the
stack of a process; both are refused before anything walks through them.
"""

from __future__ import annotations

from typing import Any

import yaml

MAX_DEPTH = 100
"""Levels of nesting."""

MAX_VALUES = 200_000
"""Values, those behind aliases counted wherever they are named."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> Any:
    """Return the value of a YAML document.

    Raises
    ------
    ValueError
        It nests too deep or stands for too many values.
    yaml.YAMLError
        It is no YAML, or has tags that build objects.

    Examples
    --------
    >>> load_yaml("{lr: 0.5, sizes: [1, 2]}")
    {'lr': 0.5, 'sizes': [1, 2]}
    >>> load_yaml("&a [*a]")
    Traceback (most recent call last):
    ...
    ValueError: a value holds itself
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                msg = f"nests deeper than {MAX_DEPTH} levels"
                raise ValueError(msg)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    value = yaml.load(text, Loader=_LOADER)
    if _count(value, {}) > MAX_VALUES:
        msg = f"stands for more than {MAX_VALUES:,} values"
        raise ValueError(msg)
    return value


def _count(value: Any, known: dict[int, int]) -> int:
    """Return how many values a value holds, each place of an alias counted."""
    if not isinstance(value, dict | list | set | tuple):
        return 1
    if id(value) not in known:
        known[id(value)] = -1  # begun
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(item, known) for item in inner)
    if known[id(value)] < 0:
        msg = "a value holds itself"
        raise ValueError(msg)
    return known[id(value)]
