"""ms-swift: `logging.jsonl`, whose last line holds a whole state."""

import json

import pytest

from tests.reading import codes, curve, read
from twoclock.sources.swift import progress


def rows(planned, steps, **summary):
    """Return the lines of a run that trains at each step, validates at 4 and then sums up."""
    made = [
        {"loss": 0.1, "reward": s / 100, "reward_std": 0.2, "learning_rate": 1e-6,
         "rewards/Right/mean": 0.3, "epoch": s / 10, "global_step/max_steps": f"{s}/{planned}",
         "percentage": "1.00%", "elapsed_time": "6s", "memory(GiB)": 15.9}
        for s in steps
    ]  # fmt: skip
    made.append({"eval_reward": 0.7, "eval_runtime": 3.0, "global_step/max_steps": f"4/{planned}"})
    if summary:
        made.append({"train_runtime": 9.0, "global_step/max_steps": f"{steps[-1]}/{planned}"})
        made.append(summary)
    return "".join(json.dumps(row) + "\n" for row in made)


SUMMARY = {
    "val_dataset": "286.8±101.8, min=112, max=969, size=1986",
    "model_parameter_info": "Model: 1M Params",
    "global_step": 4,
    "log_history": [{"loss": 0.1, "reward": 0.01, "step": 1}],
}


def test_every_line_counts_and_the_summary_is_none(tmp_path):
    """Steps come from "4/4"; the state in the last line neither replaces the rows nor adds one."""
    files = {"v0/logging.jsonl": rows(4, [1, 2, 3, 4], **SUMMARY)}
    runs = read(tmp_path, files, batch_size=8)
    assert runs.steps["responses"].tolist() == [8, 16, 24, 32]
    assert curve(runs) == [(32, 0.7)]
    assert runs.runs["ended"].tolist() == ["completed"]
    assert runs.runs["framework"].tolist() == ["trl"]
    assert not codes(runs) & {"cut_file", "cut_line", "bad_lines", "rows_without_step"}


def test_arguments_beside_it_give_the_batch(tmp_path):
    """B is the batch of a device times processes times accumulation, all of them in args.json."""
    args = {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 8,
        "global_world_size": 2, "learning_rate": 1e-6, "epsilon": 0.2, "seed": 42,
        "max_completion_length": 512, "max_steps": -1,
    }  # fmt: skip
    files = {"v0/logging.jsonl": rows(100, [1, 2]), "v0/args.json": json.dumps(args)}
    run = read(tmp_path, files).runs.iloc[0]
    assert (run["batch_size"], run["group_size"], run["seed"]) == (16, 8, 42)
    assert run["ended"] == "unknown"


def test_a_state_on_one_line_is_still_a_state(tmp_path):
    """A minified trainer_state.json under another name is read as a state, not as one row."""
    history = [{"step": s, "loss": 0.1, "reward": s / 10} for s in (1, 2)]
    state = {"global_step": 2, "log_history": history}
    runs = read(tmp_path, {"state.json": json.dumps(state)}, batch_size=8)
    assert runs.steps["responses"].tolist() == [8, 16]


@pytest.mark.parametrize("value", ["10", "a/b", "1/2/3", "-1/5", "1.5/3", "nan/5", 10, None, "/"])
def test_what_is_no_progress_gives_no_step(value):
    """Anything but two whole numbers around one slash is no step."""
    assert progress(value) == (None, 0)
