"""Run tasks in local processes or on an existing Dask or Ray cluster, through joblib."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from twoclock.errors import SettingsError, TrainingError

BACKENDS = ("loky", "dask", "ray")

T = TypeVar("T")
R = TypeVar("R")


def physical_cores() -> int:
    """Return the number of physical cores that this process may use."""
    return int(joblib.cpu_count(only_physical_cores=True))


@dataclass(frozen=True)
class Pool:
    """Workers that take tasks.

    Parameters
    ----------
    parallel : joblib.Parallel
        Set up with its backend.
    jobs : int
        Tasks at a time.
    local : bool
        Are the workers children of this process, or the process itself?
    """

    parallel: joblib.Parallel
    jobs: int
    local: bool

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Return the result of `work` for each task.

        Raises
        ------
        TrainingError
            A worker died.
        """
        try:
            return list(self.parallel(joblib.delayed(work)(task) for task in tasks))
        except TerminatedWorkerError as err:
            msg = "a worker process was killed (out of memory?); give the same command again"
            raise TrainingError(msg) from err


@contextlib.contextmanager
def workers(backend: str = "loky", jobs: int | None = None, address: str = "") -> Iterator[Pool]:
    """Open a pool of workers as long as the block runs.

    Parameters
    ----------
    backend : {"loky", "dask", "ray"}
        Local processes, or the existing cluster at `address`.
    jobs : int or None
        Tasks at a time; None: the physical cores, or all workers of the cluster. One local job
        stays in this process.
    address : str
        Of the Dask scheduler (``tcp://HOST:PORT``) or the Ray head.

    Raises
    ------
    SettingsError
        An unknown backend, or no address.
    TrainingError
        The backend is not installed, or the cluster does not answer.
    """
    if backend not in BACKENDS:
        msg = f"backend == {backend!r}, must be one of {', '.join(BACKENDS)}"
        raise SettingsError(msg)
    if backend != "loky":
        msg = f"backend {backend!r} is not there yet{address}"
        raise SettingsError(msg)
    count = jobs or physical_cores()
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        yield Pool(joblib.Parallel(n_jobs=count, batch_size=1), count, local=True)
