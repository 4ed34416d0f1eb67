"""Lines of a large file that hold one of some marks, found block by block.

Searching whole blocks for each mark costs a few passes at the speed of memory; looking at each line
for each mark costs ten times that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.sources.text import (
    BROKEN,
    LINE_LIMIT,
    SKIP_LIMIT,
    broken_note,
    open_bytes,
    os_reason,
)

BLOCK = 1 << 18
"""Bytes that are read and searched at once."""

_PIECES = 1 << 20
"""A line that is longer is handed out in parts where that can be."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass
class Watch:
    """What lines are waited for.

    Parameters
    ----------
    marks : tuple of bytes
        A line with one of these is looked at.
    everything : int
        So many lines more are looked at whatever they hold.
    last : int
        Number of the last line of the file so far.
    limit : int, optional
        Bytes after which nothing more is looked at.
    """

    marks: tuple[bytes, ...]
    everything: int = 0
    last: int = 0
    limit: int | None = None


@dataclass(slots=True)
class _Hit:
    """The next place of a mark in a block, -1 when there is none."""

    at: int
    mark: bytes


def iter_watched(path: Path, notes: list[Note], watch: Watch) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of the lines that are waited for; `watch` may change on the way.

    Raises
    ------
    SourceError
        The file cannot be opened, or is UTF-16.
    """
    size = 0
    for first, block in iter_blocks(path, notes):
        number, counted, at = first, 0, 0
        live = [_Hit(found, mark) for mark in watch.marks if (found := block.find(mark)) >= 0]
        while at < len(block):
            if watch.everything > 0:
                watch.everything -= 1
                start = at
            else:
                hit = _next(block, at, live)
                if hit < 0:
                    break
                start = block.rfind(b"\n", at, hit) + 1 or at
            end = block.find(b"\n", start) + 1 or len(block)
            number += block.count(b"\n", counted, start)
            counted, at, watch.last = start, end, number
            yield number, block[start:end]
        number += block.count(b"\n", counted)
        watch.last = number - block.endswith(b"\n")
        size += len(block)
        if watch.limit is not None and size >= watch.limit:
            return


def _next(block: bytes, at: int, live: list[_Hit]) -> int:
    """Return where the next mark is; -1: nowhere."""
    best = -1
    for hit in live:
        if 0 <= hit.at < at:
            hit.at = block.find(hit.mark, at)
        if hit.at >= 0 and (best < 0 or hit.at < best):
            best = hit.at
    return best


def iter_blocks(path: Path, notes: list[Note]) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the first line, whole lines); the last one may have no end.

    A long line is handed out in parts where it has carriage returns. Another above the
    limit is left out, and damage of a compressed file ends it; both are noted.

    Raises
    ------
    SourceError
        The file cannot be opened, or is UTF-16.
    """
    number, rest, skipping, skipped = 1, b"", False, 0
    try:
        with open_bytes(path) as file:
            read = getattr(file, "read1", file.read)
            first = True
            while part := read(BLOCK):
                if first:
                    part, first = _first(part, path), False
                cut = part.rfind(b"\n") + 1
                skipped = skipped + len(part) if skipping and not cut else 0
                if skipped > SKIP_LIMIT:
                    return  # the line was noted when it became too long
                if skipping and cut:
                    part = part[part.index(b"\n") :]
                    cut, skipping = part.rfind(b"\n") + 1, False
                if cut and not skipping:
                    block, rest = rest + part[:cut], part[cut:]
                    yield number, block
                    number += block.count(b"\n")
                elif not skipping:
                    rest += part
                if len(rest) > _PIECES and (end := rest.rfind(b"\r") + 1):
                    yield number, rest[:end]  # a bar is painted over and over in one line
                    rest = rest[end:]
                if len(rest) > LINE_LIMIT:
                    rest, skipping = b"", True
                    notes.append(_huge(path, number))
    except BROKEN as err:
        notes.append(broken_note(path, err))
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err
    if rest:
        yield number, rest


def _first(part: bytes, path: Path) -> bytes:
    if part.startswith(_UTF16):
        msg = "text is UTF-16; save it as UTF-8"
        raise SourceError(msg, where=str(path))
    return part.removeprefix(b"\xef\xbb\xbf")


def _huge(path: Path, number: int) -> Note:
    message = f"line above {LINE_LIMIT >> 20} MiB left out"
    return Note("huge_line", message, where=f"{path} line {number}")
