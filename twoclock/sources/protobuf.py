"""Fields of a protobuf message as they stand on the wire: number, value, place.

No message type is known here; what a field means, its reader says. Lengths are checked against the
data before they are used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_MAX_VARINT = 10
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


class WireError(ValueError):
    """The bytes are no protobuf message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    r"""Return the whole number that begins at `at`, and where it ends.

    Examples
    --------
    >>> varint(b"\xac\x02", 0)
    (300, 2)
    """
    value = shift = 0
    for byte in data[at : at + _MAX_VARINT]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    msg = "a number has no end"
    raise WireError(msg)


def signed(value: int) -> int:
    """Return an int64 (or int32) that was written as a number without a sign."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes, int]]:
    r"""Yield (field number, value, where the value begins) of a message.

    A number of variable length is an int; everything else is bytes, also those of fixed length.

    Raises
    ------
    WireError
        The bytes are no message.

    Examples
    --------
    >>> list(fields(b"\x08\x07\x12\x02hi"))
    [(1, 7, 1), (2, b'hi', 4)]
    """
    at, size = 0, len(data)
    while at < size:
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            begin = at
            value, at = varint(data, at)
            yield tag >> 3, value, begin
            continue
        if kind == BYTES:
            length, at = varint(data, at)
        elif kind == FIXED32:
            length = 4
        elif kind == FIXED64:
            length = 8
        else:
            msg = f"field {tag >> 3} has wire type {kind}"
            raise WireError(msg)
        if length > size - at:
            msg = f"field {tag >> 3} is longer than its message"
            raise WireError(msg)
        yield tag >> 3, data[at : at + length], at
        at += length


def float32(value: int | bytes) -> float:
    """Return the number behind four bytes."""
    if not isinstance(value, bytes) or len(value) != _FLOAT.size:
        msg = "a number of four bytes is expected"
        raise WireError(msg)
    return float(_FLOAT.unpack(value)[0])


def float64(value: int | bytes) -> float:
    """Return the number behind eight bytes."""
    if not isinstance(value, bytes) or len(value) != _DOUBLE.size:
        msg = "a number of eight bytes is expected"
        raise WireError(msg)
    return float(_DOUBLE.unpack(value)[0])


def text(value: int | bytes) -> str:
    """Return a text; bytes that are no UTF-8 are replaced."""
    if not isinstance(value, bytes):
        msg = "a text is expected"
        raise WireError(msg)
    return value.decode("utf-8", errors="replace")


def message(value: int | bytes) -> bytes:
    """Return the bytes of an inner message."""
    if not isinstance(value, bytes):
        msg = "a message is expected"
        raise WireError(msg)
    return value


def whole(value: int | bytes) -> int:
    """Return a whole number with its sign."""
    if not isinstance(value, int):
        msg = "a whole number is expected"
        raise WireError(msg)
    return signed(value)
