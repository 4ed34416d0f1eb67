"""TRL and unsloth: the `trainer_state.json` of a checkpoint.

A step is one optimizer step. The file never tells the batch size (it has the batch of one device,
but not how many there are), so that has to be given. Rows of re-used batches carry no reward: from
their pattern the optimizer steps of one rollout are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.cells import number
from twoclock.sources.json_rows import iter_array, mapped_keys, parse
from twoclock.sources.rows import Rows, RowStore
from twoclock.sources.text import read_document

COLUMNS = {
    "step": ("step",),
    "reward": ("reward",),
    "kl_ref": ("kl",),
    "loss": ("loss",),
    "lr": ("learning_rate",),
    "clip_fraction": ("clip_ratio/region_mean", "clip_ratio", "cispo_clip_ratio"),
}
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_SETTING = re.compile(r'"(global_step|max_steps|logging_steps|train_batch_size)"\s*:\s*(\d+)')


def read_trainer_state(path: Path, options: ReadOptions) -> list[Log]:
    """Read a `trainer_state.json`; of a cut one, the complete rows.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    notes: list[Note] = []
    text = read_document(path, notes)
    try:
        state: Any = parse(text)
    except (ValueError, RecursionError):
        state = None
    if isinstance(state, dict) and isinstance(state.get("log_history"), list):
        history: Iterable[Any] = state["log_history"]
    else:
        history, state = _damaged(text), dict(_SETTING.findall(text))
        notes.append(
            Note("cut_file", "the file is cut or damaged; read up to there", (), str(path))
        )
    store = RowStore(mapped_keys(options))
    for index, row in enumerate(history, start=1):
        if isinstance(row, dict):
            store.add(row, index)
    if not store.count:
        msg = "no data: log_history has no rows"
        raise SourceError(msg, where=str(path))
    rows = store.finish()
    return [
        Log(
            path,
            rows,
            "trl",
            framework="trl",
            facts=dict(_facts(state, rows)),
            columns=COLUMNS,
            step_counts="optimizer",
            synchronous=True,
            files=(path,),
            notes=tuple(notes),
        )
    ]


def _damaged(text: str) -> Iterator[dict[str, Any]]:
    found = _HISTORY.search(text)
    return iter_array(text, found.end() - 1) if found else iter(())


def _facts(state: Mapping[str, Any], rows: Rows) -> Iterator[tuple[str, Fact]]:
    device = _whole(state, "train_batch_size")
    if device:
        yield "per_device_train_batch_size", Fact(device, "log")
    last, planned = _whole(state, "global_step"), _whole(state, "max_steps")
    if planned and last >= planned:
        yield "ended", Fact("completed", "log")
    steps = steps_between_rewards(rows) if _whole(state, "logging_steps") == 1 else None
    if steps is not None:
        yield "steps_between_rewards", Fact(steps, "derived")


def _whole(state: Mapping[str, Any], name: str) -> int:
    value = number(state.get(name))
    return int(value) if isinstance(value, float) and 0 < value < 2**53 else 0


def steps_between_rewards(rows: Rows) -> int | None:
    """Return the optimizer steps from one reward to the next, if they are regular."""
    rewards, steps = rows.values.get("reward"), rows.values.get("step")
    if rewards is None or steps is None:
        return None
    at = np.isin(steps.at, rewards.at)
    gaps = np.unique(np.diff(steps.value[at]))
    gaps = gaps[gaps > 0]
    return int(gaps[0]) if len(gaps) == 1 else None


def _sniff(head: Head) -> bool:
    """Tell a state by its history; a log in lines may hold a whole state in its last one."""
    text = head.data.lstrip()
    if not text.startswith(b"{"):
        return False
    if head.name.endswith("trainer_state.json"):
        return True
    return b'"log_history"' in text and not _is_row(text.partition(b"\n")[0])


def _is_row(line: bytes) -> bool:
    try:
        row = parse(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "log_history" not in row


TRL = Reader("trl", _sniff, read_trainer_state)
