"""ROLL: the `worker_state_*.json` of a checkpoint, with every row so far.

The rows of a state carry no step: they are one for each step from 0 to the state's own. Forks that
log `system/step` say it themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.cells import number
from twoclock.sources.json_rows import mapped_keys
from twoclock.sources.rows import RowStore
from twoclock.sources.state_file import read_history

_OWN_STEP = "system/step"


def read_state(path: Path, options: ReadOptions) -> list[Log]:
    """Read a state; of a cut one, the complete rows.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    notes: list[Note] = []
    history, state = read_history(path, notes)
    rows = [row for row in history if isinstance(row, dict)]
    if not rows:
        msg = "no data: log_history has no rows"
        raise SourceError(msg, where=str(path))
    last = _last_step(state)
    first = 0 if last is None else max(0, last + 1 - len(rows))
    store = RowStore(mapped_keys(options))
    for index, row in enumerate(rows):
        placed = row if _OWN_STEP in row or "step" in row else {"step": first + index, **row}
        store.add(placed, index + 1)
    return [
        Log(path, store.finish(), "roll-state", framework="roll", files=(path,), notes=tuple(notes))
    ]


def _last_step(state: Mapping[str, Any]) -> int | None:
    """Return the step of the last row, where the state tells it."""
    step = number(state["step"]) if "step" in state else None
    known = isinstance(step, float) and step.is_integer() and 0 <= step < 2**53
    return int(step) if known and isinstance(step, float) else None


def _sniff(head: Head) -> bool:
    text = head.data.lstrip()
    named = head.name.startswith("worker_state") and head.name.endswith(".json")
    return named and text.startswith(b"{") and b'"log_history"' in text


ROLL_STATE = Reader("roll-state", _sniff, read_state)
