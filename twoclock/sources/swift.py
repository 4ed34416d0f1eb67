"""ms-swift: `logging.jsonl`, one line for each logged step of a trainer that is TRL's.

The step stands with the planned number of steps in one text (``"10/438"``). The last line sums the
run up and repeats its whole history; it is no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.cells import number
from twoclock.sources.json_rows import iter_objects, mapped_keys, parse
from twoclock.sources.rows import Rows, RowStore
from twoclock.sources.trl import as_validation, steps_between_rewards

PROGRESS = "global_step/max_steps"
_SUMMARY = ("log_history", "model_parameter_info")


def read_swift(path: Path, options: ReadOptions) -> list[Log]:
    """Read a `logging.jsonl` of ms-swift.

    Raises
    ------
    SourceError
        There is no row.
    """
    notes: list[Note] = []
    store = RowStore(mapped_keys(options))
    planned = 0
    for line, row in iter_objects(path, notes):
        if any(key in row for key in _SUMMARY):
            continue
        step, total = progress(row.get(PROGRESS))
        planned = total or planned
        row = dict(as_validation(row))
        store.add(row if step is None else {**row, "step": step}, line)
    if not store.count:
        msg = "no data: not one complete row"
        raise SourceError(msg, where=str(path))
    rows = store.finish()
    return [
        Log(
            path,
            rows,
            "swift",
            framework="trl",
            config={"max_steps": planned} if planned else {},
            facts=dict(_facts(rows, planned)),
            files=(path,),
            notes=tuple(notes),
        )
    ]


def progress(value: Any) -> tuple[int | None, int]:
    """Return the step and the planned steps of a text like ``"10/438"``.

    Examples
    --------
    >>> progress("10/438"), progress("10"), progress(None)
    ((10, 438), (None, 0), (None, 0))
    """
    done, slash, total = value.partition("/") if isinstance(value, str) else ("", "", "")
    found = [number(part) for part in (done, total)]
    whole = [int(n) for n in found if isinstance(n, float) and 0 <= n < 2**53 and n == int(n)]
    return (whole[0], whole[1]) if slash and len(whole) == len(found) else (None, 0)


def _facts(rows: Rows, planned: int) -> Iterator[tuple[str, Fact]]:
    steps = rows.values.get("step")
    if steps is None or not len(steps.at):
        return
    logged = np.unique(steps.value)
    if planned and logged[-1] >= planned:
        yield "ended", Fact("completed", "log")
    between = (
        steps_between_rewards(rows) if len(logged) > 2 and np.diff(logged).max() == 1 else None
    )
    if between is not None:
        yield "steps_between_rewards", Fact(between, "derived")


def _sniff(head: Head) -> bool:
    first = head.data.lstrip().partition(b"\n")[0]
    if not first.startswith(b"{") or PROGRESS.encode() not in first:
        return False
    try:
        row: Any = parse(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, Mapping) and PROGRESS in row


SWIFT = Reader("swift", _sniff, read_swift)
