"""Pieces that the sections of the terminal text are made of."""

from __future__ import annotations

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

Lines = list[RenderableType]

MOST = 5
"""Differences and refusals shown one by one; the rest are counted."""


def heading(text: str) -> Text:
    """Return the heading of a section."""
    return Text(text, style="bold")


def bullet(text: str | Text, style: str = "") -> Padding:
    """Return an indented paragraph."""
    words = Text(text, style=style) if isinstance(text, str) else text
    return Padding(words, (0, 0, 0, 2), expand=False)


def more(n: int, where: str, most: int = MOST) -> Lines:
    """Return the line that counts what is not shown of `n`, if anything."""
    return [bullet(f"and {n - most:,} more: {where}", "dim")] if n > most else []
