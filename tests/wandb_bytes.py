"""Transaction logs of W&B, put together by hand."""

import json
import struct
import zlib

from tests.event_bytes import field

HEADER = b":W&B\xe1\xbe\x00"
BLOCK = 32768


def framed(contents, header=HEADER):
    """Return a log of some records, split over blocks as the writer does."""
    out = bytearray(header)
    for content in contents:
        first, left = True, content
        while first or left:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                room = BLOCK
            part, left = left[: room - 7], left[room - 7 :]
            kind = (1 if not left else 2) if first else (4 if not left else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
    return bytes(out)


def item(path, value, *, raw=None):
    """Return an item: a path of keys (a text is one plain key) and a value as JSON."""
    keys = field(1, path) if isinstance(path, str) else b"".join(field(2, key) for key in path)
    return keys + field(16, json.dumps(value) if raw is None else raw)


def history(row, step=None):
    """Return a history record; keys are texts, or tuples of nested ones."""
    items = b"".join(
        field(1, item((key,) if isinstance(key, str) else key, value)) for key, value in row.items()
    )
    return field(2, items + (field(2, field(1, step)) if step is not None else b""))


def config(updates, removed=()):
    """Return a configuration record."""
    content = b"".join(field(1, item(key, value)) for key, value in updates.items())
    return field(5, content + b"".join(field(2, item(key, None)) for key in removed))


def run(run_id="ab12", name="b64-s0", project="grpo", start=1_700_000_000, **settings):
    """Return a run record."""
    inner = b"".join(field(1, item(key, value)) for key, value in settings.items())
    return field(
        17,
        field(1, run_id) + field(3, project) + field(4, inner) + field(8, name)
        + field(17, field(1, start) + field(2, 500_000_000)),
    )  # fmt: skip


def ended(code):
    """Return an exit record."""
    return field(18, field(1, code) if code else b"")
