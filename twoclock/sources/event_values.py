"""Values of TensorBoard summaries: one number, a text, or hyperparameters."""

from __future__ import annotations

import struct
from typing import Any

from twoclock.sources import protobuf

TEXT_LIMIT = 1 << 20
"""Longest text that is looked at as a configuration, in bytes."""

_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
"""How the bytes of a tensor with one number are read, by its type."""
_BFLOAT16 = 14


def scalar_of(value: bytes) -> tuple[str, float, int] | None:
    """Return tag, number and its place (if it has four bytes, else -1) of a value with a scalar."""
    tag, number, place, plugin = "", None, -1, ""
    for kind, inner, at in protobuf.fields(value):
        if kind == 1:
            tag = protobuf.text(inner)
        elif kind == 2:
            number, place = protobuf.float32(inner), at
        elif kind == 8:
            found = _tensor(protobuf.message(inner))
            if found is not None:
                number, place = found[0], (at + found[1] if found[1] >= 0 else -1)
        elif kind == 9:
            plugin = plugin_of(protobuf.message(inner))[0]
    if number is None or plugin not in ("", "scalars"):
        return None
    return tag, number, place


def _tensor(tensor: bytes) -> tuple[float, int] | None:
    """Return the only number of a tensor, and its place if it is a float of four bytes."""
    kind, found = 0, None
    for number, value, at in protobuf.fields(tensor):
        if number == 1:
            kind = protobuf.whole(value)
        elif number == 4 and isinstance(value, bytes):
            code = _CONTENT.get(kind)
            if code is not None and len(value) == struct.calcsize(code):
                found = float(struct.unpack(code, value)[0]), (at if kind == 1 else -1)
            elif kind == _BFLOAT16 and len(value) == 2:
                found = protobuf.float32(b"\0\0" + value), -1
            elif value:
                return None
        elif number in (5, 6, 7, 10):
            if found is not None:
                return None
            found = _listed(number, value, at)
            if found is None:
                return None
    return found


def _listed(number: int, value: int | bytes, at: int) -> tuple[float, int] | None:
    """Return the only number of a list of numbers within a tensor."""
    if isinstance(value, int):
        return float(protobuf.signed(value)), -1
    if number == 5 and len(value) == 4:
        return protobuf.float32(value), at
    if number == 6 and len(value) == 8:
        return protobuf.float64(value), -1
    if number in (7, 10) and value:
        whole, end = protobuf.varint(value, 0)
        return (float(protobuf.signed(whole)), -1) if end == len(value) else None
    return None


def text_of(tensor: bytes) -> str:
    """Return the texts of a tensor."""
    parts = [value for number, value, _ in protobuf.fields(tensor) if number == 8]
    return "\n".join(
        protobuf.text(part) for part in parts if len(protobuf.message(part)) <= TEXT_LIMIT
    )


def plugin_of(metadata: bytes) -> tuple[str, bytes]:
    """Return the name and content of the plugin that a value is for."""
    name, content = "", b""
    for number, value, _ in protobuf.fields(metadata):
        if number == 1:
            for kind, inner, _at in protobuf.fields(protobuf.message(value)):
                if kind == 1:
                    name = protobuf.text(inner)
                elif kind == 2:
                    content = protobuf.message(inner)
    return name, content


def hparams_of(content: bytes) -> dict[str, Any]:
    """Return the hyperparameters in the content of the hparams plugin."""
    out: dict[str, Any] = {}
    for number, session, _ in protobuf.fields(content):
        if number != 3:
            continue
        for kind, entry, _at in protobuf.fields(protobuf.message(session)):
            if kind == 1:
                pair = {k: v for k, v, _ in protobuf.fields(protobuf.message(entry))}
                if 1 in pair and 2 in pair:
                    out[protobuf.text(pair[1])] = _hparam(protobuf.message(pair[2]))
    return out


def _hparam(value: bytes) -> Any:
    for number, inner, _ in protobuf.fields(value):
        if number == 2:
            return protobuf.float64(inner)
        if number == 3:
            return protobuf.text(inner)
        if number == 4:
            return bool(inner)
    return None
