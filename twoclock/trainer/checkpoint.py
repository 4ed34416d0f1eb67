"""Save and restore a crew so that it goes on bit for bit; files are read without pickled code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from twoclock.errors import TrainingError
from twoclock.trainer.crew import Crew


def save(crew: Crew, path: Path, ids: list[str]) -> None:
    """Write the state of `crew`, whose members are called `ids`, replacing `path` at once."""
    state = {
        "ids": ids,
        "theta": crew.theta,
        "optimizer": crew.optimizer.state(),
        "generators": torch.stack([g.get_state() for g in crew.generators]),  # (M, state bytes)
        "bad_rollouts": crew.bad_rollouts,
        "tokens": crew.tokens,
        "rollout": crew.rollout,
        "seconds": crew.seconds,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def saved_ids(path: Path) -> set[str]:
    """Return the members in the checkpoint `path`; none when there is no file."""
    return set(_read(path)["ids"]) if path.exists() else set()


def load(crew: Crew, path: Path, ids: list[str]) -> None:
    """Restore the members `ids`, in this order, from the checkpoint `path` into `crew`."""
    state = _read(path, crew.device)
    rows = [state["ids"].index(name) for name in ids]
    crew.theta = state["theta"][rows].clone()
    crew.optimizer.restore(state["optimizer"], rows)
    for generator, row in zip(crew.generators, rows, strict=True):
        generator.set_state(state["generators"][row].cpu().clone())  # it must own its storage
    crew.bad_rollouts = [state["bad_rollouts"][row] for row in rows]
    crew.tokens = [state["tokens"][row] for row in rows]
    crew.rollout, crew.seconds = state["rollout"], state["seconds"]


def _read(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    try:
        state = torch.load(path, weights_only=True, map_location=device)
        missing = {"ids", "theta", "optimizer", "generators", "tokens"} - set(state)
    except Exception as err:  # damaged bytes raise almost any type in the restricted unpickler
        msg = f"{path}: damaged checkpoint; delete it to start again"
        raise TrainingError(msg) from err
    if missing:
        msg = f"{path}: checkpoint lacks {sorted(missing)[0]!r}; delete it to start again"
        raise TrainingError(msg)
    return dict(state)
