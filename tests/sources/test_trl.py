"""TRL and unsloth states: cases 1, 4, 53, 54, 56 and the real ones in the shared folder."""

import json

import pytest

from tests.reading import SHARED, codes, curve, note, read, reasons
from twoclock.errors import NoUsableRuns
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs

NAN_STATE = """{"best_metric": -Infinity, "global_step": 4, "logging_steps": 1, "log_history": [
 {"step":1,"loss":0.11,"grad_norm":0.2,"reward":0.30},{"step":2,"loss":0.09,"grad_norm":0.3,"reward":0.34},
 {"step":3,"loss":NaN,"grad_norm":NaN,"reward":0.0},{"step":4,"loss":NaN,"grad_norm":NaN,"reward":0.0}]}
"""


def state(steps, *, logging_steps=10, extra=(), **settings):
    """Return a trainer_state.json with a row at each step."""
    history = [
        {"step": s, "loss": 0.1, "reward": s / 1000, "learning_rate": 1e-6} for s in steps
    ] + list(extra)
    return json.dumps(
        {"global_step": max(steps), "logging_steps": logging_steps, "log_history": history}
        | settings
    )


def yaml_for(**facts):
    """Return a runs.yaml that gives facts for every log."""
    return json.dumps([{"path": "*", **facts}])


def test_bare_nan_rows_are_all_read(tmp_path):
    """Case 1: four rows, non-finite from step 3; -Infinity in an unused key is ignored."""
    runs = read(tmp_path, {"run/checkpoint-4/trainer_state.json": NAN_STATE}, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["run"]
    assert runs.steps["responses"].tolist() == [8, 16, 24, 32]
    assert runs.steps["nonfinite"].fillna("").tolist() == ["", "", *["grad_norm,loss"] * 2]


def test_validation_rows_are_their_own(tmp_path):
    """Case 4: rows without loss are validations, whatever their parity."""
    history = [
        {"step": 10, "loss": 0.2}, {"step": 10, "eval_acc": 0.31}, {"step": 20, "loss": 0.1},
        {"step": 30, "loss": 0.1}, {"step": 30, "eval_acc": 0.44},
    ]  # fmt: skip
    files = {"run/trainer_state.json": json.dumps({"log_history": history})}
    runs = read(tmp_path, files, batch_size=1)
    assert curve(runs) == [(10, 0.31), (30, 0.44)]
    assert runs.steps["nonfinite"].isna().all()


@pytest.mark.parametrize(
    ("facts", "batch_size", "steps_per_rollout", "responses"),
    [
        (
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "world_size": 3,
             "num_generations": 6, "num_iterations": 1},
            24, 1, 2400,
        ),
        (
            {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "world_size": 4,
             "num_iterations": 4},
            64, 4, 1600,
        ),
        (
            {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "world_size": 3},
            48, 1, 4800,
        ),
        ({"generation_batch_size": 32, "gradient_accumulation_steps": 2,
          "steps_per_generation": 8}, 32, 4, 800),
        ({"generation_batch_size": 32, "gradient_accumulation_steps": 2,
          "steps_per_generation": 1}, 64, 1, 6400),
    ],
    ids=["case-53", "case-54", "case-56", "many-steps", "many-generations"],
)  # fmt: skip
def test_responses_at_step_100(tmp_path, facts, batch_size, steps_per_rollout, responses):
    """Cases 53, 54, 56: completions per device x processes x accumulation, re-use adds none."""
    files = {
        "run/trainer_state.json": state(range(10, 101, 10)),
        "runs.yaml": yaml_for(**facts),
    }
    runs = read(tmp_path, files)
    row = runs.runs.iloc[0]
    assert row["batch_size"] == batch_size
    assert row["optimizer_steps_per_rollout"] == steps_per_rollout
    assert runs.steps["responses"].iloc[-1] == responses
    assert runs.steps["optimizer_step"].iloc[-1] == 100


