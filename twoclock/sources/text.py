"""Bytes and lines of log files: compression, byte-order marks, cut ends, lines without end.

Nothing here knows a log format. Memory and time stay bounded: a line longer than `LINE_LIMIT` is
skipped and named, a document larger than `DOCUMENT_LIMIT` is refused, and packed data that only
pretends to hold much is read no further than it takes to see that.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from twoclock.errors import SourceError
from twoclock.notes import Note

LINE_LIMIT = 16 * 1024 * 1024
"""Longest line that is read, in bytes."""
SKIP_LIMIT = 1024 * 1024 * 1024
"""Bytes of one line that are passed over in search of its end."""
DOCUMENT_LIMIT = 512 * 1024 * 1024
"""Largest JSON document (not JSON lines) that is read, in bytes."""
HEAD_BYTES = 64 * 1024
BUFFER = 256 * 1024
"""Bytes that are fetched at once; lines are read twice as quickly as by the default 8 KiB."""

BOMB_FROM = 128 * 1024 * 1024
BOMB_RATIO = 150
"""Packed data that gives more than this many bytes, and this many for each packed one, is no log.

Rows of one logger shrink to a tenth or a fiftieth; equal bytes to a 230th up to a 20,000th.
"""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class BombError(ValueError):
    """Packed data gives far more than any log does."""


BROKEN = (BombError, EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
"""What damaged or cut compression raises."""


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, gzip or zstd file, recognised by content; several members are read as one."""
    with path.open("rb", buffering=BUFFER) as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                yield _bounded(unpacked, raw)
        elif magic == _ZSTD:
            decompressor = zstandard.ZstdDecompressor()
            with decompressor.stream_reader(raw, read_across_frames=True, closefd=False) as stream:
                yield _bounded(stream, raw)
        else:
            yield raw


def _bounded(unpacked: Any, raw: BinaryIO) -> BinaryIO:
    """Return the unpacked stream with an eye on how much it gives for what it takes."""
    return cast(BinaryIO, io.BufferedReader(_Unpacked(unpacked, raw), BUFFER))


class _Unpacked(io.RawIOBase):
    def __init__(self, unpacked: Any, raw: BinaryIO) -> None:
        self._read = getattr(unpacked, "read1", unpacked.read)
        self._raw = raw
        self._given = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def tell(self) -> int:
        """Return how many bytes were given."""
        return self._given

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or less where damage is near."""
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        self._given += len(data)
        if self._given > max(BOMB_FROM, BOMB_RATIO * self._raw.tell()):
            msg = f"unpacks to more than {BOMB_RATIO} times its size"
            raise BombError(msg)
        return len(data)


def sha256(path: Path) -> str:
    """Return the SHA-256 of the file as it lies on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of the content, which is the same for a packed and a plain copy."""
    digest = hashlib.sha256()
    try:
        with open_bytes(path) as file:
            read = getattr(file, "read1", file.read)
            while part := read(1 << 20):
                digest.update(part)
    except (*BROKEN, OSError):
        digest.update(b"damaged")
    return digest.hexdigest()


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of the (decompressed) file, without a byte-order mark.

    Raises
    ------
    SourceError
        The file cannot be opened, or is UTF-16.
    """
    return _without_bom(_read_up_to(path, size), path)


def read_document(path: Path, notes: list[Note]) -> str:
    """Return the whole text of a document.

    Raises
    ------
    SourceError
        It is larger than `DOCUMENT_LIMIT` or cannot be opened.
    """
    too_large = _size(path) > DOCUMENT_LIMIT
    data = b"" if too_large else _read_up_to(path, DOCUMENT_LIMIT + 1, notes)
    if too_large or len(data) > DOCUMENT_LIMIT:
        msg = f"document above {DOCUMENT_LIMIT >> 20} MiB; write JSON lines instead"
        raise SourceError(msg, where=str(path))
    return _without_bom(data, path).decode("utf-8", errors="replace")


def _size(path: Path) -> int:
    """Return the size on disk; 0 when it cannot be told."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_up_to(path: Path, size: int, notes: list[Note] | None = None) -> bytes:
    parts: list[bytes] = []
    left = size
    try:
        with open_bytes(path) as file:
            # read1 hands over what is there before damage is met; read would lose it
            read = getattr(file, "read1", file.read)
            while left > 0:
                part = read(min(left, 1 << 20))
                if not part:
                    break
                parts.append(part)
                left -= len(part)
    except BROKEN as err:
        if notes is not None:
            notes.append(broken_note(path, err))
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err
    return b"".join(parts)


def _without_bom(data: bytes, path: Path) -> bytes:
    if data.startswith(_UTF16):
        msg = "text is UTF-16; save it as UTF-8"
        raise SourceError(msg, where=str(path))
    return data.removeprefix(b"\xef\xbb\xbf")


def iter_lines(path: Path, notes: list[Note]) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line with its end) of a text file, streamed.

    A damaged compressed file ends where the damage begins, and a line above `LINE_LIMIT` is left
    out; both are added to `notes`.

    Raises
    ------
    SourceError
        The file cannot be opened, or is UTF-16.
    """
    number = 0
    try:
        with open_bytes(path) as file:
            while line := file.readline(LINE_LIMIT + 1):
                number += 1
                if number == 1:
                    line = _without_bom(line, path)
                if len(line) > LINE_LIMIT:
                    notes.append(_skip_line(file, f"{path} line {number}"))
                    continue
                yield number, line
    except BROKEN as err:
        notes.append(broken_note(path, err))
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err


def _skip_line(file: BinaryIO, where: str) -> Note:
    """Pass over the rest of a line; of one that does not end, to where the file seems to end."""
    for _ in range(SKIP_LIMIT >> 20):
        line = file.readline(1 << 20)
        if not line or line.endswith(b"\n"):
            return Note("huge_line", f"line above {LINE_LIMIT >> 20} MiB left out", where=where)
    file.seek(0, io.SEEK_END) if file.seekable() else None
    message = f"line above {SKIP_LIMIT >> 30} GiB: nothing from it on is read"
    return Note("huge_line", message, where=where)


def is_packed(path: Path) -> bool:
    """Tell by its first bytes whether a file is compressed."""
    with path.open("rb") as file:
        magic = file.read(4)
    return magic.startswith(_GZIP) or magic == _ZSTD


def broken_note(path: Path, err: BaseException) -> Note:
    """Return the remark on a file whose compression is damaged or cut."""
    if isinstance(err, BombError):
        return Note("compression_bomb", f"{err}; read up to there", where=str(path))
    message = f"compressed data is damaged or cut ({err}); read up to there"
    return Note("cut_file", message, where=str(path))


def os_reason(err: OSError) -> str:
    """Return in words why the system does not give a file."""
    return f"cannot be read ({(err.strerror or str(err)).lower()})"
