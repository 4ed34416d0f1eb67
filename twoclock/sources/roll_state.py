"""ROLL: the `worker_state_*.json` of a checkpoint, with every row so far.

The rows of a state carry no step: they are one for each step from 0 to the state's own. Forks that
log `system/step` say it themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.cells import number
from twoclock.sources.json_rows import iter_array, mapped_keys, parse
from twoclock.sources.rows import RowStore
from twoclock.sources.text import read_document

_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_OWN_STEP = "system/step"


def read_state(path: Path, options: ReadOptions) -> list[Log]:
    """Read a state; of a cut one, the complete rows.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    notes: list[Note] = []
    text = read_document(path, notes)
    history, last = _content(text, str(path), notes)
    rows = [row for row in history if isinstance(row, dict)]
    if not rows:
        msg = "no data: log_history has no rows"
        raise SourceError(msg, where=str(path))
    first = 0 if last is None else max(0, last + 1 - len(rows))
    store = RowStore(mapped_keys(options))
    for index, row in enumerate(rows):
        placed = row if _OWN_STEP in row or "step" in row else {"step": first + index, **row}
        store.add(placed, index + 1)
    return [
        Log(path, store.finish(), "roll-state", framework="roll", files=(path,), notes=tuple(notes))
    ]


def _content(text: str, where: str, notes: list[Note]) -> tuple[Iterable[Any], int | None]:
    """Return the rows, and the step of the last one where the state is whole."""
    try:
        state: Any = parse(text)
    except (ValueError, RecursionError):
        state = None
    if isinstance(state, Mapping) and isinstance(state.get("log_history"), list):
        step = number(state.get("step"))
        whole = isinstance(step, float) and step.is_integer() and 0 <= step < 2**53
        return state["log_history"], int(step) if whole and isinstance(step, float) else None
    notes.append(Note("cut_file", "the file is cut or damaged; read up to there", where=where))
    found = _HISTORY.search(text)
    return iter_array(text, found.end() - 1) if found else (), None


def _sniff(head: Head) -> bool:
    text = head.data.lstrip()
    named = head.name.startswith("worker_state") and head.name.endswith(".json")
    return named and text.startswith(b"{") and b'"log_history"' in text


ROLL_STATE = Reader("roll-state", _sniff, read_state)
