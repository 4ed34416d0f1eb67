"""Consoles of every framework: one reader, one look for the line that tells whose it is.

A dialect is a module (or a few lines of one) and one entry in `DIALECTS`. The first line that is a
row of some dialect decides; a console without one is known by what its framework prints first.
"""

from __future__ import annotations

from pathlib import Path

from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.console.base import Dialect, read_console
from twoclock.sources.console.blocks import Watch, iter_watched
from twoclock.sources.console.dicts import OPENRLHF, ROLL, SKYRL, SLIME
from twoclock.sources.console.lines import pieces
from twoclock.sources.console.plain import LEAST, PLAIN, read_pairs
from twoclock.sources.console.prime import PRIME
from twoclock.sources.console.refused import OPEN_INSTRUCT
from twoclock.sources.console.tables import AREAL, NEMO, TORCHTUNE
from twoclock.sources.console.trl import TRL
from twoclock.sources.console.verl import VERL
from twoclock.sources.text import read_head

DIALECTS: tuple[Dialect, ...] = (
    VERL, OPENRLHF, ROLL, SLIME, SKYRL, AREAL, NEMO, TORCHTUNE, PRIME, TRL, OPEN_INSTRUCT,
)  # fmt: skip
"""All dialects, those with the most telling rows first."""

SEARCHED = 8 << 20
"""Bytes of a console that are searched for its first row."""

_NO_CONSOLE = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".yaml", ".yml")
_MARKS = tuple(dict.fromkeys(m for d in (*DIALECTS, PLAIN) for m in d.marks))
_MARKED = tuple((mark, dialect) for dialect in DIALECTS for mark in dialect.marks)
_MAX_PIECE = 1 << 20


def find_dialect(head: Head) -> Dialect | None:
    """Return the dialect of a console, or None when it is none that is known."""
    named = not head.name.endswith(_NO_CONSOLE)
    found = _by_row(head.path, SEARCHED if named else len(head.data))
    if found is not None or not named:
        return found
    return next((d for d in DIALECTS if any(sign in head.data for sign in d.signs)), None)


def _by_row(path: Path, limit: int) -> Dialect | None:
    """Return the dialect of the first row, looking at so many bytes."""
    before = ""
    pairs: list[set[str]] = []
    for number, raw in iter_watched(path, [], Watch(_MARKS, limit=limit)):
        raw = raw[:_MAX_PIECE]
        asked = {dialect.name: dialect for mark, dialect in _MARKED if mark in raw}
        for line in pieces(number, raw):
            for dialect in asked.values():
                if dialect.tells(line.text, before):
                    return dialect
            before = line.text
            if len(pairs) < LEAST and (row := read_pairs(line.text)) is not None:
                pairs.append(set(row))
    common = set.intersection(*pairs) if len(pairs) >= LEAST else set()
    return PLAIN if len(common) > 1 else None


def read(path: Path, options: ReadOptions) -> list[Log]:
    """Read a console in the dialect that it tells.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    dialect = find_dialect(Head(path, read_head(path))) or PLAIN
    return read_console(dialect, path, options)


CONSOLE = Reader("console", lambda head: find_dialect(head) is not None, read)
