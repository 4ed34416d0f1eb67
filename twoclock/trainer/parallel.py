"""Run tasks in local processes or on an existing Dask or Ray cluster, through joblib.

Clusters are found, not started. Their workers need this package in the same version, and must see
the output folder; what they compute is the same everywhere but for rounding on other processors.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

import joblib

from twoclock.errors import SettingsError, TrainingError

BACKENDS = ("loky", "dask", "ray")

CONNECT_SECONDS = 10
"""How long a cluster may take to answer."""

T = TypeVar("T")
R = TypeVar("R")


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
        """Return the result of `work` for each task; `work` must not raise.

        Raises
        ------
        TrainingError
            A worker died, or cannot run the work.
        """
        try:
            return list(self.parallel(joblib.delayed(work)(task) for task in tasks))
        except Exception as err:  # each backend has its own types
            reason = f"{type(err).__name__}: {' '.join(str(err).split())[:300]}"
            msg = (
                f"a worker was lost ({reason}); out of memory? Give the same command again, "
                "with a smaller --crew-size or fewer --jobs"
            )
            raise TrainingError(msg) from err


@contextlib.contextmanager
def workers(backend: str = "loky", jobs: int | None = None, address: str = "") -> Iterator[Pool]:
    """Open a pool of workers as long as the block runs.

    Parameters
    ----------
    backend : {"loky", "dask", "ray"}
        Local processes, or the existing cluster at `address`.
    jobs : int or None
        Tasks at a time; None: the physical cores, or all of the cluster. One local job stays in
        this process. Dask takes no other number than all.
    address : str
        Of the Dask scheduler (``tcp://HOST:PORT``) or the Ray head (``HOST:PORT``).

    Raises
    ------
    SettingsError
        An unknown backend, or an address or a number of jobs that does not go with it.
    TrainingError
        The backend is not installed, or the cluster does not answer.

    Examples
    --------
    >>> with workers(jobs=1) as pool:
    ...     pool.run(abs, [-1, -2])
    [1, 2]
    """
    _check(backend, jobs, address)
    if backend == "loky":
        count = jobs or int(joblib.cpu_count(only_physical_cores=True))
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            yield Pool(joblib.Parallel(n_jobs=count, batch_size=1), count, local=True)
    else:
        cluster = _dask() if backend == "dask" else _ray()
        with cluster(address) as cores:
            count = jobs or cores
            yield Pool(joblib.Parallel(n_jobs=count, batch_size=1), count, local=False)


def _check(backend: str, jobs: int | None, address: str) -> None:
    if backend not in BACKENDS:
        msg = f"backend == {backend!r}, must be one of {', '.join(BACKENDS)}"
        raise SettingsError(msg)
    if (backend == "loky") != (address == ""):
        rule = "has no address" if backend == "loky" else "needs the address of the cluster"
        msg = f"address == {address!r}: backend {backend} {rule}"
        raise SettingsError(msg)
    if backend == "dask" and jobs is not None:
        msg = f"jobs == {jobs}: a Dask cluster uses all its workers; leave the number out"
        raise SettingsError(msg)


Cluster = Callable[[str], contextlib.AbstractContextManager[int]]
"""Connects to the cluster at an address, for joblib too, and gives its number of cores."""


def _dask() -> Cluster:
    try:
        from distributed import Client
    except ModuleNotFoundError as err:
        msg = "backend dask is not installed: pip install 'twoclock[dask]'"
        raise TrainingError(msg) from err

    @contextlib.contextmanager
    def connect(address: str) -> Iterator[int]:
        try:
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as err:
            msg = f"{address}: no Dask scheduler answers ({_short(err)})"
            raise TrainingError(msg) from err
        with client:
            cores = sum(client.ncores().values())
            if not cores:
                msg = f"{address}: the Dask cluster has no workers; start some first"
                raise TrainingError(msg)
            for package in ("twoclock", "torch"):  # a worker that lacks them would hang joblib
                _check_versions(package, client.run(version, package, on_error="return"))
            with joblib.parallel_config(backend="dask", client=client):
                yield cores

    return connect


def _check_versions(package: str, found: dict[str, object]) -> None:
    """Raise unless every worker has the version of a package that is here."""
    for worker, there in found.items():
        if there != version(package):
            has = f"{package} {there}" if isinstance(there, str) else f"no {package}"
            msg = f"Dask worker {worker} has {has}, must be {version(package)} as here"
            raise TrainingError(msg)


def _ray() -> Cluster:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ModuleNotFoundError as err:
        msg = "backend ray is not installed: pip install 'twoclock[ray]'"
        raise TrainingError(msg) from err

    @contextlib.contextmanager
    def connect(address: str) -> Iterator[int]:
        _check_answers(address)
        try:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as err:
            msg = f"{address}: no Ray cluster answers ({_short(err)})"
            raise TrainingError(msg) from err
        try:
            register_ray()
            with joblib.parallel_config(backend="ray"):
                yield int(ray.cluster_resources()["CPU"])
        finally:
            ray.shutdown()

    return connect


def _check_answers(address: str) -> None:
    """Raise unless something listens at ``HOST:PORT``; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError) as err:
        msg = f"{address}: no Ray cluster answers ({_short(err)}); must be HOST:PORT of its head"
        raise TrainingError(msg) from err


def _short(err: Exception) -> str:
    return " ".join(str(err).split())[:200] or type(err).__name__
