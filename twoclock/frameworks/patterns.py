"""Keys and patterns of keys: ``*`` stands for any text."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    return any_of([glob])


def any_of(globs: Iterable[str]) -> re.Pattern[str]:
    """Return one expression that matches in full what any of the patterns matches.

    Examples
    --------
    >>> bool(any_of(["a/*/b", "c.d"]).fullmatch("a/x/b")), any_of(["c.d"]).fullmatch("cxd")
    (True, None)
    """
    expressions = (".*".join(map(re.escape, glob.split("*"))) for glob in globs)
    return re.compile("|".join(expressions) or "(?!)")


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
