"""Save and restore runs so that they go on bit for bit; files are read without pickled code.

Each run has its own checkpoint in its own folder, so that a run can go on in any crew, and a
deleted folder takes its checkpoint along.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from twoclock.errors import TrainingError
from twoclock.trainer.crew import Crew

State = dict[str, Any]
"""What a run's checkpoint holds; tensors keep their member axis, of length 1."""

_KEYS = frozenset(
    ("theta", "optimizer", "generator", "bad_rollouts", "tokens", "rollout", "seconds")
)


def save(crew: Crew, folders: Sequence[Path]) -> None:
    """Write the state of each member of `crew` into its folder, replacing an older one at once."""
    optimizer = crew.optimizer.state()
    for row, folder in enumerate(folders):
        state = {
            "theta": _row(crew.theta, row),
            "optimizer": {name: _row(value, row) for name, value in optimizer.items()},
            "generator": crew.generators[row].get_state(),
            "bad_rollouts": crew.bad_rollouts[row],
            "tokens": crew.tokens[row],
            "rollout": crew.rollout,
            "seconds": crew.seconds,
        }
        packed = io.BytesIO()  # torch's own writer hides why it failed, a full disk for example
        torch.save(state, packed)
        path = _path(folder)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
        temporary.write_bytes(packed.getvalue())
        temporary.replace(path)


def read(folder: Path) -> State | None:
    """Return the state saved in a run's folder, on the CPU, or None when there is none.

    Raises
    ------
    TrainingError
        The file is damaged.
    """
    path = _path(folder)
    if not path.exists():
        return None
    try:
        state = dict(torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as err:  # damaged bytes raise almost any type in the restricted unpickler
        msg = f"{path}: damaged checkpoint; delete it to start this run again"
        raise TrainingError(msg) from err
    missing = sorted(_KEYS - set(state))
    if missing:
        msg = f"{path}: checkpoint lacks {missing[0]!r}; delete it to start this run again"
        raise TrainingError(msg)
    return state


def restore(crew: Crew, states: Sequence[State]) -> None:
    """Give the members of `crew` their saved states, which are of the same rollout."""
    crew.theta = torch.cat([state["theta"] for state in states]).to(crew.device)
    joined = {
        name: torch.cat([state["optimizer"][name] for state in states]).to(crew.device)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in states[0]["optimizer"].items()
    }
    crew.optimizer.restore(joined, list(range(len(states))))
    for generator, state in zip(crew.generators, states, strict=True):
        generator.set_state(state["generator"])
    crew.bad_rollouts = [state["bad_rollouts"] for state in states]
    crew.tokens = [state["tokens"] for state in states]
    crew.rollout = states[0]["rollout"]
    crew.seconds = max(state["seconds"] for state in states)


def remove(folder: Path) -> None:
    """Delete a run's checkpoint, if there is one."""
    _path(folder).unlink(missing_ok=True)


def _row(value: Any, row: int) -> Any:
    """Return one member's part of a member-first tensor, in memory of its own; others as is."""
    return value[row : row + 1].cpu().clone() if isinstance(value, torch.Tensor) else value


def _path(folder: Path) -> Path:
    return folder / "checkpoint.pt"
