"""Records of TensorBoard event files and messages of protobuf, put together by hand."""

import struct

from twoclock.sources.record_file import masked_crc


def record(content):
    """Return a record with its framing."""
    length = struct.pack("<Q", len(content))
    return b"".join(
        (length, struct.pack("<I", masked_crc(length)), content,
         struct.pack("<I", masked_crc(content)))
    )  # fmt: skip


def varint(number):
    """Return a whole number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def scalar(tag, step, value, wall=0.0):
    """Return the record of a plain scalar."""
    inner = b"\x0a" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + varint(len(inner)) + inner
    head = b"\x09" + struct.pack("<d", wall) + (b"\x10" + varint(step) if step else b"")
    return record(head + b"\x2a" + varint(len(summary)) + summary)


def field(number, content):
    """Return a field of a message: bytes, a text, a whole number, or a float (eight bytes)."""
    if isinstance(content, float):
        return varint(number << 3 | 1) + struct.pack("<d", content)
    if isinstance(content, int):
        return varint(number << 3) + varint(content & 0xFFFFFFFFFFFFFFFF)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def start(wall=0.0):
    """Return the record that every event file begins with."""
    return record(field(1, wall) + field(3, "brain.Event:2"))


def event(*values, step=0, wall=0.0):
    """Return the record of an event with some values of a summary."""
    summary = b"".join(field(1, value) for value in values)
    return record(field(1, wall) + field(2, step) + field(5, summary))


def tensor_value(tag, tensor, plugin=""):
    """Return a value that is a tensor of some plugin."""
    metadata = field(9, field(1, field(1, plugin))) if plugin else b""
    return field(1, tag) + field(8, tensor) + metadata


def text_value(tag, text):
    """Return a value of the text plugin."""
    return tensor_value(tag, field(1, 7) + field(8, text), "text")


def hparams_value(settings):
    """Return a value of the hparams plugin; settings are texts, booleans or floats."""
    entries = b""
    for name, value in settings.items():
        kind = {bool: 4, float: 2, str: 3}[type(value)]
        inner = field(kind, int(value) if isinstance(value, bool) else value)
        entries += field(1, field(1, name) + field(2, inner))
    content = field(3, entries)
    metadata = field(1, field(1, "hparams") + field(2, content))
    return field(1, "_hparams_/session_start_info") + field(9, metadata)


def scalars(tag, points, wall=0.0):
    """Return an event file of one tag: its (step, value) points."""
    return start(wall) + b"".join(scalar(tag.encode(), step, value, wall) for step, value in points)
