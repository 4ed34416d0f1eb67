"""Rows written as JSON: one object a line, or one array of objects.

Bare NaN and Infinity tokens are read although JSON forbids them, since most frameworks write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.json_values import parse
from twoclock.sources.several_runs import RunStores
from twoclock.sources.text import iter_lines, read_document

__all__ = [
    "JSON_ARRAY", "JSON_LINES", "iter_array", "iter_objects", "logs_of", "mapped_keys", "parse",
    "run_stores",
]  # fmt: skip

ENVELOPES = ("metrics", "data", "logs")
"""Keys under which some writers put the row itself (``{"step": 1, "metrics": {...}}``)."""

_WRAPPED = frozenset((*ENVELOPES, "kind"))
_DAMAGED = (ValueError, RecursionError)


def mapped_keys(options: ReadOptions) -> tuple[str, ...]:
    """Return every key that ``--map`` names."""
    return tuple(key for keys in options.map.values() for key in keys)


def run_stores(options: ReadOptions) -> RunStores:
    """Return stores that keep the mapped keys and tell runs apart by the mapped columns."""
    return RunStores(options.map)


def iter_objects(path: Path, notes: list[Note]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line, object) of a JSON-lines file; other lines are counted in one note."""
    bad: list[int] = []
    cut = False
    for line, raw in iter_lines(path, notes):
        try:
            row = parse(raw)
        except _DAMAGED:
            row = None
        if isinstance(row, dict):
            yield line, row
            continue
        if not raw.strip():
            continue
        cut = not raw.endswith(b"\n")
        bad.append(line)
    if cut:
        notes.append(
            Note("cut_line", "last line is cut and left out", where=f"{path} line {bad.pop()}")
        )
    if bad:
        message = f"{len(bad)} lines are not JSON objects and are left out, the first is {bad[0]}"
        notes.append(Note("bad_lines", message, where=f"{path} line {bad[0]}", count=len(bad)))


def unwrap(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with the object under ``metrics``, ``data`` or ``logs`` merged in.

    Examples
    --------
    >>> unwrap({"step": 3, "data": {"loss": 0.1}})
    {'step': 3, 'loss': 0.1}
    """
    if row.keys().isdisjoint(_WRAPPED):
        return row
    if row.get("kind") == "eval" and "metric" in row and "accuracy" in row:
        # a native row that lost its run.json: several metrics must not share one key
        return {**row, f"eval/{row['metric']}": row["accuracy"], "accuracy": ""}
    for key in ENVELOPES:
        inner = row.get(key)
        if isinstance(inner, dict):
            return {**{k: v for k, v in row.items() if k != key}, **inner}
    return row


def read_lines(path: Path, options: ReadOptions) -> list[Log]:
    """Read a JSON-lines file."""
    notes: list[Note] = []
    stores = run_stores(options)
    for line, row in iter_objects(path, notes):
        stores.add(unwrap(row), line)
    return logs_of(path, stores, notes, "jsonl")


def logs_of(path: Path, stores: RunStores, notes: list[Note], reader: str) -> list[Log]:
    """Return one log for each run that was collected.

    Raises
    ------
    SourceError
        There is no row.
    """
    if not stores.count:
        why = f" ({notes[0].message})" if notes else ""
        msg = f"no data: not one complete row{why}"
        raise SourceError(msg, where=str(path))
    return [
        Log(path, rows, reader, name=name, files=(path,), notes=tuple(notes))
        for name, rows in sorted(stores.finish().items())
    ]


def iter_array(text: str, start: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON array that opens at `start`, up to its end or the damage."""
    decoder = json.JSONDecoder()
    at = start + 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] != "{":
            return
        try:
            row, at = decoder.raw_decode(text, at)
        except _DAMAGED:
            return
        yield row


def read_array(path: Path, options: ReadOptions) -> list[Log]:
    """Read a JSON array of objects; of a cut one, the complete objects."""
    notes: list[Note] = []
    text = read_document(path, notes)
    stores = run_stores(options)
    try:
        objects: Any = parse(text)
    except _DAMAGED:
        objects = iter_array(text, text.index("["))
        message = "the array is cut or damaged; read up to there"
        notes.append(Note("cut_file", message, where=str(path)))
    skipped = 0
    for index, row in enumerate(objects, start=1):
        if isinstance(row, dict):
            stores.add(unwrap(row), index)
        else:
            skipped += 1
    if skipped:
        message = f"{skipped} elements are not objects and are left out"
        notes.append(Note("bad_lines", message, where=str(path), count=skipped))
    return logs_of(path, stores, notes, "json")


def _sniff_lines(head: Head) -> bool:
    first = next((line for line in head.data.splitlines() if line.strip()), b"").strip()
    if not first.startswith(b"{"):
        return False
    try:
        return isinstance(parse(first), dict)
    except _DAMAGED:
        # a first line that is cut or damaged; a pretty-printed object has "{" alone
        return head.name.endswith((".jsonl", ".ndjson")) and first != b"{"


def _sniff_array(head: Head) -> bool:
    text = head.data.lstrip()
    return text.startswith(b"[") and text[1:].lstrip().startswith(b"{")


JSON_LINES = Reader("jsonl", _sniff_lines, read_lines)
JSON_ARRAY = Reader("json", _sniff_array, read_array)
