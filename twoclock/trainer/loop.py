"""Train members and log them: rollouts, validations, checkpoints, the end of each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import torch

from twoclock.errors import TrainingError
from twoclock.runlog import RunLog, create_run, read_header, resume_run
from twoclock.trainer import checkpoint
from twoclock.trainer.base import base_policy
from twoclock.trainer.crew import Crew, check_members
from twoclock.trainer.locks import own_runs
from twoclock.trainer.probes import measure as probes
from twoclock.trainer.records import run_row, settings_changes, train_rows
from twoclock.trainer.settings import TrainSettings

PATIENCE = 3
"""A run whose loss or gradient was not finite in so many rollouts running is stopped."""

CHECKPOINT_RESPONSES = 16_384
"""Responses of a run between checkpoints, unless another number is asked for."""


class Progress(Protocol):
    """Called now and then with work done, work in all (responses), and what is being done."""

    def __call__(self, done: int, total: int, text: str) -> None:
        """Show progress."""


@contextmanager
def numerics() -> Iterator[None]:
    """Compute on one thread and flush denormals, as long as the block runs.

    One thread is fastest for models this small and makes results independent of the number of
    cores. Denormals (vanishing second moments) would make Adam's square root thirty times slower.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


@numerics()
def train(
    members: Sequence[TrainSettings],
    out: Path,
    *,
    progress: Progress | None = None,
    resume: bool = True,
    cache: Path | None = None,
    compress: bool = True,
    device: str = "cpu",
    checkpoint_every: int = CHECKPOINT_RESPONSES,
) -> list[Path]:
    """Train runs that differ in seed, base learning rate and length only, all at once.

    Parameters
    ----------
    members : sequence of TrainSettings
        The runs.
    out : Path
        Each run is written to ``out/RUN_ID``.
    progress : Progress, optional
        Called after each rollout.
    resume : bool
        Leave finished runs alone and continue unfinished ones from their last checkpoint; else an
        existing run is an error.
    cache : Path, optional
        Folder of base policies; default ``out/.cache``.
    compress : bool
        Write `metrics.jsonl.gz` when a run ends.
    device : str
        "cpu" or "cuda"; the log does not depend on it but for rounding.
    checkpoint_every : int
        Responses of each run between checkpoints, at least one rollout.

    Returns
    -------
    list of Path
        The runs' folders, in the order of `members`.

    Raises
    ------
    TrainingError
        The members cannot train together, a folder holds a run with other settings, or another
        process writes one of the runs.

    Notes
    -----
    A run killed at any moment and trained again, alone or in any crew, has the metrics of an
    uninterrupted one but for wall times.
    """
    check_members(members)
    cache = cache or out / ".cache"
    total = done = sum(m.rollouts * m.batch_size for m in members)
    with own_runs(out / m.run_id for m in members):
        pending = [m for m in members if not (resume and is_finished(m, out))]
        done -= sum(m.rollouts * m.batch_size for m in pending)
        for states in _by_rollout(pending, out, resume):
            part = [m for m in pending if m.run_id in states]
            crew = Crew(part, base_policy(part[0], cache), device)
            saved = [state for state in states.values() if state is not None]
            if saved:
                checkpoint.restore(crew, saved)
                done += crew.responses * len(part)
            session = _Session(crew, out, compress, resume, checkpoint_every)
            try:
                session.run(progress, done, total)
            finally:
                session.close()
            done += sum(m.rollouts * m.batch_size - crew.responses for m in part)
    return [out / m.run_id for m in members]


def _by_rollout(
    pending: Sequence[TrainSettings], out: Path, resume: bool
) -> list[dict[str, dict[str, Any] | None]]:
    """Return the saved states of runs, by name, those that stand at the same rollout together."""
    parts: dict[int, dict[str, dict[str, Any] | None]] = {}
    for member in pending:
        state = checkpoint.read(out / member.run_id) if resume else None
        rollout = state["rollout"] if state else 0
        parts.setdefault(rollout, {})[member.run_id] = state
    return [parts[rollout] for rollout in sorted(parts, reverse=True)]


