"""Sweeps on a real local Dask cluster and a real local Ray cluster."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer.conftest import tiny, untimed
from twoclock.errors import SettingsError, TrainingError
from twoclock.trainer import parallel
from twoclock.trainer.parallel import workers
from twoclock.trainer.worker import Task, work

STUDY = """
[grid]
batch_sizes = [32, 64]
base_lrs = [1e-3, 3e-4]
seeds = [0, 1]
responses = [256, 192]
[train]
digits = 3
noise = 0.3
base_steps = 20
width = 16
layers = 1
group_size = 4
minibatches = 2
eval_size = 100
"""

ROOT = Path(__file__).parents[2]


def sweep(tmp_path, name, *options):
    """Run `twoclock sweep` in a process of its own; return exit code, stderr, rows by run."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    out = tmp_path / name
    call = [sys.executable, "-m", "twoclock", "sweep", study, "--out", out, "--crew-size", 2]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, call), *options], capture_output=True, text=True,
                          env=environment, timeout=600)  # fmt: skip
    rows = {p.name: untimed(p) for p in sorted((out / "runs").glob("B*"))}
    return done.returncode, done.stderr, rows


def check_same(tmp_path, *options):
    """Assert that a sweep with these options writes the rows of a local one in one process."""
    code, error, here = sweep(tmp_path, "here", "--jobs", "1")
    assert code == 0, error
    code, error, there = sweep(tmp_path, "there", *options)
    assert code == 0, error
    assert len(here) == 8
    assert there == here
    assert "2 at a time" in error


def test_local_processes_write_the_same_rows(tmp_path):
    """Two processes write what one writes."""
    check_same(tmp_path, "--jobs", "2")


def test_a_cluster_needs_its_package_and_its_address(monkeypatch):
    """What is missing is said in one line, with the remedy."""
    with pytest.raises(SettingsError, match="backend == 'slurm', must be one of loky, dask, ray"):
        workers("slurm").__enter__()
    with pytest.raises(SettingsError, match="backend dask needs the address of the cluster"):
        workers("dask").__enter__()
    with pytest.raises(SettingsError, match="backend loky has no address"):
        workers("loky", address="tcp://127.0.0.1:1").__enter__()
    with pytest.raises(SettingsError, match="uses all its workers"):
        workers("dask", 2, "tcp://127.0.0.1:1").__enter__()
    for name, package in (("dask", "distributed"), ("ray", "ray")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(TrainingError, match=rf"pip install 'twoclock\[{name}\]'"):
            workers(name, address="127.0.0.1:1").__enter__()


@pytest.mark.dask
@pytest.mark.filterwarnings("default")
def test_dask_scheduler_that_does_not_answer_is_named(monkeypatch):
    """A wrong address is one line after some seconds."""
    pytest.importorskip("distributed", reason="dask is not installed")
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:1", "nonsense://"):
        with pytest.raises(TrainingError, match="no Dask scheduler answers") as caught:
            workers("dask", address=address).__enter__()
        assert "\n" not in str(caught.value)


@pytest.mark.ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_ray_head_that_does_not_answer_is_named(address):
    """A wrong address is one line at once."""
    pytest.importorskip("ray", reason="ray is not installed")
    with pytest.raises(TrainingError, match="no Ray cluster answers"):
        workers("ray", address=address).__enter__()


def test_a_worker_without_the_folder_says_so(tmp_path):
    """A task whose folder shows no sweep is refused, not trained somewhere else."""
    task = Task("a", (tiny(),), str(tmp_path), "token", None, 64, "cpu")
    outcome = work(task)
    assert "must be on a file system that all workers share" in outcome.error
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def dask(tmp_path):
    """Start a Dask cluster of two processes; give its address."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        local_directory=tmp_path / "dask",
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def ray(tmp_path, monkeypatch):
    """Start a Ray cluster of two processors; give its address."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))  # of this cluster, for the sweep
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the workers
    module = pytest.importorskip("ray", reason="ray is not installed")
    module.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20,
                logging_level="ERROR")  # fmt: skip
    yield module.get_runtime_context().gcs_address
    module.shutdown()


@pytest.mark.dask
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the cluster's own code
def test_dask_cluster_writes_the_same_rows(tmp_path, dask):
    """A sweep on Dask workers has the rows of a local one."""
    check_same(tmp_path, "--backend", "dask", "--address", dask)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the cluster's own code
def test_ray_cluster_writes_the_same_rows(tmp_path, ray):
    """A sweep on Ray workers has the rows of a local one."""
    check_same(tmp_path, "--backend", "ray", "--address", ray)
