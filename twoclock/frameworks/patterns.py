"""Keys and patterns of keys: ``*`` stands for any text."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")))


def matching(globs: Iterable[str], keys: Collection[str]) -> list[str]:
    """Return the keys that match, in the order of the patterns.

    Examples
    --------
    >>> matching(["a/*/b", "c"], ["c", "a/x/y/b", "d"])
    ['a/x/y/b', 'c']
    """
    out: dict[str, None] = {}
    for glob in globs:
        if "*" in glob:
            out.update(dict.fromkeys(k for k in keys if _pattern(glob).fullmatch(k)))
        elif glob in keys:
            out[glob] = None
    return list(out)
