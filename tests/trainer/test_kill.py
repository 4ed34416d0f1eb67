"""Sweeps that are killed by SIGKILL and started again lose nothing and change nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainer.conftest import untimed
from tests.trainer.kill_driver import PAIR, STUDY
from twoclock.trainer import load_study
from twoclock.trainer.locks import own_sweep

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def drive(*arguments):
    """Run the script that kills sweeps."""
    call = [sys.executable, "-m", "tests.trainer.kill_driver", *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, env=ENVIRONMENT, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]


def left_over(out):
    """List what only an unfinished sweep has: checkpoints, locks, files half written."""
    ends = (".pt", ".new", ".tmp", ".lock", ".jsonl", ".token", ".owner")
    files = [p for p in out.rglob("*") if p.name.endswith(ends) or "progress-" in p.name]
    return [p for p in files if p.name != "sweep.lock"]


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_no_row(tmp_path):
    """Every run of the killed sweep has the rows of the uninterrupted one."""
    drive("moments", tmp_path / "cut", 1)
    for member in STUDY.members:
        whole, cut = (
            untimed(tmp_path / name / "runs" / member.run_id) for name in ("whole", "cut")
        )
        assert cut == whole
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_a_kill_before_any_file_operation_changes_no_row(tmp_path):
    """Each step on files is a moment from which a sweep can go on."""
    drive("operations", tmp_path)
    tries = sorted(p for p in tmp_path.iterdir() if p.name != "base")
    assert len(tries) > 40
    for member in PAIR.members:
        whole = untimed(tmp_path / "base" / "runs" / member.run_id)
        for out in tries:
            assert untimed(out / "runs" / member.run_id) == whole, out.name
    assert left_over(tmp_path) == []


STUDY_FILE = """
[grid]
batch_sizes = [32]
base_lrs = [1e-3, 3e-4]
seeds = [0, 1]
responses = [40_000, 30_000]
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


def start_sweep(tmp_path):
    """Start a sweep of two crews in two processes; return it when both have begun to log."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY_FILE)
    call = [sys.executable, "-m", "twoclock", "sweep", study, "--jobs", 2, "--crew-size", 2,
            "--checkpoint-every", 320]  # fmt: skip
    process = subprocess.Popen(list(map(str, call)), env=ENVIRONMENT, stderr=subprocess.PIPE)
    until(lambda: len(list(tmp_path.rglob("checkpoint.pt"))) == 4, process)
    return process


def until(condition, process, seconds=300):
    """Wait until something is so, at most so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, process.communicate(timeout=5)[1].decode()[-2000:]
        time.sleep(0.05)


def workers_of(process):
    """List the processes below `process`."""
    children = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(after_name[1]), []).append(int(status.parent.name))
    found, waiting = [], [process.pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def sizes(tmp_path):
    """Return how long each log is."""
    return [path.stat().st_size for path in sorted(tmp_path.rglob("metrics.jsonl"))]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_killed_sweep_and_the_next_one_is_refused_only_while_it_runs(
    tmp_path, run
):
    """Nobody goes on writing, a lock of the dead is no obstacle, and rows continue."""
    process = start_sweep(tmp_path)
    busy = run("sweep", tmp_path / "study.toml", "--jobs", 1)
    assert busy[0] == 1
    assert f"a sweep runs here (process {process.pid} on" in busy[2]
    below = workers_of(process)
    assert len(below) >= 2
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), process, 60)
    before = sizes(tmp_path)
    time.sleep(1)
    assert sizes(tmp_path) == before
    code, _, error = run("sweep", tmp_path / "study.toml", "--dry-run", "--jobs", 1)
    assert code == 0
    assert "to resume" in error
    with own_sweep(tmp_path / ".cache"):
        pass


FULL = """
[grid]
batch_sizes = [32]
base_lrs = [1e-3]
seeds = [0]
responses = 3200
[train]
digits = 3
base_steps = 20
size = "small"
group_size = 4
minibatches = 2
eval_size = 100
[[variant]]
name = "long"
[[variant]]
name = "short"
gamma = 1.0
responses = 96
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_full_disk_costs_the_crew_that_met_it_only(tmp_path, run):
    """The others end, the error says what is kept, and with room again the rows are the same."""
    study = tmp_path / "study.toml"
    study.write_text(FULL)
    call = [sys.executable, "-m", "twoclock", "sweep", study, "--jobs", 1, "--quiet"]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 30; exec "$@"', "bash", *map(str, call)],  # 30 kB a file
        capture_output=True, text=True, env=ENVIRONMENT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"twoclock: {tmp_path}: File too large (1 of 2 crews failed; 1 of 2 runs"
    )
    assert line.endswith("mend the cause and give the same command again)")
    assert run("sweep", study, "--jobs", 1)[0] == 0
    assert run("sweep", study, "--jobs", 1, "--out", tmp_path / "whole")[0] == 0
    for member in load_study(study).members:
        cut, whole = (
            untimed(out / "runs" / member.run_id) for out in (tmp_path, tmp_path / "whole")
        )
        assert cut == whole
