"""TRL and unsloth: the `trainer_state.json` of a checkpoint.

A step is one optimizer step. The file never tells the batch size (it has the batch of one device,
but not how many there are), so that has to be given. Rows of re-used batches carry no reward: from
their pattern the optimizer steps of one rollout are read.
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
from twoclock.sources.json_rows import mapped_keys, parse
from twoclock.sources.rows import Rows, RowStore
from twoclock.sources.state_file import read_history

_EVALUATED = ("reward", "rewards/", "completions/", "completion_length", "frac_reward_zero_std")
_SETTINGS = ("global_step", "max_steps", "logging_steps", "train_batch_size")


def read_trainer_state(path: Path, options: ReadOptions) -> list[Log]:
    """Read a `trainer_state.json`; of a cut one, the complete rows.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    notes: list[Note] = []
    history, state = read_history(path, notes, _SETTINGS)
    store = RowStore(mapped_keys(options))
    for index, row in enumerate(history, start=1):
        if isinstance(row, dict):
            store.add(as_validation(row), index)
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
            files=(path,),
            notes=tuple(notes),
        )
    ]


def _facts(state: Mapping[str, Any], rows: Rows) -> Iterator[tuple[str, Fact]]:
    device = _whole(state, "train_batch_size")
    if device:
        yield "per_device_train_batch_size", Fact(device, "log")
    last, planned = _whole(state, "global_step"), _whole(state, "max_steps")
    if planned and last >= planned:
        yield "ended", Fact("completed", "log")
    steps = steps_between_rewards(rows, _whole(state, "logging_steps"))
    if steps is not None:
        yield "steps_between_rewards", Fact(steps, "derived")


def _whole(state: Mapping[str, Any], name: str) -> int:
    value = number(state.get(name))
    return int(value) if isinstance(value, float) and 0 < value < 2**53 else 0


def as_validation(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of an evaluation with every metric named as one of it.

    Some versions log the rewards of an evaluation under the names of the training's.

    Examples
    --------
    >>> as_validation({"eval_loss": 0.0, "reward": 0.5, "epoch": 1.0, "step": 9})
    {'eval_loss': 0.0, 'eval_reward': 0.5, 'epoch': 1.0, 'step': 9}
    """
    if "eval_loss" not in row and "eval_runtime" not in row:
        return row
    return {
        f"eval_{key}" if key.startswith(_EVALUATED) and f"eval_{key}" not in row else key: value
        for key, value in row.items()
    }


def steps_between_rewards(rows: Rows, every: int = 1) -> int | None:
    """Return the optimizer steps from one reward to the next, if they are regular.

    Rows that stand for several steps show a distance between rewards only where some of them have
    none; the distance is exact once there are as many of it as steps in a row.
    """
    rewards, steps = rows.values.get("reward"), rows.values.get("step")
    if rewards is None or steps is None or every < 1:
        return None
    at = np.isin(steps.at, rewards.at)
    gaps = np.diff(steps.value[at])
    gaps = gaps[gaps > 0]
    if not len(gaps) or (gaps != gaps[0]).any():
        return None
    exact = every == 1 or (gaps[0] > every and len(gaps) >= every)
    return int(gaps[0]) if exact else None


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
