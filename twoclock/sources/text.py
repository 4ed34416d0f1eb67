"""Bytes and lines of log files: compression, byte-order marks, cut ends, lines without end.

Nothing here knows a log format. Memory stays bounded: a line longer than `LINE_LIMIT` is skipped
and named, a document larger than `DOCUMENT_LIMIT` is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from twoclock.errors import SourceError
from twoclock.notes import Note

LINE_LIMIT = 16 * 1024 * 1024
"""Longest line that is read, in bytes."""
DOCUMENT_LIMIT = 512 * 1024 * 1024
"""Largest JSON document (not JSON lines) that is read, in bytes."""
HEAD_BYTES = 64 * 1024
BUFFER = 256 * 1024
"""Bytes that are fetched at once; lines are read twice as quickly as by the default 8 KiB."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
"""What damaged or cut compression raises."""


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, gzip or zstd file, recognised by content; several members are read as one."""
    with path.open("rb", buffering=BUFFER) as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        elif magic == _ZSTD:
            decompressor = zstandard.ZstdDecompressor()
            with decompressor.stream_reader(raw, read_across_frames=True, closefd=False) as stream:
                yield cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream)))
        else:
            yield raw


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
    data = _read_up_to(path, DOCUMENT_LIMIT + 1, notes)
    if len(data) > DOCUMENT_LIMIT:
        msg = f"document above {DOCUMENT_LIMIT >> 20} MiB; write JSON lines instead"
        raise SourceError(msg, where=str(path))
    return _without_bom(data, path).decode("utf-8", errors="replace")


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
                    _skip_line(file, line)
                    notes.append(
                        Note(
                            "huge_line",
                            f"line above {LINE_LIMIT >> 20} MiB left out",
                            where=f"{path} line {number}",
                        )
                    )
                    continue
                yield number, line
    except BROKEN as err:
        notes.append(broken_note(path, err))
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(1 << 20)


def is_packed(path: Path) -> bool:
    """Tell by its first bytes whether a file is compressed."""
    with path.open("rb") as file:
        magic = file.read(4)
    return magic.startswith(_GZIP) or magic == _ZSTD


def broken_note(path: Path, err: BaseException) -> Note:
    """Return the remark on a file whose compression is damaged or cut."""
    message = f"compressed data is damaged or cut ({err}); read up to there"
    return Note("cut_file", message, where=str(path))


def os_reason(err: OSError) -> str:
    """Return in words why the system does not give a file."""
    return f"cannot be read ({(err.strerror or str(err)).lower()})"
