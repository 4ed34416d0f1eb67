"""How long calls tell what they are doing: a callable that gets done, total and a text."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with units done, units in all, and what is being worked on."""


def silent(done: int, total: int, text: str) -> None:
    """Report progress to nobody."""
