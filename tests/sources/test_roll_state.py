"""ROLL's states: rows without a step stand in order, and are no log of TRL."""

import json

import pytest

from tests.reading import codes, curve, read
from tests.zoo import AFTER, accuracy, reward, roll


def rows(steps, **more):
    """Return the metrics of some steps."""
    out = []
    for step in steps:
        row = {"critic/score/mean": reward(step + 1, 3), "actor/ppo_ratio_clipfrac": 0.001,
               "actor/lr": 1e-6, "time/step_total": 9.0, **more}  # fmt: skip
        if step % 4 == 0:
            row["val_correct/all/mean"] = accuracy(step)
        out.append(row)
    return out


def state(last, history):
    """Return the text of a state."""
    return json.dumps({"step": last, "log_history": history, "kv": {}})


def settings():
    """Return the configuration beside it."""
    return {"config.yaml": roll(seed=3)["config.yaml"]}


def test_rows_are_counted_from_the_first_step(tmp_path):
    """Eight rows are the steps 0 to 7; a validation stands before the update of its step."""
    files = {"checkpoint-7/worker_state_pipeline.json": state(7, rows(range(8)))}
    runs = read(tmp_path, files | settings())
    assert runs.runs[["framework", "batch_size", "seed"]].values.tolist() == [["roll", 32, 3]]
    assert curve(runs) == AFTER[:2]
    assert runs.steps["responses"].tolist() == [32 * k for k in range(1, 9)]


def test_a_state_that_lost_its_first_rows_counts_from_its_own_step(tmp_path):
    """The last row is the step of the state, however many rows there are."""
    files = {"worker_state_pipeline.json": state(7, rows(range(4, 8)))}
    runs = read(tmp_path, files | settings())
    assert runs.steps["rollout"].tolist() == [5, 6, 7, 8]


def test_states_of_two_checkpoints_are_one_run(tmp_path):
    """A state repeats the history of the ones before it."""
    files = {f"checkpoint-{n}/worker_state_pipeline.json": state(n, rows(range(n + 1)))
             for n in (3, 7)}  # fmt: skip
    runs = read(tmp_path, files, batch_size=32)
    assert runs.steps["rollout"].max() == 8
    assert len(runs.runs) == 1
    assert "earlier_checkpoint" in codes(runs)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_cut_state_keeps_its_complete_rows(tmp_path, cut):
    """What stands before the cut is read, and the cut is told."""
    text = state(7, rows(range(8)))
    ends = [at + 1 for at in range(len(text)) if text[at] == "}" and text[at - 1] not in "{}"]
    runs = read(tmp_path, {"worker_state_x.json": text[: ends[cut] + 5]}, batch_size=32)
    assert runs.steps["rollout"].tolist() == list(range(1, cut + 2))
    assert "cut_file" in codes(runs)
