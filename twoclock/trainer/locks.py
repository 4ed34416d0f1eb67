"""Locks: one process writes a run, one sweep works on a folder; a dead process holds nothing.

The operating system frees the lock of a process that ends, however it ends. A sweep also leaves a
token beside its lock: its workers stop when they see another token, or none.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from twoclock.errors import TrainingError

PATIENCE = 60.0
"""Seconds to wait for a run that another process writes: workers of a killed sweep stop soon."""

PROGRESS = "progress-"
"""How names of files begin in which a sweep's workers tell what they have done."""


@contextlib.contextmanager
def own_runs(folders: Iterable[Path], *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the locks of run folders, ``.RUN_ID.lock`` beside each, as long as the block runs.

    Raises
    ------
    TrainingError
        Another process still writes one of them after `patience` seconds.
    """
    with contextlib.ExitStack() as stack:
        for folder in sorted(folders):  # one order for all, so that nobody waits in a circle
            folder.parent.mkdir(parents=True, exist_ok=True)
            path = _lock_of(folder)
            try:
                stack.enter_context(FileLock(path, timeout=patience))
            except Timeout as err:
                msg = f"{folder}: another process is writing this run; wait for it or stop it"
                raise TrainingError(msg) from err
            stack.callback(path.unlink, missing_ok=True)
        yield


def forget(folders: Iterable[Path]) -> None:
    """Delete the lock files of finished runs, which nobody will write, left by killed processes."""
    for folder in folders:
        _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def own_sweep(cache: Path) -> Iterator[str]:
    """Hold the lock of a sweep's folder as long as the block runs; yield the sweep's token.

    Raises
    ------
    TrainingError
        Another sweep works there.
    """
    cache.mkdir(parents=True, exist_ok=True)
    who, token = cache / "sweep.owner", cache / "sweep.token"
    try:
        lock = FileLock(cache / "sweep.lock", timeout=0).acquire()
    except Timeout as err:
        other = who.read_text(encoding="utf-8") if who.exists() else "another process"
        msg = f"{cache.parent}: a sweep runs here ({other}); wait for it or choose another --out"
        raise TrainingError(msg) from err
    mark = uuid.uuid4().hex
    with lock:
        who.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        token.write_text(mark, encoding="utf-8")
        bases = cache.parent / "bases"
        for left in (*cache.glob(f"{PROGRESS}*"), *bases.glob("*.tmp")):  # of a killed sweep
            left.unlink()
        try:
            yield mark
        finally:
            token.unlink(missing_ok=True)
            who.unlink(missing_ok=True)


def sweep_goes_on(cache: Path, token: str) -> bool:
    """Whether the sweep with this token still works on the folder."""
    try:
        return (cache / "sweep.token").read_text(encoding="utf-8") == token
    except OSError:
        return False
