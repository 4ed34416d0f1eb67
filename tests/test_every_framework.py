"""A run of every framework is right about batch size, responses, validation, clipping and seed."""

import pytest

from tests.reading import codes, read
from tests.zoo import FRAMEWORKS, every_framework, reward

UNCLIPPED = {"tinker-cookbook": "no", "torchtune": "no", "prime-rl": "yes"}
STEPS = {"prime-rl": 1, "torchtune": 1}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_run_is_counted_as_its_framework_counts(tmp_path, name):
    """Prompts become responses, steps rollouts from 1, and validations stand where they were."""
    write, validations = FRAMEWORKS[name]
    options = {"world_size": 1} if name == "torchtune" else {}
    runs = read(tmp_path, write(seed=3), **options)
    (run,) = runs.runs.to_dict("records")
    assert run["framework"] == name
    assert (run["batch_size"], run["group_size"], run["prompts_per_rollout"]) == (32, 4, 8)
    assert run["optimizer_steps_per_rollout"] == STEPS.get(name, 2)
    assert (run["lr"], run["seed"]) == (1e-6, 3)
    assert run["clip_active"] == UNCLIPPED.get(name, "yes")
    evals = [(int(r), round(float(a), 4)) for r, a in
             zip(runs.evals["responses"], runs.evals["accuracy"], strict=True)]  # fmt: skip
    assert evals == validations
    scored = runs.steps[runs.steps["reward"].notna()]
    expected = {32 * k: reward(k, 3) * (10 if name == "open-instruct" else 1) for k in range(1, 9)}
    assert dict(zip(scored["responses"], scored["reward"].round(4), strict=True)) == pytest.approx(
        expected
    )
    assert not codes(runs) & {"repeated_steps", "left_truncated", "missing_lr", "same_run_twice"}


def test_all_of_them_in_one_folder_stay_themselves(tmp_path):
    """Twelve frameworks under one folder are twelve runs, each with its own configuration."""
    runs = read(tmp_path, every_framework(), world_size=1)
    assert sorted(runs.runs["framework"]) == sorted(FRAMEWORKS)
    assert (runs.runs["batch_size"] == 32).all()
    assert not runs.refused
