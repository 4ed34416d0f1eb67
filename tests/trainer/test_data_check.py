"""The check of shipped studies finds what differs, and nothing else."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import data_check
from twoclock.trainer import SweepOptions, load_study, machine, run_sweep

ROOT = Path(__file__).parents[2]

STUDY = """
[grid]
batch_sizes = [32, 64]
base_lrs = [1e-3]
seeds = [0, 1]
responses = 512
[train]
digits = 3
noise = 0.3
base_steps = 200
size = "small"
group_size = 4
minibatches = 2
eval_size = 200
eval_every = 128
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Train a small study as one is shipped."""
    out = tmp_path_factory.mktemp("data") / "nested" / "study"
    out.mkdir(parents=True)
    (out / "study.toml").write_text(STUDY)
    run_sweep(load_study(out / "study.toml"), out, options=SweepOptions(jobs=1))
    return out


@pytest.fixture
def change(shipped, monkeypatch):
    """Return a function that changes the rows that the check reads of the shipped run."""

    def with_rows(edit):
        real = data_check.read_rows
        monkeypatch.setattr(
            data_check,
            "read_rows",
            lambda folder: edit(real(folder)) if shipped in folder.parents else real(folder),
        )

    return with_rows


@pytest.fixture
def _elsewhere(monkeypatch):
    """Let the study be made on another kind of machine."""
    other = replace(machine.this_machine(), processor="another")
    monkeypatch.setattr(data_check, "read_machines", lambda out: [other])


def scaled(name, factor):
    """Return an edit that multiplies a column of the train rows."""
    return lambda rows: [{**r, name: r[name] * factor} if r["kind"] == "train" else r for r in rows]


def test_only_averages_over_steps_may_differ_in_the_last_digit():
    """One in the fifth digit passes for an average over steps, more does not, and nothing else."""
    assert data_check.same("ratio_mean", 0.99879, 0.9988)
    assert not data_check.same("ratio_mean", 0.99879, 0.99883)
    assert not data_check.same("reward", 0.99879, 0.9988)
    assert not data_check.same("loss", None, 0.1)


def test_same_machine_same_rows(shipped, capsys):
    """What was just trained is found to be the same, exactly, wherever it lies below the folder."""
    assert data_check.main([str(shipped.parents[1]), "--responses", "512"]) == 0
    assert "exactly: same" in capsys.readouterr().out


def test_a_changed_value_is_named(shipped, change, capsys):
    """One digit of one row fails the check, with what it was and is."""
    change(scaled("grad_norm", 1.0001))
    assert data_check.main([str(shipped), "--responses", "512"]) == 1
    assert "DIFFERS: grad_norm at rollout 1 was" in capsys.readouterr().out


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("name", "factor", "fault"),
    [
        ("grad_norm", 1.0001, ""),
        ("reward", 1.01, ""),
        ("reward", 3.0, "mean reward was"),
        ("entropy", 1.2, "mean entropy was"),
    ],
)
def test_elsewhere_measures_must_agree(shipped, change, name, factor, fault):
    """On another machine last digits may differ, what is measured may not."""
    change(scaled(name, factor))
    verdict = data_check.check_study(shipped / "study.toml", 512)
    assert verdict.what.endswith("within tolerance (made on another kind of machine)")
    assert verdict.fault.startswith(fault)
    assert bool(verdict.fault) == bool(fault)


@pytest.mark.usefixtures("_elsewhere")
def test_elsewhere_the_start_must_agree(shipped, change):
    """The validation before training is of the same policy on the same problems."""
    change(lambda rows: [{**rows[0], "accuracy": rows[0]["accuracy"] + 0.02}, *rows[1:]])
    verdict = data_check.check_study(shipped / "study.toml", 512)
    assert verdict.fault.startswith("accuracy at 0 was")


def test_runs_and_file_must_agree(shipped, tmp_path):
    """A study file that says more or something else than the runs is found before training."""
    for old, new, fault in (
        ("seeds = [0, 1]", "seeds = [0, 7]", "B00032-lr0.001-s7 is missing"),
        ("noise = 0.3", "noise = 0.2", "noise was 0.3, is 0.2"),
    ):
        folder = tmp_path / new[-3:].strip("]")
        folder.mkdir()
        (folder / "runs").symlink_to(shipped / "runs")
        (folder / "study.toml").write_text(STUDY.replace(old, new))
        assert fault in data_check.check_study(folder / "study.toml", 512).fault
    assert data_check.main([str(tmp_path / "nothing")]) == 1


@pytest.mark.slow
def test_other_instructions_agree_within_the_tolerance(shipped):
    """Trained with the processor's oldest instructions, which round otherwise, it still passes."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-m", "tests.data_check", str(shipped), "--responses", "512"]
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=120)
    assert "another kind of machine" in done.stdout
    assert done.returncode == 0, done.stdout


def test_shipped_rows_are_what_is_compared(shipped):
    """The check reads the packed logs of the shipped runs."""
    (first, *_) = sorted((shipped / "runs").glob("B*/metrics.jsonl.gz"))
    rows = [json.loads(line) for line in gzip.decompress(first.read_bytes()).splitlines()]
    assert data_check.at_start(rows) == rows[0]["accuracy"]