def test_an_unknown_number_of_processes_is_asked_for(tmp_path):
    """Case 56: the batch of one device is no batch size; the remedy is named."""
    facts = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    files = {"run/trainer_state.json": state([10, 20]), "runs.yaml": yaml_for(**facts)}
    with pytest.raises(NoUsableRuns, match="--batch-size"):
        read(tmp_path, files)
    runs = read_runs(tmp_path, ReadOptions(world_size=3))
    assert runs.runs["batch_size"].tolist() == [48]


def test_prompts_counted_as_completions_are_found_out(tmp_path):
    """A per-device batch that no group fits into is refused instead of counted wrongly."""
    facts = {"gradient_accumulation_steps": 1, "world_size": 1, "num_generations": 6}
    files = {
        "run/trainer_state.json": state([1, 2], train_batch_size=1),
        "runs.yaml": yaml_for(**facts),
    }
    with pytest.raises(NoUsableRuns, match="no multiple of the group size 6"):
        read(tmp_path, files)


def test_steps_per_rollout_show_in_the_rewards(tmp_path):
    """With logging at every step, a reward at every fourth step means four steps a rollout."""
    history = [{"step": s, "loss": 0.1} | ({"reward": 0.5} if s % 4 == 1 else {}) for s in
               range(1, 101)]  # fmt: skip
    text = json.dumps({"global_step": 100, "logging_steps": 1, "log_history": history})
    runs = read(tmp_path, {"run/trainer_state.json": text}, batch_size=64)
    assert runs.runs["optimizer_steps_per_rollout"].tolist() == [4]
    assert runs.steps["responses"].iloc[-1] == 1600
    assert runs.steps["rollout"].tolist() == list(range(1, 26))
    assert runs.steps["reward"].notna().all()
    assert runs.steps["nonfinite"].isna().all()


def test_an_assumed_step_per_rollout_is_told_and_clips_nothing_away(tmp_path):
    """When nothing tells the steps of a rollout, one is assumed aloud and clipping is unknown."""
    runs = read(tmp_path, {"run/trainer_state.json": state([10, 20])}, batch_size=64)
    assert "assumed_steps_per_rollout" in codes(runs)
    assert runs.runs["clip_active"].tolist() == ["unknown"]


