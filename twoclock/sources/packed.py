"""Binary files that may be packed: read in parts, or unpacked to where they can be searched.

As with text, damage in the compression ends the file there and is named.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.sources.text import BROKEN, broken_note, is_packed, open_bytes, os_reason

UNPACK_LIMIT = 4 << 30
"""Largest file that is unpacked to disk, in bytes."""

_PART = 1 << 20


def iter_parts(path: Path, notes: list[Note], size: int = _PART) -> Iterator[bytes]:
    """Yield the (unpacked) bytes of a file in parts of at most `size`.

    Raises
    ------
    SourceError
        The file cannot be opened or read.
    """
    try:
        with open_bytes(path) as file:
            # read1 hands over what is there before damage is met; read would lose it
            read = getattr(file, "read1", file.read)
            while part := read(size):
                yield part
    except BROKEN as err:
        notes.append(broken_note(path, err))
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err


@contextmanager
def unpacked(path: Path, notes: list[Note]) -> Iterator[Path]:
    """Give a plain file with the content of `path`: itself, or a copy that is removed afterwards.

    Raises
    ------
    SourceError
        The file is larger than `UNPACK_LIMIT` or cannot be read.
    """
    try:
        packed = is_packed(path)
    except OSError as err:
        raise SourceError(os_reason(err), where=str(path)) from err
    if not packed:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="twoclock-") as folder:
        plain = Path(folder) / "plain"
        with plain.open("wb") as file:
            for part in iter_parts(path, notes):
                if file.tell() + len(part) > UNPACK_LIMIT:
                    msg = f"unpacks to more than {UNPACK_LIMIT >> 30} GiB; unpack it yourself"
                    raise SourceError(msg, where=str(path))
                file.write(part)
        yield plain


@contextmanager
def copied(paths: list[Path]) -> Iterator[Path]:
    """Give copies of files, side by side, as the first of them; removed afterwards.

    Raises
    ------
    SourceError
        They are larger than `UNPACK_LIMIT` or cannot be read.
    """
    first = paths[0]
    with tempfile.TemporaryDirectory(prefix="twoclock-") as folder:
        try:
            if sum(path.stat().st_size for path in paths) > UNPACK_LIMIT:
                msg = f"is larger than {UNPACK_LIMIT >> 30} GiB with its journal; close its writer"
                raise SourceError(msg, where=str(first))
            for path in paths:
                shutil.copyfile(path, Path(folder) / path.name)
        except OSError as err:
            raise SourceError(os_reason(err), where=str(first)) from err
        yield Path(folder) / first.name
