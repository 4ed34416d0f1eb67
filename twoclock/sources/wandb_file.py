"""Framing of a W&B transaction log: records in blocks of 32 KiB, split where a block ends.

Every part of a record has its checksum. After damage the next block is read, since nothing within
a damaged block tells where the next record begins.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from twoclock.errors import SourceError
from twoclock.sources.packed import iter_parts
from twoclock.sources.record_file import Damage

MAGIC = b":W&B"
HEADER = MAGIC + b"\xe1\xbe\x00"
"""Beginning of a transaction log: mark, number and version."""

BLOCK = 32768
ZEROS_LIMIT = 64 << 20
"""Zero bytes that are passed over in search of a record."""
RECORD_LIMIT = 64 << 20
"""Longest record that is put together, in bytes."""

_ZEROS = bytes(BLOCK)
_PART = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def iter_wandb_records(path: Path, damage: Damage) -> Iterator[bytes]:
    """Yield the content of every good record; what is left out is counted in `damage`.

    Raises
    ------
    SourceError
        The file cannot be read, or is of another version.
    """
    begun: list[bytes] | None = None
    size = 0
    block = b""
    for base, block in _blocks(path, damage):
        at = 0
        if base == 0:
            if block[: len(HEADER)] != HEADER[: len(block)] or len(block) < len(MAGIC):
                msg = f"is no W&B log of a known version (it begins with {block[:7].hex()})"
                raise SourceError(msg, where=str(path))
            at = len(HEADER)
        for kind, content, place in _parts(block, at, base, damage):
            damage.here = place
            if kind == _WHOLE:
                _abandon(begun, damage)
                begun = None
                yield content
            elif kind == _FIRST:
                _abandon(begun, damage)
                begun, size = [content], len(content)
            elif begun is None:
                if kind == _LAST:
                    damage.add(place)  # its beginning was damaged
            else:
                begun.append(content)
                size += len(content)
                if size > RECORD_LIMIT:
                    damage.large += 1
                    begun = None
                elif kind == _LAST:
                    yield b"".join(begun)
                    begun = None
    if begun is not None and damage.cut < 0:
        damage.cut = damage.here


def _abandon(begun: list[bytes] | None, damage: Damage) -> None:
    """Count a record that has no end."""
    if begun is not None:
        damage.add(damage.here)


def _blocks(path: Path, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Yield (place, bytes) of every block."""
    base, left, zeros = 0, b"", 0
    for part in iter_parts(path, damage.notes):
        data = left + part
        zeros = zeros + len(data) if not data.strip(b"\0") else 0
        if zeros > ZEROS_LIMIT:
            return  # a file that only says to be long
        for at in range(0, len(data) - BLOCK + 1, BLOCK):
            yield base + at, data[at : at + BLOCK]
        whole = len(data) - len(data) % BLOCK
        base, left = base + whole, data[whole:]
    if left:
        yield base, left


def _parts(block: bytes, at: int, base: int, damage: Damage) -> Iterator[tuple[int, bytes, int]]:
    """Yield (kind, content, place) of the parts of records in a block, up to its damage or end."""
    while at + _PART.size <= len(block):
        check, length, kind = _PART.unpack_from(block, at)
        begin, end = at + _PART.size, at + _PART.size + length
        if kind == 0 and length == 0 and block[at:] == _ZEROS[at : len(block)]:
            return  # the block is filled up with zeros
        if end > len(block) and len(block) < BLOCK and _WHOLE <= kind <= _LAST:
            damage.cut = base + at
            return
        if end > len(block) or zlib.crc32(block[at + 6 : end]) != check:
            damage.add(base + at)
            return
        yield kind, block[begin:end], base + at
        at = end
    if len(block) < BLOCK and at < len(block):
        damage.cut = base + at
