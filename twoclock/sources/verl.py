"""verl: the `file` logger (its console is in `twoclock.sources.console.verl`).

A step is one rollout and counts from the very start, also in a resumed log that begins later.
Values of a validation ride on the training row of the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.json_rows import iter_objects, mapped_keys, parse
from twoclock.sources.rows import RowStore


def read_file_logger(path: Path, options: ReadOptions) -> list[Log]:
    """Read a log of verl's `file` logger.

    Raises
    ------
    SourceError
        There is no row.
    """
    notes: list[Note] = []
    store = RowStore(mapped_keys(options))
    for line, row in iter_objects(path, notes):
        data = row.get("data")
        if isinstance(data, Mapping):
            store.add({**data, "step": row.get("step")}, line)
    if not store.count:
        msg = "no data: not one complete row"
        raise SourceError(msg, where=str(path))
    return [
        Log(
            path,
            store.finish(),
            "verl-file",
            framework="verl",
            columns={"step": ("step",)},
            files=(path,),
            notes=tuple(notes),
        )
    ]


def _sniff_file(head: Head) -> bool:
    first = head.data.lstrip().partition(b"\n")[0]
    if not first.startswith(b"{"):
        return False
    try:
        row = parse(first)
    except (ValueError, RecursionError):
        return first.startswith((b'{"step":', b'{"data":')) and b'"data":{' in first[:60]
    data = row.get("data") if isinstance(row, dict) else None
    return isinstance(data, dict) and "step" in row and any("/" in str(key) for key in data)


VERL_FILE = Reader("verl-file", _sniff_file, read_file_logger)
