"""TFRecord framing, as TensorBoard event files have it: every record with its checksums.

A record whose content is damaged is left out and the next one read. Where a length is damaged, the
next header with a good checksum is looked for. Lengths are believed only with their checksum.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c

from twoclock.notes import Note
from twoclock.sources.packed import iter_parts

RECORD_LIMIT = 16 << 20
"""Longest record that is read, in bytes; scalars and configurations are far shorter."""

_BELIEVED = 1 << 30
"""Longest record that is passed over; a longer one is a damaged length, whatever its checksum."""

SEARCH_LIMIT = 16 << 20
"""Bytes that are searched for a good header, in one file."""

_HEADER, _FOOTER = 12, 4
_NUMBERS = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_DELTA = 0xA282EAD8
_ZEROS = bytes(5)
_NOT_ZERO = re.compile(rb"[^\0]")
_REMEMBERED = 4096


def masked_crc(data: bytes) -> int:
    """Return the checksum of some bytes as record files have it.

    Examples
    --------
    >>> hex(masked_crc((24).to_bytes(8, "little")))
    '0x224b7fa3'
    """
    crc = google_crc32c.value(data)
    return int(((crc >> 15 | crc << 17) + _DELTA) & 0xFFFFFFFF)


@dataclass
class Damage:
    """What was not read of a file.

    Parameters
    ----------
    count : int
        Damaged stretches that were left out.
    first : int
        Byte at which the first of them begins.
    large : int
        Records above `RECORD_LIMIT`.
    cut : int
        Byte at which the last, incomplete record begins; -1: there is none.
    lost : int
        Byte from which on no further record was found; -1: all was searched.
    searched : int
        Bytes that were searched for a good header.
    here : int
        Byte at which the record that was read last begins.
    notes : list of Note
        Remarks on the compression.
    """

    count: int = 0
    first: int = -1
    large: int = 0
    cut: int = -1
    lost: int = -1
    searched: int = 0
    here: int = 0
    notes: list[Note] = field(default_factory=list)

    def add(self, at: int) -> None:
        """Count a damaged stretch."""
        if not self.count:
            self.first = at
        self.count += 1

    def told(self, path: Path) -> list[Note]:
        """Return the remarks on a file."""
        notes = list(self.notes)
        if self.count:
            some = "1 damaged record" if self.count == 1 else f"{self.count} damaged records"
            message = f"{some} left out"
            if self.lost >= 0:
                message += f"; no good record is found from byte {self.lost} on"
            where = f"{path} byte {self.first}"
            notes.append(Note("damaged_records", message, where=where, count=self.count))
        if self.large:
            message = f"{self.large} records above {RECORD_LIMIT >> 20} MiB left out"
            notes.append(Note("huge_record", message, where=str(path), count=self.large))
        if self.cut >= 0:
            message = "the last record is cut and left out"
            notes.append(Note("cut_file", message, where=f"{path} byte {self.cut}"))
        return notes


class _Buffer:
    """The bytes of a file around the place that is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self.data = b""
        self.at = 0
        self.base = 0
        self.ended = False

    @property
    def place(self) -> int:
        """Byte of the file that is read next."""
        return self.base + self.at

    def need(self, size: int) -> bool:
        """Get `size` bytes from the place on; tell whether there are so many."""
        while len(self.data) - self.at < size and not self.ended:
            part = next(self._parts, None)
            if part is None:
                self.ended = True
                break
            self.base += self.at
            self.data = self.data[self.at :] + part
            self.at = 0
        return len(self.data) - self.at >= size

    def skip(self, size: int) -> bool:
        """Go on by `size` bytes without keeping them; tell whether there are so many."""
        while size > (left := len(self.data) - self.at):
            size -= left
            self.at = len(self.data)
            if not self.need(1):
                return False
        self.at += size
        return True


def iter_records(path: Path, damage: Damage) -> Iterator[bytes]:
    """Yield the content of every good record; what is left out is counted in `damage`.

    Raises
    ------
    SourceError
        The file cannot be opened or read.
    """
    buffer = _Buffer(iter_parts(path, damage.notes))
    lengths: dict[bytes, int] = {}
    crc, unpack = google_crc32c.value, _CHECK.unpack_from
    while buffer.need(_HEADER):
        at, data = buffer.at, buffer.data
        header = data[at : at + _HEADER]
        length = lengths.get(header, -1)
        if length < 0:
            length = _length(header)
            if 0 <= length <= RECORD_LIMIT and len(lengths) < _REMEMBERED:
                lengths[header] = length
            if not 0 <= length <= RECORD_LIMIT:
                if not _pass_over(buffer, length, damage):
                    return
                continue
        end = at + _HEADER + length
        if end + _FOOTER > len(data):
            if not buffer.need(_HEADER + length + _FOOTER):
                break
            at, data = buffer.at, buffer.data
            end = at + _HEADER + length
        content = data[at + _HEADER : end]
        check = crc(content)
        if (check >> 15 | check << 17) + _DELTA & 0xFFFFFFFF == unpack(data, end)[0]:
            buffer.at = end + _FOOTER
            damage.here = buffer.base + at
            yield content
        else:
            damage.add(buffer.place)
            buffer.at = end + _FOOTER
    if len(buffer.data) > buffer.at:
        damage.cut = buffer.place


def _pass_over(buffer: _Buffer, length: int, damage: Damage) -> bool:
    """Go on behind a damaged header or a record that is too large; tell whether that works."""
    begin = buffer.place
    if length < 0:
        damage.add(begin)
        if not _search(buffer, SEARCH_LIMIT - damage.searched):
            damage.lost = begin
            return False
        damage.searched += buffer.place - begin
        return True
    damage.large += 1
    if not buffer.skip(_HEADER + length + _FOOTER):
        damage.cut = begin
        return False
    return True


def _length(header: bytes) -> int:
    """Return the length that a header tells, -1 when it cannot be or its checksum is wrong."""
    length, check = _NUMBERS.unpack(header)
    return int(length) if length <= _BELIEVED and masked_crc(header[:8]) == check else -1


def _search(buffer: _Buffer, limit: int) -> bool:
    """Go on to the next good header; tell whether there is one within `limit` bytes."""
    begin = buffer.place
    buffer.at += 1
    while buffer.place - begin < limit and buffer.need(_HEADER):
        at = _candidate(buffer.data, buffer.at)
        if at < 0:
            buffer.at = max(buffer.at, len(buffer.data) - _HEADER + 1)
            continue
        buffer.at = at
        if not buffer.need(_HEADER):
            return False
        if _length(buffer.data[buffer.at : buffer.at + _HEADER]) > 0:
            return True
        buffer.at += 1
    return False


def _candidate(data: bytes, start: int) -> int:
    """Return where the next header may begin: three bytes, not all zero, then five zeros."""
    while (zeros := data.find(_ZEROS, start + 3)) >= 0:
        at = zeros - 3
        if data[at:zeros] != _ZEROS[:3]:
            return at
        follows = _NOT_ZERO.search(data, zeros)
        if follows is None:
            break
        start = follows.start() - 2
    return -1
