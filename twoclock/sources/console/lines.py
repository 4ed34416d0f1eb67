"""Lines of a console: colours, progress bars and the names of workers taken off.

Whatever framework printed it, a console is a stream of pieces: a line holds one for each carriage
return in it, behind the prefixes of Ray, torchrun, srun and `[rankN]`. Only lines with a mark that
somebody waits for are looked at, so that the rest of a console of gigabytes costs little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from twoclock.notes import Note
from twoclock.sources.console.blocks import Watch, iter_watched

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
_PREFIX = re.compile(
    r"\s*(?:\(([^()]{0,99}\bpid=[^()]{0,99})\)|\[(?:rank|default)[ _]?(\d+)\]:?"
    r"|(\d{1,4}):(?=\s))\s?"
)
_REPEATED = re.compile(r"\[repeated \d+x across cluster\]")
_STAMP = re.compile(
    r"\s*(?:[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?[\])]?"
    r"|\[?(?:DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL)\]?)(?:\s*[|:,-]+\s*|\s+)"
)
_SOURCE = re.compile(r"[\w./<>-]+(?::[\w<>.]+)*:\d+\s*(?:-|\]|:)+\s+")
_MAX_PREFIXES = 4


class Line(NamedTuple):
    """One piece of a line.

    Parameters
    ----------
    number : int
        Line of the file, from 1.
    worker : str
        The Ray worker that printed it (``TaskRunner pid=7``); empty: the process itself.
    rank : str
        Its rank, where the launcher puts it in front; else empty.
    text : str
        The text behind the prefixes.
    ended : bool
        Something follows it in the file, so that it is no cut piece.
    """

    number: int
    worker: str
    rank: str
    text: str
    ended: bool


def iter_pieces(path: Path, notes: list[Note], watch: Watch) -> Iterator[Line]:
    """Yield the pieces of all lines that are waited for; `watch` may change on the way."""
    for number, raw in iter_watched(path, notes, watch):
        yield from pieces(number, raw)


def pieces(number: int, raw: bytes) -> Iterator[Line]:
    r"""Yield the pieces of one line.

    Examples
    --------
    >>> raw = b"10%|#  | 1/9\r\x1b[36m(Task pid=7, ip=::1)\x1b[0m step:1 - x:2\n"
    >>> [(line.worker, line.text) for line in pieces(1, raw)]
    [('', '10%|#  | 1/9'), ('Task pid=7, ip=::1', 'step:1 - x:2')]
    """
    ended = raw.endswith((b"\n", b"\r"))
    text = raw.decode("utf-8", errors="replace").rstrip("\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    parts = text.rstrip("\r").split("\r") if "\r" in text else [text]
    worker = rank = ""
    for index, part in enumerate(parts):
        at = 0
        for _ in range(_MAX_PREFIXES):
            prefix = _PREFIX.match(part, at)
            if prefix is None:
                break
            at = prefix.end()
            worker = prefix[1] or worker
            rank = prefix[2] or prefix[3] or rank
        part = part[at:] if at else part
        if "[repeated" in part:
            repeated = _REPEATED.search(part)
            part = part[: repeated.start()].rstrip() if repeated else part
        yield Line(number, worker, rank, part, ended or index < len(parts) - 1)


def without_stamp(text: str) -> str:
    """Return the text behind time, level and source of a logger.

    Examples
    --------
    >>> without_stamp("2026-01-02 03:04:05.678 | INFO     | skyrl.utils:log:12 - Step 3: ")
    'Step 3: '
    >>> without_stamp("[2026-01-02 03:04:05,678] INFO trainer.py:12 -- {'a': 1}")
    "{'a': 1}"
    """
    at = 0
    for _ in range(_MAX_PREFIXES):
        found = _STAMP.match(text, at) or (_SOURCE.match(text, at) if at else None)
        if found is None:
            break
        at = found.end()
    return text[at:]