def test_checkpoints_of_one_run_are_one_run(tmp_path):
    """Of cumulative states the one with the most steps is read; the earlier is a copy."""
    files = {
        "run/checkpoint-100/trainer_state.json": state(range(10, 101, 10)),
        "run/checkpoint-50/trainer_state.json": state(range(10, 51, 10)),
        "other/checkpoint-50/trainer_state.json": state(range(5, 51, 5)),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["other", "run"]
    assert runs.steps["responses"].max() == 800
    assert "checkpoint-50" in note(runs, "earlier_checkpoint").where


def test_checkpoints_that_disagree_are_told(tmp_path):
    """An earlier state with other numbers is not read and named."""
    files = {
        "run/checkpoint-100/trainer_state.json": state(range(10, 101, 10)),
        "run/checkpoint-50/trainer_state.json": state(range(5, 51, 5)),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert len(runs.runs) == 1
    assert "disagrees" in note(runs, "checkpoints_disagree").message


def test_a_validation_reward_is_a_score_until_a_key_is_named(tmp_path):
    """`eval_reward` is a sum of functions: a score; a correctness function is an accuracy."""
    extra = [{"step": 20, "eval_reward": 0.9, "eval_rewards/correct/mean": 0.5, "eval_loss": 0.0}]
    files = {"run/trainer_state.json": state([10, 20], extra=extra)}
    runs = read(tmp_path, files, batch_size=8)
    assert runs.evals["scale"].tolist() == ["score"]
    named = {"accuracy": ("eval_rewards/correct/mean",)}
    runs = read(tmp_path, files, batch_size=8, map=named, scale={"accuracy": 0.5})
    assert runs.evals["scale"].tolist() == ["accuracy"]
    assert curve(runs) == [(160, 0.25)]


def test_an_export_is_counted_as_trl_when_told_so(tmp_path):
    """A table of TRL keys says nothing of its framework; runs.yaml does, and steps follow."""
    text = "train/global_step,train/reward\n4,.1\n8,.2\n"
    facts = {"framework": "trl", "batch_size": 64, "optimizer_steps_per_rollout": 4}
    runs = read(tmp_path, {"r.csv": text, "runs.yaml": yaml_for(**facts)})
    assert runs.steps["responses"].tolist() == [64, 128]
    assert runs.steps["optimizer_step"].tolist() == [4, 8]


def test_a_state_without_rows_is_no_data(tmp_path):
    """A crash before the first log leaves a file that is named."""
    runs = read(
        tmp_path,
        {
            "a/trainer_state.json": json.dumps({"log_history": []}),
            "b/trainer_state.json": state([10]),
        },
        batch_size=8,
    )
    assert runs.runs["run_id"].tolist() == ["b"]
    assert "no data" in reasons(runs)["trainer_state.json"]


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared real logs are not here")


@shared
def test_the_real_cumulative_pair_is_one_run():
    """Two states of one run: 500 steps, the smaller one named as a copy."""
    paths = [SHARED / f"trl-checkpoint-{n}-trainer_state.json" for n in (100, 500)]
    runs = read_runs(paths, ReadOptions(batch_size=40))
    assert len(runs.runs) == 1
    assert len(runs.steps) == 50
    assert runs.steps["responses"].max() == 20_000
    assert "earlier_checkpoint" in codes(runs)


@shared
def test_the_real_unsloth_state():
    """250 steps of 6 responses, peak rate 5e-6; asked for by name without an option."""
    path = SHARED / "trl-unsloth-trainer_state-250.json"
    with pytest.raises(NoUsableRuns, match=r"batch_size in runs\.yaml"):
        read_runs(path)
    runs = read_runs(path, ReadOptions(batch_size=6, group_size=6))
    row = runs.runs.iloc[0]
    assert (row["lr"], row["optimizer_steps_per_rollout"], row["ended"]) == (5e-6, 1, "completed")
    assert runs.steps["responses"].max() == 1500
    assert runs.steps["response_tokens"].notna().all()


def test_rewards_of_an_evaluation_are_no_training_rewards(tmp_path):
    """Some versions log an evaluation's rewards under the training's names, beside `eval_loss`."""
    rows = [
        {"step": 1, "loss": 0.1, "reward": 0.2, "reward_std": 0.1, "rewards/right/mean": 0.2},
        {"step": 1, "eval_loss": 0.0, "eval_runtime": 9.0, "reward": 0.9,
         "rewards/right/mean": 0.9, "completions/mean_length": 40.0},
        {"step": 2, "loss": 0.1, "reward": 0.4, "reward_std": 0.1, "rewards/right/mean": 0.4},
    ]  # fmt: skip
    files = {"run/trainer_state.json": json.dumps({"log_history": rows})}
    runs = read(tmp_path, files, batch_size=8)
    assert runs.steps["reward"].tolist() == [0.2, 0.4]
    assert runs.evals["metric"].tolist() == ["eval_reward"]
    assert curve(runs) == [(8, 0.9)]


@pytest.mark.parametrize(("rewarded", "steps"), [((2, 6, 10), 4), ((2, 6), 4), ((2, 4, 6), 2)])
def test_rows_of_several_steps_tell_the_steps_of_a_rollout(tmp_path, rewarded, steps):
    """Every second row of two steps has a reward: 4 steps a rollout; too few rows say nothing."""
    history = [
        {
            "step": s,
            "loss": 0.1,
            "learning_rate": 1e-6,
            **({"reward": 0.1} if s in rewarded else {}),
        }
        for s in range(2, max(rewarded) + 1, 2)
    ]
    text = json.dumps({"logging_steps": 2, "global_step": 10, "log_history": history})
    runs = read(tmp_path, {"run/trainer_state.json": text}, batch_size=8)
    exact = len(rewarded) == 3 and steps == 4
    assert ("assumed_steps_per_rollout" in codes(runs)) == (not exact)
    assert runs.runs["optimizer_steps_per_rollout"].tolist() == [4 if exact else 1]
