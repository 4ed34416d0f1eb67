"""One crew's work in a process of its own, and what it tells the sweep that started it.

A worker tells its progress through a small file that the sweep reads, which needs nothing but the
shared folder, so it is the same for local processes and for clusters. It stops by itself when its
sweep has died: a local worker at once, one on a cluster before its next rollout.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from twoclock.errors import TwoclockError
from twoclock.trainer.base import base_policy
from twoclock.trainer.locks import PROGRESS, sweep_goes_on
from twoclock.trainer.loop import train
from twoclock.trainer.machine import Machine, this_machine
from twoclock.trainer.settings import TrainSettings

INTERVAL = 0.5
"""Seconds between two looks at the sweep, and between two tellings."""


@dataclass(frozen=True)
class Task:
    """Work for one process: runs to train together, or only their base policy.

    Parameters
    ----------
    name : str
        Name of the progress file.
    members : tuple of TrainSettings
        The runs; of one kind, so that they can be a crew.
    out : str
        The sweep's folder.
    token : str
        The sweep's token (`twoclock.trainer.locks`).
    parent : int or None
        Process whose end ends the worker; None on other machines.
    checkpoint_every : int
        Responses of each run between checkpoints.
    device : str
        Where to compute.
    base_only : bool
        Train the base policy and nothing else.
    """

    name: str
    members: tuple[TrainSettings, ...]
    out: str
    token: str
    parent: int | None
    checkpoint_every: int
    device: str
    base_only: bool = False

    @property
    def cache(self) -> Path:
        """Folder of tokens and progress."""
        return Path(self.out) / ".cache"

    @property
    def bases(self) -> Path:
        """Folder of base policies."""
        return Path(self.out) / "bases"

    @property
    def beacon(self) -> Path:
        """File with the responses that are done."""
        return self.cache / f"{PROGRESS}{self.name}"


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Parameters
    ----------
    error : str
        Why it failed, in one line; empty when it did not.
    machine : Machine
        Where it ran.
    """

    error: str
    machine: Machine


class SweepGone(TwoclockError):
    """The sweep that started this worker has ended."""


def work(task: Task) -> Outcome:
    """Do a task; an error becomes part of the outcome, so that other crews go on."""
    torch.set_num_threads(1)  # for good: other crews may be at work in threads beside this one
    if task.parent is not None and task.parent != os.getpid():
        _die_with(task.parent)
    error = ""
    try:
        _check_folder(task)
        if task.base_only:
            base_policy(task.members[0], task.bases)
        else:
            runs = Path(task.out) / "runs"
            train(
                task.members,
                runs,
                cache=task.bases,
                progress=_Beacon(task),
                checkpoint_every=task.checkpoint_every,
                device=task.device,
            )
    except (TwoclockError, OSError, MemoryError, RuntimeError) as err:
        error = _one_line(err, task.out)
    return Outcome(error, this_machine())


class _Beacon:
    """A progress callable that writes a file, and ends the work when the sweep has ended."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.last = 0.0

    def __call__(self, done: int, total: int, text: str) -> None:  # noqa: ARG002 - Progress
        now = time.monotonic()
        if now - self.last < INTERVAL and done < total:
            return
        self.last = now
        if not sweep_goes_on(self.task.cache, self.task.token):
            msg = "the sweep that started this worker has ended"
            raise SweepGone(msg)
        self.task.beacon.write_text(str(done), encoding="ascii")


def responses_done(tasks: Sequence[Task]) -> list[int]:
    """Return the responses that each task has told, 0 where it has told nothing."""
    return [_told(task.beacon) for task in tasks]


def _told(beacon: Path) -> int:
    try:
        return int(beacon.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there yet, or just being written
        return 0


def _check_folder(task: Task) -> None:
    if not sweep_goes_on(task.cache, task.token):
        msg = (
            f"{task.out}: the worker on {socket.gethostname()} does not see this sweep there; "
            "--out must be on a file system that all workers share"
        )
        raise SweepGone(msg)


@functools.cache
def _die_with(parent: int) -> None:
    """End this process as soon as it is no longer a child of `parent`."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(INTERVAL)
        os._exit(1)  # like a kill, from which every run can go on

    threading.Thread(target=watch, daemon=True).start()


def _one_line(err: BaseException, out: str) -> str:
    if isinstance(err, OSError) and err.strerror:
        return f"{err.filename or out}: {err.strerror}"  # a buffered write does not name its file
    kind = "" if isinstance(err, TwoclockError) else f"{type(err).__name__}: "
    return kind + " ".join(str(err).split())
