"""Settings and counters that cannot be, or do not divide, are named and never counted with."""

import json

import pytest

from tests.reading import codes, curve, note, read

SETTINGS = {
    "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4,
    "steps_per_generation": 4, "num_iterations": 1, "learning_rate": 1e-6, "world_size": 2,
}  # fmt: skip


def trl(steps, **settings):
    """Return the files of a TRL run with its configuration beside it."""
    rows = [{"step": s, "reward": 0.5, "reward_std": 0.1} for s in range(1, steps + 1)]
    rows.append({"step": steps, "eval_rewards/accuracy/mean": 0.5})
    state = json.dumps({"global_step": steps, "log_history": rows})
    return {
        "out/checkpoint-12/trainer_state.json": state,
        "out/config.json": json.dumps({**SETTINGS, **settings}),
    }


def test_rollouts_that_end_within_an_optimizer_step_count_exactly(tmp_path):
    """Six micro-batches a generation and four a step: 12 steps are 8 generations of 96."""
    runs = read(tmp_path, trl(12, steps_per_generation=6))
    assert runs.runs["batch_size"].tolist() == [96]
    assert runs.evals["responses"].tolist() == [8 * 96]
    assert "1.5 optimizer steps" in note(runs, "uneven_steps").message


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_iterations", 0), ("gradient_accumulation_steps", 0), ("steps_per_generation", -1),
     ("seed", -1), ("learning_rate", 0), ("learning_rate", -1), ("beta", -0.1)],
)  # fmt: skip
def test_a_setting_outside_its_range_is_named_and_not_used(tmp_path, name, value):
    """What a user may not give is not taken from a configuration either."""
    runs = read(tmp_path, trl(12, **{name: value}), lr=1e-6)
    assert f"is '{value}'" in note(runs, "odd_setting").message
    assert runs.evals["responses"].tolist() == [12 * 64]
    assert runs.runs["seed"].isna().all()


def test_a_count_of_responses_that_begins_anew_is_not_believed(tmp_path):
    """After a resume a trainer may count from 0 again: responses never run backwards."""
    rows = [{"step": s, "reward": 0.5, "responses": (s if s < 6 else s - 5) * 8}
            for s in range(1, 11)]  # fmt: skip
    runs = read(tmp_path, {"m.jsonl": "".join(json.dumps(row) + "\n" for row in rows)},
                batch_size=8)  # fmt: skip
    assert runs.steps["responses"].tolist() == [8 * s for s in range(1, 11)]
    assert "count_falls" in codes(runs)


@pytest.mark.parametrize("values", [[12.0, 14.0, 0.15, 0.16], [0.12, 0.14, 15.0, 16.0]])
def test_a_unit_that_changes_within_a_run_is_told(tmp_path, values):
    """A percentage next to a fraction is a doubt, whichever comes first."""
    rows = [{"step": s, "val_acc": value} for s, value in enumerate(values, start=1)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"m.jsonl": text}, batch_size=8)
    assert note(runs, "mixed_units").count == 1


@pytest.mark.parametrize("first", [0, 1])
def test_validations_without_the_trainers_step_count_where_they_stand(tmp_path, first):
    """A logger's step counts its calls: a validation that has no other is placed by its row."""
    rows = [{"_step": 0, "val_acc": 0.1}]
    for s in range(4):
        rows.append({"_step": len(rows), "train/global_step": s + first, "reward": 0.1 * s})
        if s % 2:
            rows.append({"_step": len(rows), "val_acc": 0.1 * s})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"m.jsonl": text}, batch_size=8)
    assert runs.steps["responses"].tolist() == [8, 16, 24, 32]
    assert curve(runs) == [(0, 0.1), (16, 0.1), (32, 0.3)]
    assert "3 validations have no train/global_step" in note(runs, "step_key").message


def test_a_batch_size_that_the_user_gives_is_the_one_that_counts(tmp_path):
    """Four generations of 16 make one optimizer step: who gives 64 means the 64 of that step."""
    derived = read(tmp_path / "1", trl(12, steps_per_generation=1))
    given = read(tmp_path / "2", trl(12, steps_per_generation=1), batch_size=64)
    assert derived.runs["batch_size"].tolist() == given.runs["batch_size"].tolist() == [64]
    assert given.evals["responses"].tolist() == [12 * 64]


def test_a_negative_seed_of_the_rows_is_none(tmp_path):
    """Two runs with a seed of -1 are not one seed."""
    rows = "step,val_acc,seed\n" + "".join(f"{s},0.{s}{{}},-1\n" for s in range(1, 5))
    runs = read(tmp_path, {"a.csv": rows.replace("{}", "1"), "b.csv": rows.replace("{}", "2")},
                batch_size=8)  # fmt: skip
    assert runs.runs["seed"].isna().all()
    assert "odd_setting" in codes(runs)
