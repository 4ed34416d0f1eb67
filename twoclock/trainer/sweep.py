"""Train every run of a study: plan it, lock its folder, share the crews out, watch, report."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from twoclock.errors import SettingsError, TrainingError
from twoclock.trainer.crew import find_device
from twoclock.trainer.locks import forget, own_sweep
from twoclock.trainer.loop import CHECKPOINT_RESPONSES, Progress
from twoclock.trainer.machine import add_machines, this_machine
from twoclock.trainer.parallel import Pool, workers
from twoclock.trainer.plan import CREW_SIZE, Plan, PlannedCrew, make_plan
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.study import Study
from twoclock.trainer.worker import Outcome, Task, responses_done, work

POLL = 0.5
"""Seconds between two looks at the workers' progress."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How a study is trained; nothing here changes a run's metrics.

    Parameters
    ----------
    jobs : int or None
        Crews at a time; None: one for each physical core, or for each worker of a cluster.
    crew_size : int
        Most members of a crew: memory grows with it.
    backend : {"loky", "dask", "ray"}
        Local processes, or an existing cluster.
    address : str
        Of the cluster.
    checkpoint_every : int
        Responses of each run between checkpoints: what a kill can cost.
    device : str
        "cpu" or "cuda", of every process; on a GPU runs round differently.

    Raises
    ------
    SettingsError
        A number is below 1.
    TrainingError
        There is no such device.
    """

    jobs: int | None = None
    crew_size: int = CREW_SIZE
    backend: str = "loky"
    address: str = ""
    checkpoint_every: int = CHECKPOINT_RESPONSES
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("jobs", "crew_size", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} == {value}, must be >= 1"
                raise SettingsError(msg)
        if self.backend == "loky":
            find_device(self.device)  # a cluster's workers look for their own


_DEFAULT = SweepOptions()


def run_sweep(
    study: Study,
    out: Path,
    *,
    options: SweepOptions = _DEFAULT,
    progress: Progress | None = None,
    show: Callable[[Plan], None] | None = None,
) -> list[Path]:
    """Train every run of a study into ``out/runs/RUN_ID``; finished runs are skipped.

    Parameters
    ----------
    study : Study
        The runs.
    out : Path
        Output folder; base policies go to ``out/bases``, the kind of machine to
        ``out/machine.toml``.
    options : SweepOptions
        Processes, crews, cluster.
    progress : Progress, optional
        Called with responses done, responses in all and a text. Responses are weighted by the
        time that they take, so that the time left can be told from them.
    show : callable, optional
        Gets the plan before anything is trained.

    Returns
    -------
    list of Path
        The runs' folders.

    Raises
    ------
    TrainingError
        Another sweep works on the folder, it holds runs with other settings, or crews failed;
        then all others were trained, and every run can go on.
    """
    with own_sweep(out / ".cache") as token, _pool(options) as pool:
        plan = make_plan(study, out, jobs=pool.jobs, crew_size=options.crew_size)
        if show is not None:
            show(plan)
        parent = os.getpid() if pool.local else None
        maker = _TaskMaker(
            str(out.absolute()), token, parent, options.checkpoint_every, options.device
        )
        if pool.local:
            add_machines(out, [this_machine()])
        bases = [maker.task((m,), base_only=True) for m in plan.bases]
        _check(pool.run(work, bases), study, out)
        tasks = [maker.task(crew.members) for crew in plan.crews]
        with _Watch(tasks, plan.crews, study.total_responses, progress):
            outcomes = pool.run(work, tasks)
        add_machines(out, [outcome.machine for outcome in outcomes])
        _check(outcomes, study, out)
        folders = [out / "runs" / m.run_id for m in study.members]
        forget(folders)
    if progress is not None:
        progress(study.total_responses, study.total_responses, "done")
    return folders


def plan_sweep(study: Study, out: Path, *, options: SweepOptions = _DEFAULT) -> Plan:
    """Return what `run_sweep` would do; trains nothing but a few rollouts to time them."""
    with _pool(options) as pool:
        return make_plan(study, out, jobs=pool.jobs, crew_size=options.crew_size)


def _pool(options: SweepOptions) -> AbstractContextManager[Pool]:
    return workers(options.backend, options.jobs, options.address)


@dataclass(frozen=True)
class _TaskMaker:
    """What all tasks of a sweep share."""

    out: str
    token: str
    parent: int | None
    checkpoint_every: int
    device: str

    def task(self, members: tuple[TrainSettings, ...], *, base_only: bool = False) -> Task:
        names = " ".join(m.run_id for m in members)
        name = hashlib.sha256(names.encode()).hexdigest()[:12]
        shared = (self.out, self.token, self.parent, self.checkpoint_every, self.device)
        return Task(name, members, *shared, base_only)


def _check(outcomes: Sequence[Outcome], study: Study, out: Path) -> None:
    """Raise when tasks failed; say why, what is there, and how to go on."""
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if errors:
        finished = sum(_is_finished(out / "runs" / m.run_id) for m in study.members)
        msg = (
            f"{errors[0]} ({len(errors)} of {len(outcomes)} crews failed; {finished} of "
            f"{len(study.members)} runs are finished, the others are kept up to their last "
            "checkpoint; mend the cause and give the same command again)"
        )
        raise TrainingError(msg)


def _is_finished(folder: Path) -> bool:
    return (folder / "metrics.jsonl.gz").exists()


class _Watch(AbstractContextManager["_Watch"]):
    """A thread that reads the workers' progress files and calls `progress`.

    Parameters
    ----------
    tasks, crews : sequence of Task, PlannedCrew
        The work.
    total : int
        Responses of the whole study.
    progress : Progress or None
        Called from the thread.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        crews: Sequence[PlannedCrew],
        total: int,
        progress: Progress | None,
    ) -> None:
        self._tasks, self._crews, self._total = tasks, crews, total
        self._progress = progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Watch:
        if self._progress is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._progress is not None:
            self._thread.join()
        for task in self._tasks:
            task.beacon.unlink(missing_ok=True)

    def _watch(self) -> None:
        assert self._progress is not None
        before = self._total - sum(crew.responses for crew in self._crews)
        left = self._total - before
        weight = sum(crew.seconds for crew in self._crews) or 1.0
        while not self._stop.wait(POLL):
            told = responses_done(self._tasks)
            shares = [
                min(1.0, max(0.0, 1 - (whole - n) / crew.responses)) if n else 0.0
                for n, whole, crew in zip(told, map(_whole, self._tasks), self._crews, strict=True)
            ]
            seconds = sum(s * c.seconds for s, c in zip(shares, self._crews, strict=True))
            ended = sum(share == 1.0 for share in shares)
            text = f"{ended} of {len(self._crews)} crews"
            self._progress(before + round(left * seconds / weight), self._total, text)


def _whole(task: Task) -> int:
    return sum(m.rollouts * m.batch_size for m in task.members)
