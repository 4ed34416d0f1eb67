"""The same run is the same in every sink: rows, settings, validations."""

import pandas as pd
import pytest

from tests.reading import curve, read
from tests.sinks_zoo import SINKS, every_sink
from tests.zoo import AFTER, reward

SETTINGS = {"framework": "verl", "batch_size": 32, "group_size": 4, "lr": 1e-6, "clip_low": 0.2,
            "clip_dual": 3.0, "optimizer_steps_per_rollout": 2, "clip_active": "yes",
            "kl_coef": 0.0, "task": "gsm8k/train", "model": "org/tiny"}  # fmt: skip


@pytest.mark.parametrize("sink", SINKS)
def test_a_run_is_the_same_in_every_sink(tmp_path, sink):
    """Counting, settings with the seed, validations and rewards do not depend on where they lie."""
    runs = read(tmp_path, SINKS[sink](7))
    (run,) = runs.runs.to_dict("records")
    assert {name: run[name] for name in SETTINGS} == SETTINGS
    assert run["seed"] == 7
    assert curve(runs) == AFTER
    assert runs.steps["responses"].tolist() == [32 * k for k in range(1, 9)]
    assert runs.steps["reward"].round(6).tolist() == [reward(k, 7) for k in range(1, 9)]
    assert runs.evals["metric"].unique().tolist() == ["val-core/gsm8k/acc/mean@1"]


def test_all_sinks_in_one_folder_are_as_many_runs(tmp_path):
    """Seeds differ, so nothing is joined; every run has its own settings."""
    runs = read(tmp_path, every_sink())
    assert sorted(runs.runs["seed"]) == list(range(10, 10 + len(SINKS)))
    assert (runs.runs["batch_size"] == 32).all()
    assert not runs.refused


def test_one_run_in_all_sinks_is_one_run(tmp_path):
    """Nineteen copies of one run, in as many formats, count once."""
    files = {f"{name}/{file}": content for name, make in SINKS.items()
             for file, content in make(7).items()}  # fmt: skip
    runs = read(tmp_path, files)
    assert len(runs.runs) == 1
    alone = read(tmp_path.with_name("alone"), SINKS["verl-file"](7))
    names = ["responses", "rollout", "reward", "grad_norm", "entropy", "loss", "lr"]
    pd.testing.assert_frame_equal(runs.steps[names], alone.steps[names], rtol=1e-6)
