"""Files that hold the state of a training with all rows so far, as Hugging Face's and ROLL's do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twoclock.notes import Note
from twoclock.sources.json_rows import iter_array, parse
from twoclock.sources.text import read_document

_HISTORY = re.compile(r'"log_history"\s*:\s*\[')


def read_history(
    path: Path, notes: list[Note], numbers: tuple[str, ...] = ()
) -> tuple[Iterable[Any], Mapping[str, Any]]:
    """Return the rows of a state and its other settings; of a cut state, the complete rows.

    Parameters
    ----------
    path : Path
        The file.
    notes : list of Note
        A remark is added here when the state is cut or damaged.
    numbers : tuple of str
        Whole numbers that are looked for by name in such a state; its other settings are lost.

    Raises
    ------
    SourceError
        The file cannot be opened or is too large.
    """
    text = read_document(path, notes)
    try:
        state: Any = parse(text)
    except (ValueError, RecursionError):
        state = None
    if isinstance(state, dict) and isinstance(state.get("log_history"), list):
        return state["log_history"], state
    notes.append(Note("cut_file", "the file is cut or damaged; read up to there", where=str(path)))
    found = _HISTORY.search(text)
    rows = iter_array(text, found.end() - 1) if found else ()
    names = "|".join(numbers)
    return rows, dict(re.findall(rf'"({names})"\s*:\s*(\d+)', text)) if numbers else {}
