import json
import math

import pandas as pd
import pytest

from tests.reading import codes, curve, read, reasons
from twoclock.errors import NoUsableRuns
from twoclock.runlog import create_run
from twoclock.runs import read_runs


def native(folder, name="a", run=None, rows=()):
    """Write a native run with the package's own writer."""
    given = {"batch_size": 64, "seed": 0, "lr": 1e-5} if run is None else run
    with create_run(folder / name, given) as log:
        for row in rows:
            (log.eval if "accuracy" in row else log.train)(row)
        log.finish("completed")


ROWS = (
    {"rollout": 0, "responses": 0, "accuracy": 0.2, "n": 500},
    {"rollout": 1, "responses": 64, "reward": 0.3, "loss": 0.1, "lr": 1e-5},
    {"rollout": 2, "responses": 128, "reward": 0.4, "loss": math.nan, "lr": 1e-5},
    {"rollout": 2, "responses": 128, "accuracy": 0.5, "n": 500},
)


def test_a_written_run_is_read_back(tmp_path):
    """What the writer wrote stands in the tables, with its non-finite values named."""
    native(tmp_path, rows=ROWS)
    runs = read_runs(tmp_path)
    row = runs.runs.iloc[0]
    assert (row["run_id"], row["batch_size"], row["seed"], row["lr"]) == ("a", 64, 0, 1e-5)
    assert (row["framework"], row["ended"], row["batch_size_from"]) == (
        "twoclock", "completed", "config",
    )  # fmt: skip
    assert curve(runs) == [(0, 0.2), (128, 0.5)]
    assert runs.evals["n"].tolist() == [500, 500]
    assert runs.steps["responses"].tolist() == [64, 128]
    assert runs.steps["rollout"].tolist() == [1, 2]
    assert runs.steps["nonfinite"].isna().tolist() == [True, False]
    assert runs.steps["nonfinite"][1] == "loss"


def test_a_compressed_run_equals_a_plain_one(tmp_path):
    """metrics.jsonl.gz gives the same tables as metrics.jsonl."""
    native(tmp_path / "x", rows=ROWS)
    plain = read_runs(tmp_path / "x")
    with create_run(tmp_path / "y" / "a", {"batch_size": 64, "seed": 0, "lr": 1e-5}) as log:
        for row in ROWS:
            (log.eval if "accuracy" in row else log.train)(row)
        log.finish("completed", compress=True)
    packed = read_runs(tmp_path / "y")
    pd.testing.assert_frame_equal(plain.steps, packed.steps)
    pd.testing.assert_frame_equal(plain.evals, packed.evals)


def test_null_clips_mean_none_and_an_absent_key_means_unknown(tmp_path):
    """A null clip is no clip (inf), so clipping cannot act; an absent one stays missing."""
    off = {"batch_size": 64, "clip_low": None, "clip_high": None, "clip_dual": None}
    native(tmp_path, "off", off, ROWS)
    native(tmp_path, "unknown", {"batch_size": 64}, ROWS)
    runs = read_runs(tmp_path).runs.set_index("run_id")
    assert runs.loc["off", "clip_high"] == math.inf
    assert runs.loc["off", "clip_active"] == "no"
    assert math.isnan(runs.loc["unknown", "clip_high"])
    assert runs.loc["unknown", "clip_active"] == "unknown"


def test_one_optimizer_step_a_rollout_cannot_clip(tmp_path):
    """K = 1 in a synchronous trainer: clip_active is no, whatever epsilon is."""
    clipped = {"batch_size": 64, "clip_low": 0.2, "clip_high": 0.2}
    native(tmp_path, "k1", {**clipped, "minibatches": 1, "epochs": 1}, ROWS)
    native(tmp_path, "k8", {**clipped, "minibatches": 8, "epochs": 1}, ROWS)
    runs = read_runs(tmp_path).runs.set_index("run_id")
    assert runs["clip_active"].to_dict() == {"k1": "no", "k8": "yes"}
    assert runs["optimizer_steps_per_rollout"].to_dict() == {"k1": 1, "k8": 8}


def test_several_metrics_stay_apart(tmp_path):
    """Validations of two metrics are two series, never mixed."""
    rows = [
        {"rollout": r, "responses": 64 * r, "accuracy": a, "metric": m}
        for r, m, a in [(0, "easy", 0.5), (0, "hard", 0.1), (1, "easy", 0.6), (1, "hard", 0.2)]
    ]
    native(tmp_path, rows=rows)
    runs = read_runs(tmp_path)
    assert curve(runs, metric="easy") == [(0, 0.5), (64, 0.6)]
    assert curve(runs, metric="hard") == [(0, 0.1), (64, 0.2)]


def test_a_torn_last_line_costs_one_row(tmp_path):
    """Case 6: a killed run loses its cut line and nothing else."""
    native(tmp_path, rows=ROWS)
    path = tmp_path / "a" / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    runs = read_runs(tmp_path)
    assert curve(runs) == [(0, 0.2)]
    assert "cut_line" in codes(runs)


def test_a_copied_folder_counts_once_and_another_seed_does_not(tmp_path):
    """Case 106: an identical copy is no second seed; equal numbers under another seed are."""
    native(tmp_path, "one", rows=ROWS)
    native(tmp_path, "copy", rows=ROWS)
    native(tmp_path, "two", {"batch_size": 64, "seed": 1, "lr": 1e-5}, ROWS)
    runs = read_runs(tmp_path)
    assert len(runs.runs) == 2
    assert "duplicate_run" in codes(runs)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ('{"format": "other/1"}', "must be 'twoclock-run/1'"),
        (json.dumps({"format": "twoclock-run/1"}), "no metrics.jsonl"),
    ],
)
def test_a_damaged_run_json_is_refused_by_name(tmp_path, content, reason):
    """A run folder that cannot be read is named with what is wrong."""
    with pytest.raises(NoUsableRuns, match=reason):
        read(tmp_path, {"a/run.json": content})


def test_extra_scalars_of_run_json_can_be_strata(tmp_path):
    """A scalar that the schema does not know stays as a column of `runs`."""
    native(tmp_path, run={"batch_size": 64, "temperature": 0.7}, rows=ROWS)
    assert read_runs(tmp_path).runs["temperature"].tolist() == [0.7]


def test_a_run_folder_is_one_run_and_its_neighbours_are_read_too(tmp_path):
    """The metrics of a run folder are not read a second time as a plain file."""
    native(tmp_path, rows=ROWS)
    runs = read(tmp_path, {"b/metrics.csv": "step,val_acc\n0,.1\n1,.2\n"}, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["a", "b"]
    assert reasons(runs) == {}


def test_metrics_without_run_json_are_still_told_apart(tmp_path):
    """A metrics.jsonl alone is read as rows; two metrics in it are ambiguous, never mixed."""
    row = '{{"kind":"eval","rollout":{0},"responses":{1},"metric":"{2}","accuracy":{3}}}\n'
    one = row.format(0, 0, "accuracy", 0.1) + row.format(1, 64, "accuracy", 0.2)
    assert curve(read(tmp_path / "one", {"metrics.jsonl": one}, batch_size=64)) == [
        (0, 0.1), (64, 0.2),
    ]  # fmt: skip
    two = row.format(1, 64, "easy", 0.9) + row.format(1, 64, "hard", 0.1)
    with pytest.raises(NoUsableRuns, match="eval/easy, eval/hard"):
        read(tmp_path / "two", {"metrics.jsonl": two}, batch_size=64)