class _Session:
    """A crew with its open logs."""

    def __init__(
        self, crew: Crew, out: Path, compress: bool, resume: bool, checkpoint_every: int
    ) -> None:
        self.crew, self.compress = crew, compress
        self.checkpoint_rollouts = max(1, checkpoint_every // crew.common.batch_size)
        self.logs: list[RunLog] = []
        try:
            for m in crew.members:
                if crew.rollout:
                    self.logs.append(resume_run(out / m.run_id, rollout=crew.rollout))
                else:
                    self.logs.append(create_run(out / m.run_id, run_row(m), replace=resume))
        except BaseException:
            self.close()
            raise

    def run(self, progress: Progress | None, done: int, total: int) -> None:
        """Train until every member has ended.

        Order makes a kill harmless: rows are in the file before the checkpoint that counts on
        them, and a log is finished before its checkpoint goes.
        """
        crew = self.crew
        if crew.rollout == 0:
            self._validate([True] * len(crew.members))
        while crew.members:
            probe = probes.begin(crew)
            report = crew.advance()
            for log, row in zip(self.logs, train_rows(crew, report), strict=True):
                log.train(row)
            if probe is not None:
                for log, row in zip(self.logs, probe.finish(crew), strict=True):
                    log.probe(row)
            ends = [_ending(m, crew, i) for i, m in enumerate(crew.members)]
            due = crew.rollout % crew.common.eval_rollouts == 0
            self._validate([due or bool(end) for end in ends])
            done += crew.common.batch_size * len(crew.members)
            if any(ends):
                self._dismiss(ends)
            for log in self.logs:
                log.flush()
            if crew.members and crew.rollout % self.checkpoint_rollouts == 0:
                checkpoint.save(crew, [log.folder for log in self.logs])
            if progress is not None:
                text = f"B={crew.common.batch_size}, {len(crew.members)} runs"
                progress(done, total, text)

    def close(self) -> None:
        """Close the logs of runs that have not ended; they stay resumable."""
        for log in self.logs:
            with suppress(OSError):  # a full disk, which has been told already
                log.close()

    def _validate(self, due: list[bool]) -> None:
        """Log a validation of those members that are due, whoever else is in the crew."""
        if not any(due):
            return
        accuracies, seconds = self.crew.validate()
        for log, accuracy, wanted in zip(self.logs, accuracies, due, strict=True):
            if not wanted:
                continue
            log.eval(
                {
                    "rollout": self.crew.rollout,
                    "responses": self.crew.responses,
                    "accuracy": accuracy,
                    "n": self.crew.common.eval_size,
                    "eval_seconds": round(seconds, 4),
                }
            )

    def _dismiss(self, ends: list[str]) -> None:
        for log, ended in zip(self.logs, ends, strict=True):
            if ended:
                log.finish(ended, compress=self.compress)
                checkpoint.remove(log.folder)
        stay = [i for i, ended in enumerate(ends) if not ended]
        self.logs = [self.logs[i] for i in stay]
        self.crew.keep(stay)


def _ending(member: TrainSettings, crew: Crew, row: int) -> str:
    """How `member` ends now, or nothing."""
    if crew.bad_rollouts[row] >= PATIENCE:
        return "stopped"
    return "completed" if crew.rollout >= member.rollouts else ""


def is_finished(settings: TrainSettings, out: Path) -> bool:
    """Whether ``out/RUN_ID`` holds this run, ended; raise if it holds another."""
    folder = out / settings.run_id
    if not folder.exists():
        return False
    run = read_header(folder)
    changes = settings_changes(run, settings)
    if changes:
        msg = f"{folder}: holds a run with other settings ({changes}); choose another --out folder"
        raise TrainingError(msg)
    ended = run.get("ended") in ("completed", "stopped")
    if ended:
        checkpoint.remove(folder)  # of a process killed between its last two steps
    return ended
