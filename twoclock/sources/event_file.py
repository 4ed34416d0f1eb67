"""One TensorBoard event file: its scalars, the texts and hyperparameters in it, when it began.

Scalars are read as plain values and as tensors with one number. Most records repeat those before
them but for the step and the number; those are read without decoding them again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from twoclock.notes import Note
from twoclock.sources import protobuf
from twoclock.sources.event_values import hparams_of, plugin_of, scalar_of, text_of
from twoclock.sources.points import Points, Series
from twoclock.sources.record_file import Damage, iter_records
from twoclock.sources.rows import Floats

TEXTS_LIMIT = 16 << 20
"""Length of all texts of a file that are looked at, in characters."""

MAX_TAG = 2000
"""Longest tag that is read; a longer one is no name of a metric."""
_MAX_SHAPES = 50_000
_MAX_PLACES = 4
"""Kinds of records that are remembered, and places of the number in them."""

_STARTED = re.compile(r"tfevents\.(\d{9,11})\b")
_FLOAT = struct.Struct("<f")
_TENS = np.array([float(f"1e{i}") for i in range(23)])
"""Powers of ten that are exact."""


@dataclass
class EventFile:
    """What one event file says.

    Parameters
    ----------
    path : Path
        The file.
    points : Points
        Its scalars.
    texts : dict of str to str
        Texts of the text plugin by tag, the first under each.
    hparams : dict of str to object
        Hyperparameters of the hparams plugin.
    started : float, optional
        When writing began, from the file name, else the first wall time.
    notes : list of Note
        What was left out.
    """

    path: Path
    points: Points
    texts: dict[str, str] = field(default_factory=dict)
    hparams: dict[str, Any] = field(default_factory=dict)
    started: float | None = None
    notes: list[Note] = field(default_factory=list)


def read_event_file(
    path: Path, extra_keys: Iterable[str] = (), *, every_key: bool = False,
    records: int | None = None,
) -> EventFile:  # fmt: skip
    """Read an event file (or its first records); its wanted tags, or all of them.

    Raises
    ------
    SourceError
        It cannot be opened, or has tags without end.
    """
    damage = Damage()
    file = EventFile(path, Points(extra_keys, every_key=every_key))
    found = _STARTED.search(path.name)
    if found:
        file.started = float(found[1])
    _Reader(file, damage).read(islice(iter_records(path, damage), records))
    for series in file.points.series.values():
        _shorten(series)
    file.notes = damage.told(path)
    return file


Add = tuple[Callable[[int], None], Callable[[float], None], Callable[[int], None]]


class _Reader:
    """Reads records into an `EventFile`."""

    def __init__(self, file: EventFile, damage: Damage) -> None:
        self._file = file
        self._damage = damage
        self._shapes: dict[int, dict[bytes, Add | None]] = {}
        """By the place of the number, from the end: what follows the step, without the number."""
        self._remembered = 0
        self._texts_left = TEXTS_LIMIT

    def read(self, records: Iterator[bytes]) -> None:
        """Read all records; one that cannot be decoded counts as damaged."""
        shapes, unpack = self._shapes, _FLOAT.unpack_from
        for order, record in enumerate(records):
            if len(record) < 16 or record[0] != 0x09:
                self._decode(record, order)
                continue
            step, at = 0, 9
            if record[9] == 0x10:
                step, at = record[10], 11
                if step > 0x7F and record[11] < 0x80:
                    step, at = step & 0x7F | record[11] << 7, 12
                elif step > 0x7F and record[12] < 0x80:
                    step, at = step & 0x7F | (record[11] & 0x7F) << 7 | record[12] << 14, 13
                elif step > 0x7F:
                    try:
                        step, at = protobuf.varint(record, 10)
                    except protobuf.WireError:
                        self._damage.add(self._damage.here)
                        continue
                    if step >= 1 << 63:
                        step = protobuf.signed(step)
            for end, known in shapes.items():
                number = len(record) - end
                mark = record[at:number] + record[number + 4 :]
                if number > at and mark in known:
                    add = known[mark]
                    if add is not None:
                        add[0](step)
                        add[1](unpack(record, number)[0])
                        add[2](order)
                    break
            else:
                self._decode(record, order, at)

    def _decode(self, record: bytes, order: int, tail: int = -1) -> None:
        """Read any record; remember its kind if `tail`, behind its step, is one plain scalar."""
        try:
            self._event(record, order, tail)
        except (protobuf.WireError, struct.error):
            self._damage.add(self._damage.here)

    def _event(self, record: bytes, order: int, tail: int) -> None:
        step = 0
        values: list[tuple[bytes, int]] = []
        for number, value, at in protobuf.fields(record):
            if number == 1 and self._file.started is None:
                self._file.started = protobuf.float64(value)
            elif number == 2:
                step = protobuf.whole(value)
            elif number == 5:
                summary = protobuf.message(value)
                values += [
                    (protobuf.message(inner), at + begin)
                    for kind, inner, begin in protobuf.fields(summary)
                    if kind == 1
                ]
            elif number == 7 and (1, 1, 1) in protobuf.fields(protobuf.message(value)):
                self._file.points.resumes = step > 0
        for value, begin in values:
            found = scalar_of(value)
            if found is None:
                self._other(value, step)
                continue
            tag, logged, place = found
            if len(tag) > MAX_TAG:
                self._damage.add(self._damage.here)
                continue
            series = self._file.points.wanted(tag)
            if series is not None:
                series.add(step, logged, order)
            if place >= 0 and tail >= 0 and len(values) == 1:
                self._remember(record, tail, begin + place, series)

    def _remember(self, record: bytes, tail: int, number: int, series: Series | None) -> None:
        """Remember the kind of a record with nothing but a scalar behind its step."""
        whole = record[tail] == 0x2A and protobuf.varint(record, tail + 1)
        end = len(record) - number
        if not whole or sum(whole) != len(record) or self._remembered >= _MAX_SHAPES:
            return
        if end not in self._shapes and len(self._shapes) >= _MAX_PLACES:
            return
        self._remembered += 1
        add = None
        if series is not None:
            add = (series.step.append, series.value.append, series.order.append)
        known = self._shapes.setdefault(end, {})
        known[record[tail:number] + record[number + 4 :]] = add

    def _other(self, value: bytes, step: int) -> None:
        """Keep a text or hyperparameters."""
        tag, plugin, content, tensor = "", "", b"", b""
        for number, inner, _ in protobuf.fields(value):
            if number == 1:
                tag = protobuf.text(inner)
            elif number == 8:
                tensor = protobuf.message(inner)
            elif number == 9:
                plugin, content = plugin_of(protobuf.message(inner))
        texts = self._file.texts
        if plugin == "text" and step == 0 and tag not in texts and self._texts_left > 0:
            text = text_of(tensor)
            self._texts_left -= len(tag) + len(text)
            if text and len(tag) <= MAX_TAG:
                texts[tag] = text
        elif plugin == "hparams" and tag == "_hparams_/session_start_info":
            self._file.hparams = hparams_of(content) or self._file.hparams


def _shorten(series: Series) -> None:
    """Give numbers of four bytes as the shortest decimal that stands for the same one.

    A logged 0.7 is then 0.7 and reaches a target of 0.7; widened it would be 0.699999988.
    """
    values = np.frombuffer(series.value, np.float64)
    values[:] = shortest(values)


def shortest(values: Floats) -> Floats:
    """Return the shortest decimals that are the same numbers in four bytes.

    Numbers that have more bytes, or lie outside 1e-12 to 1e12, stay as they are.

    Examples
    --------
    >>> shortest(np.array([0.7, 1e-6, 1 / 3], dtype=np.float32).astype(float)).tolist()
    [0.7, 1e-06, 0.33333334]
    """
    out = values.copy()
    size = np.abs(values)
    left = np.flatnonzero((size > 1e-12) & (size < 1e12))
    left = left[values[left].astype(np.float32) == values[left]]
    places = np.floor(np.log10(size[left])).astype(int)
    for digits in range(6, 10):
        scale = _TENS[np.abs(digits - 1 - places)]
        up = digits - 1 >= places
        number = values[left]
        tried = np.where(up, np.rint(number * scale) / scale, np.rint(number / scale) * scale)
        same = tried.astype(np.float32) == number.astype(np.float32)
        out[left[same]] = tried[same]
        left, places = left[~same], places[~same]
    return out
