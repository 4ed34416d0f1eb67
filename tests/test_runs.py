"""The door: many files to tables. Groups B, C, F of the cases that plain tables can meet."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.reading import SHARED, codes, curve, note, read, reasons, write
from twoclock.cli.app import main
from twoclock.errors import NoUsableRuns, SettingsError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.schema import RUNS, STEPS


def table(*pairs):
    """Return a CSV of (step, accuracy) rows."""
    return "step,val_acc\n" + "".join(f"{s},{v}\n" for s, v in pairs)


def series(values, every=1):
    """Return JSON lines with a training row at each step."""
    return "".join(
        json.dumps({"step": i * every, "reward": v, "val_acc": v}) + "\n"
        for i, v in enumerate(values, start=1)
    )


# --- steps -------------------------------------------------------------------------------------


def test_the_trainers_counter_goes_before_the_loggers(tmp_path):
    """Case 13: `train/global_step` counts, `_step` does not, and the choice is told."""
    text = "_step,train/global_step,val/acc\n0,0,.1\n1,0,\n2,1,.3\n3,1,\n4,2,.6\n"
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert curve(runs) == [(0, 0.1), (1, 0.3), (2, 0.6)]
    assert "train/global_step; _step differs" in note(runs, "step_key").message


def test_a_counter_that_restarts_needs_a_decision(tmp_path):
    """Case 24: refused by default; offset counts on, restart keeps the second part."""
    text = table((0, 0.1), (10, 0.3), (20, 0.5), (0, 0.5), (10, 0.6), (20, 0.7))
    with pytest.raises(NoUsableRuns, match="step falls 20 -> 0 at row 4; give --on-reset offset"):
        read(tmp_path, {"r.csv": text}, batch_size=1)
    runs = read_runs(tmp_path, ReadOptions(batch_size=1, on_reset="offset"))
    assert curve(runs) == [(0, 0.1), (10, 0.3), (20, 0.5), (30, 0.6), (40, 0.7)]
    runs = read_runs(tmp_path, ReadOptions(batch_size=1, on_reset="restart"))
    assert curve(runs) == [(0, 0.5), (10, 0.6), (20, 0.7)]


def test_three_launches_with_two_resets(tmp_path):
    """Each reset counts on from where the launch before it ended."""
    text = table(*[(s, round(0.1 * i, 1)) for i, s in enumerate([1, 2, 3, 1, 2, 1, 2], start=1)])
    runs = read(tmp_path, {"r.csv": text}, batch_size=1, on_reset="offset")
    assert [r for r, _ in curve(runs)] == [1, 2, 3, 4, 5, 6, 7]


def test_rows_that_come_late_are_put_in_place(tmp_path):
    """Cases 19, 21: interleaved rows that repeat no step are sorted, none dropped."""
    runs = read(tmp_path, {"r.csv": table((0, 0.1), (20, 0.3), (10, 0.2), (30, 0.6))}, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.2), (20, 0.3), (30, 0.6)]


def test_a_late_validation_is_no_resume(tmp_path):
    """A validation that arrives after later training rows drops none of them."""
    rows = [{"step": s, "reward": 0.1} for s in range(1, 6)]
    rows.insert(4, {"step": 2, "val_acc": 0.4})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=1)
    assert curve(runs) == [(2, 0.4)]
    assert runs.steps["responses"].tolist() == [1, 2, 3, 4, 5]


def test_an_abandoned_branch_that_went_further_is_dropped_whole(tmp_path):
    """Case 20: what the first launch logged after the resume point belongs to no run."""
    text = table((0, 0.1), (10, 0.3), (20, 0.9), (30, 0.95), (20, 0.4))
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.3), (20, 0.4)]


def test_zero_based_training_rows(tmp_path):
    """Row 0 of a 0-based log ends the first rollout; its validation came before it."""
    rows = [{"step": s, "reward": 0.1, "val_acc": 0.1 * s} for s in range(3)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=64)
    assert runs.steps["rollout"].tolist() == [1, 2, 3]
    assert runs.steps["responses"].tolist() == [64, 128, 192]
    assert curve(runs) == [(0, 0.0), (64, 0.1), (128, 0.2)]


def test_partial_rows_of_one_step_are_merged_and_repeats_are_told(tmp_path):
    """Disjoint keys join; a number logged twice is the last one, or the mean when asked."""
    rows = [{"step": 1, "reward": 0.2}, {"step": 1, "loss": 0.5}, {"step": 1, "reward": 0.4}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=8)
    assert runs.steps[["reward", "loss"]].values.tolist() == [[0.4, 0.5]]
    assert "repeated_steps" in codes(runs)
    runs = read_runs(tmp_path, ReadOptions(batch_size=8, duplicates="mean"))
    assert runs.steps["reward"].tolist() == pytest.approx([0.3])


def test_rows_without_any_counter_are_refused_with_the_remedy(tmp_path):
    """No step and no responses: both ways out are named."""
    with pytest.raises(NoUsableRuns, match="--map step=KEY"):
        read(tmp_path, {"r.jsonl": '{"reward":0.1}\n'}, batch_size=8)


def test_rows_without_a_step_are_told(tmp_path):
    """A validation that cannot be placed is left out aloud."""
    rows = [{"step": 1, "loss": 0.1}, {"val_acc": 0.5}, {"step": 2, "val_acc": 0.6}]
    rows.append({"step": 3, "val_acc": 0.7})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=1)
    assert curve(runs) == [(2, 0.6), (3, 0.7)]
    assert note(runs, "rows_without_step").message.startswith("1 rows have no step")


def test_steps_that_are_no_whole_numbers_are_refused(tmp_path):
    """A fraction of an epoch is no step."""
    with pytest.raises(NoUsableRuns, match=r"step 0\.5 is not a whole number"):
        read(tmp_path, {"r.csv": table((0.5, 0.1))}, batch_size=8)


# --- tables of several runs --------------------------------------------------------------------


def test_chart_bounds_are_no_runs(tmp_path):
    """Case 10: __MIN and __MAX columns are neither runs nor seeds."""
    name = "b64-s0 - val/acc"
    header = f'"Step","{name}","{name}__MIN","{name}__MAX"\n'
    text = header + '"0","0.10","0.10","0.10"\n"10","0.45","0.45","0.45"\n'
    runs = read(tmp_path, {"chart.csv": text}, batch_size=64)
    assert runs.runs["run_id"].tolist() == ["b64-s0"]
    assert curve(runs) == [(0, 0.1), (640, 0.45)]


def test_two_columns_of_one_name_are_two_runs(tmp_path):
    """Case 14: seeds that share a display name are told apart, never last-column-wins."""
    text = "Step,exp - val/acc,exp - val/acc\n0,.1,.2\n10,.5,.6\n"
    runs = read(tmp_path, {"chart.csv": text}, batch_size=1)
    assert runs.runs["run_id"].tolist() == ["exp", "exp#2"]
    assert curve(runs, "exp#2") == [(0, 0.2), (10, 0.6)]
    assert "same_name" in codes(runs)


def test_a_blank_cell_is_no_nan(tmp_path):
    """Case 15: blank is not logged; NaN is non-finite; two validations."""
    text = "Step,r - loss,r - val/acc\n1,0.5,0.2\n2,0.4,\n3,NaN,\n4,NaN,0.1\n"
    runs = read(tmp_path, {"chart.csv": text}, batch_size=1)
    assert curve(runs) == [(1, 0.2), (4, 0.1)]
    assert runs.steps["nonfinite"].fillna("").tolist() == ["", "", "loss", "loss"]


def test_a_long_table_is_split_by_its_run_column(tmp_path):
    """run_id tells the rows apart; batch size and seed are read from their columns."""
    text = "run_id,seed,batch_size,step,val_acc\n" + "".join(
        f"b{b}-s{s},{s},{b},{i},{0.1 * i:.1f}\n" for b in (64, 128) for s in (0, 1) for i in (0, 1)
    )
    runs = read(tmp_path, {"all.csv": text})
    assert runs.runs["run_id"].tolist() == ["b128-s0", "b128-s1", "b64-s0", "b64-s1"]
    assert runs.runs["batch_size"].tolist() == [128, 128, 64, 64]
    assert runs.runs["batch_size_from"].unique().tolist() == ["log"]
    assert curve(runs, "b128-s1") == [(0, 0.0), (128, 0.1)]


def test_a_long_table_without_names_is_split_by_size_and_seed(tmp_path):
    """Rows of two seeds or sizes in one table are never merged into one run."""
    text = "batch_size,seed,step,val_acc\n" + "".join(
        f"{b},{s},{i},0.{s}{i}\n" for i in (1, 2) for b in (64, 128) for s in (0, 1)
    )
    runs = read(tmp_path / "both", {"all.csv": text})
    names = ["b128-seed0", "b128-seed1", "b64-seed0", "b64-seed1"]
    assert runs.runs["run_id"].tolist() == names
    assert runs.runs["seed"].tolist() == [0, 1, 0, 1]
    assert curve(runs, "b128-seed1") == [(128, 0.11), (256, 0.12)]
    sizes = "batch_size,step,val_acc\n64,1,.1\n64,2,.2\n128,1,.3\n128,2,.4\n"
    runs = read(tmp_path / "sizes", {"all.csv": sizes})
    assert runs.runs["run_id"].tolist() == ["b128", "b64"]
    once = "seed,step,val_acc\n7,1,.1\n7,2,.2\n"
    runs = read(tmp_path / "once", {"exp.csv": once}, batch_size=8)
    assert runs.runs[["run_id", "seed"]].values.tolist() == [["exp", 7]]


def test_columns_of_one_name_are_ambiguous(tmp_path):
    """Two accuracy columns of one name are never resolved by taking the last."""
    text = "step,val_acc,val_acc\n1,.1,.2\n"
    with pytest.raises(NoUsableRuns, match="val_acc#1, val_acc#2"):
        read(tmp_path, {"r.csv": text}, batch_size=1)
    second = {"accuracy": ("val_acc#2",)}
    assert curve(read(tmp_path, {"r.csv": text}, batch_size=1, map=second)) == [(1, 0.2)]


def test_a_percent_sign_is_a_unit(tmp_path):
    """61.5% is 0.615, whatever the other values."""
    runs = read(tmp_path, {"r.csv": table((1, "0.5%"), (2, "61.5%"))}, batch_size=1)
    assert curve(runs) == [(1, 0.005), (2, 0.615)]


def test_a_batch_size_that_changes_inside_a_run_is_refused(tmp_path):
    """One run has one batch size."""
    text = "step,batch_size,val_acc\n1,64,.1\n2,128,.2\n"
    with pytest.raises(NoUsableRuns, match="batch_size changes within the run"):
        read(tmp_path, {"r.csv": text})


def test_columns_of_other_names_tell_the_runs(tmp_path):
    """--map renames `runs` columns too, numbers and texts."""
    text = "exp,bs,data,step,val_acc\na,64,gsm8k,1,.1\nb,128,math,1,.2\n"
    names = {"run_id": ("exp",), "batch_size": ("bs",), "task": ("data",)}
    runs = read(tmp_path, {"all.csv": text}, map=names)
    columns = ["run_id", "batch_size", "task"]
    assert runs.runs[columns].values.tolist() == [["a", 64, "gsm8k"], ["b", 128, "math"]]
    assert curve(runs, "b") == [(128, 0.2)]


def test_an_accuracy_without_val_gives_way(tmp_path):
    """`accuracy` beside `val_acc` is the training's; alone it is the validation."""
    rows = "step,accuracy,val_acc\n1,.9,.1\n2,.9,.2\n"
    assert curve(read(tmp_path / "a", {"r.csv": rows}, batch_size=1)) == [(1, 0.1), (2, 0.2)]
    alone = rows.replace(",val_acc", ",x")
    assert curve(read(tmp_path / "b", {"r.csv": alone}, batch_size=1)) == [(1, 0.9), (2, 0.9)]
    both = rows.replace("val_acc", "eval_final")
    with pytest.raises(NoUsableRuns, match="accuracy, eval_final"):
        read(tmp_path / "c", {"r.csv": both}, batch_size=1)


# --- responses ---------------------------------------------------------------------------------


def test_logged_responses_go_before_counted_ones(tmp_path):
    """A running total in the log is believed, and shows the batch size."""
    rows = [{"step": s, "episode": 512 * s, "reward": 0.1, "val_acc": 0.1} for s in (1, 2, 3)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text})
    assert runs.runs[["batch_size", "batch_size_from"]].values.tolist() == [[512, "log"]]
    assert curve(runs) == [(512, 0.1), (1024, 0.1), (1536, 0.1)]


def test_responses_of_each_rollout_are_added_up(tmp_path):
    """Counts of single rollouts that vary are summed; the batch size is asked for."""
    rows = [{"step": s, "rollout/num_samples": n, "reward": 0.1} for s, n in
            enumerate((64, 32, 64), start=1)]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(NoUsableRuns, match="--batch-size"):
        read(tmp_path, {"r.jsonl": text})
    runs = read_runs(tmp_path, ReadOptions(batch_size=64))
    assert runs.steps["responses"].tolist() == [64, 96, 160]


def test_a_total_that_never_grows_counts_each_rollout(tmp_path):
    """A `responses` column of 64, 64, 64 is the count of each rollout."""
    text = "step,responses,reward\n1,64,.1\n2,64,.2\n3,64,.3\n"
    runs = read(tmp_path, {"r.csv": text})
    assert runs.steps["responses"].tolist() == [64, 128, 192]
    assert runs.runs["batch_size"].tolist() == [64]


def test_responses_under_another_name(tmp_path):
    """--map responses=KEY names the running total."""
    text = "step,samples,val_acc\n1,100,.1\n2,220,.2\n"
    runs = read(tmp_path, {"r.csv": text}, batch_size=100, map={"responses": ("samples",)})
    assert curve(runs) == [(100, 0.1), (220, 0.2)]


def test_an_export_full_of_nulls_has_no_non_finite_validation_rows(tmp_path):
    """Where every key stands in every row, null on a validation row is 'not logged'."""
    rows = [{"step": s, "loss": 0.1, "reward": 0.5, "val_acc": None} for s in range(1, 5)]
    rows.append({"step": 5, "loss": None, "reward": None, "val_acc": 0.3})
    rows.append({"step": 6, "loss": None, "reward": 0.5, "val_acc": None})
    runs = read(tmp_path, {"r.jsonl": "".join(json.dumps(r) + "\n" for r in rows)}, batch_size=1)
    assert curve(runs) == [(5, 0.3)]
    assert runs.steps["rollout"].tolist() == [1, 2, 3, 4, 6]
    assert runs.steps["nonfinite"].fillna("").tolist() == ["", "", "", "", "loss"]
    assert "nonfinite_validation" not in codes(runs)


def test_responses_alone_place_the_rows(tmp_path):
    """A table of responses and accuracy needs no step."""
    text = "responses,val_acc\n0,.1\n640,.2\n1280,.3\n"
    runs = read(tmp_path, {"r.csv": text}, batch_size=64)
    assert curve(runs) == [(0, 0.1), (640, 0.2), (1280, 0.3)]
    assert runs.evals["rollout"].tolist() == [0, 10, 20]


def test_a_log_that_begins_late_is_marked(tmp_path):
    """Responses count from the absolute step, and the missing part is told."""
    runs = read(tmp_path, {"r.csv": table((101, 0.1), (102, 0.2))}, batch_size=8)
    assert curve(runs) == [(808, 0.1), (816, 0.2)]
    assert "left_truncated" in codes(runs)


def test_impossible_counts_are_refused(tmp_path):
    """A step that would mean more responses than a float can count is an error of the log."""
    with pytest.raises(NoUsableRuns, match="responses cannot be"):
        read(tmp_path, {"r.csv": table((1, 0.1), (1e300, 0.2))}, batch_size=8)


def test_a_missing_batch_size_and_key_are_asked_for_at_once(tmp_path):
    """One refusal names everything that is missing, with the options that give it."""
    with pytest.raises(NoUsableRuns) as caught:
        read(tmp_path, {"r.csv": "step,eval_x,eval_y\n1,.1,.2\n"})
    assert "eval_x, eval_y" in str(caught.value)
    assert "--batch-size" in str(caught.value)


# --- units -------------------------------------------------------------------------------------


def test_percent_is_rescaled_and_told(tmp_path):
    """Case 48: both runs end at .615; the percent run does not start at 12."""
    files = {
        "r1.csv": table((0, 12.0), (10, 48.0), (20, 61.5)),
        "r2.csv": table((0, 0.12), (10, 0.48), (20, 0.615)),
    }
    runs = read(tmp_path, files, batch_size=1)
    assert curve(runs, "r1") == curve(runs, "r2") == [(0, 0.12), (10, 0.48), (20, 0.615)]
    assert note(runs, "rescaled_percent").runs == ("r1",)
    assert note(runs, "mixed_units").runs == ("r2",)


def test_a_score_above_one_is_no_percent(tmp_path):
    """Case 49: values above 1 stay as they are and are told."""
    text = table((0, 0.4), (10, 0.9), (20, 1.3), (30, 1.25))
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert [a for _, a in curve(runs)] == [0.4, 0.9, 1.3, 1.25]
    assert runs.evals["scale"].unique().tolist() == ["score"]
    assert "above 1 but not percent-like" in note(runs, "score_scale").message


def test_a_given_factor_settles_the_unit(tmp_path):
    """--scale accuracy=0.5 turns a reward of 2 for a correct answer into an accuracy."""
    text = table((0, 0.4), (10, 1.2))
    runs = read(tmp_path, {"r.csv": text}, batch_size=1, scale={"accuracy": 0.5})
    assert curve(runs) == [(0, 0.2), (10, 0.6)]
    assert runs.evals["scale"].unique().tolist() == ["accuracy"]


def test_the_rate_of_a_run_is_its_peak(tmp_path):
    """Case 60: not the first logged rate (0 in the warm-up) and not the last."""
    text = "step,lr,val_acc\n1,0.0,.1\n10,1.5e-6,.2\n50,5e-6,.3\n100,4e-6,.4\n"
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert runs.runs[["lr", "lr_from"]].values.tolist() == [[5e-6, "log"]]


def test_schedules_that_differ_can_be_told_apart(tmp_path):
    """Case 61: warm-up in responses and what follows it are read from the logged rates."""

    def rates(decay):
        rows = [(s, min(s / 10, 1.0) * (1 - decay * max(0, s - 10) / 40)) for s in range(1, 41)]
        return "step,lr,val_acc\n" + "".join(f"{s},{1e-6 * f:.6g},.1\n" for s, f in rows)

    files = {"flat.csv": rates(0), "falling.csv": rates(1)}
    runs = read(tmp_path, files, batch_size=64).runs.set_index("run_id")
    assert runs["lr_schedule"].to_dict() == {"falling": "decay", "flat": "constant"}
    assert runs["warmup_responses"].to_dict() == {"falling": 640.0, "flat": 640.0}


def test_one_reason_for_all_runs_of_a_file_is_told_once(tmp_path):
    """A table that splits into several runs and has no steps is refused in one line."""
    text = "batch_size,seed,val_acc\n64,0,.1\n64,1,.2\n128,0,.3\n"
    runs = read(tmp_path, {"t.csv": text, "r.csv": table((1, 0.1))}, batch_size=8)
    assert [Path(r.path).name for r in runs.refused] == ["t.csv"]
    assert runs.refused[0].facts == ("rollout",)


def test_one_refusal_is_one_line_on_the_screen(tmp_path, capsys):
    """A single refusal is not repeated below itself; several are listed, a line a reason."""
    for names, lines in ((["a"], 1), (["a", "b"], 2)):
        with pytest.raises(SystemExit) as caught:
            main(["runs", *[str(tmp_path / name) for name in names]])
        assert caught.value.code == 1
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_table_that_may_hold_crossings_says_how_to_read_it_so(tmp_path):
    """A batch size and a number of samples without steps: the reason names both columns."""
    crossings = "global_batch_size,rng_seed,First_Eval_Samples\n256,1,4608\n512,1,5120\n"
    write(tmp_path, {"c.csv": crossings, "plain.csv": "reward,val_acc\n1,.1\n"})
    pd.read_csv(tmp_path / "c.csv").to_parquet(tmp_path / "c.parquet")
    with pytest.raises(NoUsableRuns) as caught:
        read_runs(tmp_path)
    why = {Path(path).name: reason for path, reason in caught.value.refused}
    options = "--map batch_size=global_batch_size --map responses=First_Eval_Samples"
    assert why["c.csv"].endswith(f"fit it as events: {options}")
    assert why["c.parquet"] == why["c.csv"]
    assert "events" not in why["plain.csv"]


# --- runs.yaml and options ---------------------------------------------------------------------


def test_runs_yaml_fills_what_logs_lack(tmp_path):
    """Globs choose the logs; options go before it, and NAME_from says who spoke."""
    sidecar = (
        "- {path: 'b64-*', batch_size: 64, lr: 1e-6, clip_high: null}\n"
        "- {path: 'b128-*', batch_size: 128, map: {accuracy: score}, scale: {accuracy: 0.5}}\n"
    )
    files = {
        "runs.yaml": sidecar,
        "b64-s0/metrics.csv": table((1, 0.1)),
        "b128-s0/metrics.csv": "step,score\n1,0.8\n",
    }
    runs = read(tmp_path, files, lr=2e-6)
    frame = runs.runs.set_index("run_id")
    assert frame["batch_size"].to_dict() == {"b128-s0": 128, "b64-s0": 64}
    assert frame["lr"].to_dict() == {"b128-s0": 2e-6, "b64-s0": 2e-6}
    assert frame.loc["b64-s0", "clip_high"] == float("inf")
    assert set(frame["batch_size_from"]) == {"user"}
    assert curve(runs, "b128-s0") == [(128, 0.4)]
    assert {f.reader for f in runs.files} == {"csv", "settings"}


def test_runs_yaml_is_found_for_a_single_file_too(tmp_path):
    """Giving one log of a folder reads it as giving the folder does."""
    files = {"runs.yaml": "- {path: '*', batch_size: 64}\n", "a/metrics.csv": table((1, 0.1))}
    read(tmp_path, files)
    runs = read_runs(tmp_path / "a" / "metrics.csv")
    assert runs.runs[["run_id", "batch_size"]].values.tolist() == [["a", 64]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {path: '*', batchsize: 64}\n", "entry 1: no column 'batchsize'; did you mean"),
        ("- {path: '*', map: {acuracy: x}}\n", "map: no column 'acuracy'"),
        ("batch_size: 64\n", "must be a list"),
        ("- {path: [\n", "cannot be read as YAML"),
        ("- {path: '*', scale: {accuracy: -1}}\n", "must be a number above 0"),
        ("- !!python/object/apply:os.system ['true']\n", "cannot be read as YAML"),
    ],
)
def test_a_mistake_in_runs_yaml_is_one_clear_line(tmp_path, text, message):
    """An unknown key or damage in runs.yaml stops the reading and is named."""
    with pytest.raises(SettingsError, match=message) as caught:
        read(tmp_path, {"runs.yaml": text, "a.csv": table((1, 0.1))})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("batch_size: many", "batch_size is 'many', must be a whole number from 1"),
        ("batch_size: 0", "batch_size is 0, must be a whole number from 1"),
        ("batch_size: 64.5", "batch_size is 64.5, must be a whole number from 1"),
        ("group_size: -8", "group_size is -8, must be a whole number from 1"),
        ("world_size: 0", "world_size is 0, must be a whole number from 1"),
        ("epochs: true", "epochs is True, must be a whole number from 1"),
        ("seed: -1", "seed is -1, must be a whole number from 0"),
        ("lr: -1", "lr is -1, must be a number above 0"),
        ("lr: 0", "lr is 0, must be a number above 0"),
        ("lr: .nan", "lr is nan, must be a number above 0"),
        ("lr: [1]", r"lr is \[1\], must be a number above 0"),
        ("base_lr: .inf", "base_lr is inf, must be a number above 0"),
        ("clip_low: -0.2", "clip_low is -0.2, must be a number from 0, or .inf or null"),
        ("kl_coef: -1", "kl_coef is -1, must be a number from 0"),
        ("warmup_responses: .inf", "warmup_responses is inf, must be a number from 0"),
        ("clip_active: maybe", "clip_active is 'maybe', must be one of yes, no, unknown"),
        ("ended: done", "ended is 'done', must be one of completed"),
    ],
)
def test_a_value_out_of_range_in_runs_yaml_is_one_clear_line(tmp_path, given, rule):
    """As for the options: file, entry, key, what was given and the rule."""
    text = f"- {{path: 'b*', batch_size: 8}}\n- {{path: 'a*', {given}}}\n"
    with pytest.raises(SettingsError, match=rf"runs\.yaml: entry 2: {rule}") as caught:
        read(tmp_path, {"runs.yaml": text, "a.csv": table((1, 0.1))}, batch_size=8)
    assert "\n" not in str(caught.value)


def test_values_in_range_in_runs_yaml_pass(tmp_path):
    """Null and .inf say no limit, numbers that YAML takes for text count, yes and no are words."""
    given = (
        "- {path: 'a*', batch_size: 64, seed: 0, lr: 1e-6, clip_low: null, clip_high: .inf, "
        "grad_clip: 0, kl_coef: 0, warmup_responses: 0, clip_active: no, model: null}\n"
    )
    row = read(tmp_path, {"runs.yaml": given, "a.csv": table((1, 0.1))}).runs.iloc[0]
    assert row["lr"] == 1e-6
    assert (row["clip_low"], row["clip_high"]) == (float("inf"), float("inf"))
    assert row["clip_active"] == "no"


def test_an_entry_that_matches_nothing_is_told(tmp_path):
    """A glob with a typo does not pass in silence."""
    files = {"runs.yaml": "- {path: 'x*', lr: 1}\n", "a.csv": table((1, 0.1))}
    assert "unused_entry" in codes(read(tmp_path, files, batch_size=8))


def test_entries_for_other_logs_are_no_mistake_when_one_is_given(tmp_path):
    """Reading one log of a folder does not complain of the entries for its neighbours."""
    sidecar = "- {path: 'a*', batch_size: 8}\n- {path: 'b*', batch_size: 16}\n"
    write(tmp_path, {"runs.yaml": sidecar, "a.csv": table((1, 0.1)), "b.csv": table((1, 0.2))})
    assert "unused_entry" not in codes(read_runs(tmp_path / "a.csv"))


def test_files_that_the_user_calls_one_run_are_joined(tmp_path):
    """Two parts of a resumed run become one; the later part wins where they overlap."""
    files = {
        "runs.yaml": "- {path: 'part*', run_id: exp, batch_size: 8}\n",
        "part1.csv": table((1, 0.1), (2, 0.2), (3, 0.9)),
        "part2.csv": table((3, 0.3), (4, 0.4)),
    }
    runs = read(tmp_path, files)
    assert runs.runs["run_id"].tolist() == ["exp"]
    assert curve(runs) == [(8, 0.1), (16, 0.2), (24, 0.3), (32, 0.4)]
    assert "joined" in codes(runs)


def test_options_are_checked_at_the_door():
    """A wrong name or value of an option is named with the rule."""
    with pytest.raises(SettingsError, match="batch_size is 0, must be above 0"):
        ReadOptions(batch_size=0)
    with pytest.raises(SettingsError, match="seed is -1, must be 0 or more"):
        ReadOptions(seed=-1)
    with pytest.raises(SettingsError, match="on_reset must be one of"):
        ReadOptions(on_reset="maybe")
    with pytest.raises(SettingsError, match="did you mean 'reward'"):
        ReadOptions(scale={"rewards": 2.0})


# --- the door ----------------------------------------------------------------------------------


def test_a_copied_log_counts_once(tmp_path):
    """Case 106: identical content is one run, whatever the compression; copies are told."""
    text = series([0.1, 0.2, 0.3])
    files = {"s0.jsonl": text, "copy.jsonl.gz": text, "s1.jsonl": series([0.1, 0.2, 0.4])}
    runs = read(tmp_path, files, batch_size=8)
    assert len(runs.runs) == 2
    assert "is a copy of" in note(runs, "duplicate_run").message


def test_missing_facts_that_are_not_needed_are_told_once(tmp_path):
    """No seed and no learning rate: usable, and one note for all runs each."""
    files = {f"s{i}.csv": table((1, 0.1 * i)) for i in range(3)}
    runs = read(tmp_path, files, batch_size=8)
    assert note(runs, "missing_seed").runs == ("s0", "s1", "s2")
    assert note(runs, "missing_lr").runs == ("s0", "s1", "s2")


def test_two_sinks_of_one_run_are_one_run(tmp_path):
    """A console and a file log in one folder with the same rewards count once."""
    steps = range(1, 9)
    console = "".join(f"step:{s} - critic/score/mean:{s / 7:.3f}\n" for s in steps)
    file_log = "".join(
        json.dumps({"step": s, "data": {"critic/score/mean": s / 7, "actor/lr": 1e-6}}) + "\n"
        for s in steps
    )
    runs = read(tmp_path, {"exp/exp.jsonl": file_log, "exp/train.log": console}, batch_size=8)
    assert len(runs.runs) == 1
    assert runs.files[0].reader == "verl-file"
    assert "same_run_twice" in codes(runs)


def test_a_trainer_and_its_orchestrator_are_joined_by_name(tmp_path):
    """Case 18: loss in one file and validation in another become one run when told so."""
    files = {
        "exp1-trainer/metrics.csv": "step,loss\n1,.5\n2,.4\n",
        "exp1-orchestrator/metrics.csv": table((1, 0.1), (2, 0.2)),
        "runs.yaml": "- {path: 'exp1-*', run_id: exp1, batch_size: 8}\n",
    }
    runs = read(tmp_path, files)
    assert runs.runs["run_id"].tolist() == ["exp1"]
    assert curve(runs) == [(8, 0.1), (16, 0.2)]
    assert runs.steps["loss"].tolist() == [0.5, 0.4]


def test_tables_do_not_depend_on_the_order_of_files(tmp_path):
    """Case 107: paths given in any order, twice or as folders, give the same tables."""
    files = {f"s{i}/metrics.csv": table((1, 0.1 * i), (2, 0.2)) for i in range(4)}
    write(tmp_path, files)
    paths = [tmp_path / name for name in files]
    options = ReadOptions(batch_size=8)
    first = read_runs(tmp_path, options)
    for given in (paths, paths[::-1], [*paths, tmp_path], [tmp_path, tmp_path]):
        other = read_runs(given, options)
        assert other.runs["run_id"].tolist() == first.runs["run_id"].tolist()
        pd.testing.assert_frame_equal(other.steps, first.steps)
        pd.testing.assert_frame_equal(other.evals, first.evals)


def test_equal_names_in_two_folders_are_told_apart(tmp_path):
    """Two sweeps with a seed0 each give two runs with names that say which."""
    files = {"x/seed0.csv": table((1, 0.1)), "y/seed0.csv": table((1, 0.2))}
    write(tmp_path, files)
    runs = read_runs([tmp_path / "x", tmp_path / "y"], ReadOptions(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["x/seed0", "y/seed0"]


def test_tables_have_the_columns_of_the_schema(tmp_path):
    """Types and order come from the schema; every sourced column has its NAME_from."""
    runs = read(tmp_path, {"a.csv": table((1, 0.1))}, batch_size=8)
    assert runs.runs.columns.tolist()[: len(RUNS.names)] == list(RUNS.names)
    assert {f"{c.name}_from" for c in RUNS.columns if c.sourced} <= set(runs.runs.columns)
    assert runs.steps.columns.tolist() == list(STEPS.names)
    assert str(runs.runs["batch_size"].dtype) == "Int64"


def test_selected_runs_keep_their_rows(tmp_path):
    """`select` gives a smaller Runs and leaves the whole one alone."""
    files = {f"s{i}.csv": table((1, 0.1 * i)) for i in range(3)}
    runs = read(tmp_path, files, batch_size=8)
    part = runs.select(["s1"])
    assert part.runs["run_id"].tolist() == part.evals["run_id"].tolist() == ["s1"]
    assert len(runs.runs) == 3
    assert json.dumps(part.to_dict())


def test_every_file_read_has_its_checksum(tmp_path):
    """The SHA-256 of each log stands beside the runs that came from it."""
    runs = read(tmp_path, {"s0.csv": table((1, 0.1))}, batch_size=8)
    (file,) = runs.files
    assert (len(file.sha256), file.reader, file.run_ids) == (64, "csv", ("s0",))


def test_progress_is_told(tmp_path):
    """A long call says how far it is, ending with all files done."""
    seen = []
    write(tmp_path, {f"s{i}.csv": table((1, 0.1 * i)) for i in range(3)})
    read_runs(tmp_path, ReadOptions(batch_size=8), progress=lambda *args: seen.append(args[:2]))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_run_that_died_early_is_no_refusal_under_a_mapped_key(tmp_path):
    """Case 69: a log without any validation stays usable when --map names the accuracy."""
    files = {
        "died.jsonl": '{"step":1,"loss":0.1}\n{"step":2,"loss":NaN}\n',
        "lived.jsonl": '{"step":1,"loss":0.1,"val_x":0.3}\n{"step":2,"loss":0.1}\n',
        "other.jsonl": '{"step":1,"loss":0.1,"val_y":0.3}\n',
    }
    runs = read(tmp_path, files, batch_size=64, map={"accuracy": ("val_x",)})
    assert runs.runs["run_id"].tolist() == ["died", "lived"]
    assert note(runs, "no_validation").runs == ("died",)
    assert reasons(runs) == {"other.jsonl": "no key 'val_x'; the log has val_y"}


def test_a_long_training_log_is_thinned_between_changes(tmp_path, monkeypatch):
    """Step rows are thinned evenly; the end, the first non-finite row and validations stay."""
    from twoclock.runs import frames

    monkeypatch.setattr(frames, "MAX_STEP_ROWS", 100)
    monkeypatch.setattr(frames, "KEPT_AT_END", 10)
    rows = [{"step": s, "loss": None if s > 777 else 0.1} for s in range(1, 1001)]
    rows += [{"step": 555, "val_acc": 0.4}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=1)
    kept = runs.steps["rollout"].tolist()
    assert len(kept) < 130
    assert {777, 778, 991, 1000} <= set(kept)
    assert curve(runs) == [(555, 0.4)]
    assert "steps_thinned" in codes(runs)


def test_written_tables_are_read_back(tmp_path):
    """A folder of runs, steps and evals Parquet gives the tables it was made of."""
    files = {
        "s0.jsonl": '{"step":1,"loss":0.1,"lr":1e-6,"val_acc":0.3}\n{"step":2,"loss":NaN}\n',
        "s1.csv": table((1, 1.4), (2, 0.7)),
    }
    runs = read(tmp_path / "logs", files, batch_size=64, seed=3)
    out = tmp_path / "out"
    out.mkdir()
    for name in ("runs", "steps", "evals"):
        getattr(runs, name).to_parquet(out / f"{name}.parquet")
    again = read_runs(out)
    pd.testing.assert_frame_equal(again.steps, runs.steps)
    pd.testing.assert_frame_equal(again.evals, runs.evals)
    columns = [c for c in runs.runs.columns if c != "source"]
    pd.testing.assert_frame_equal(again.runs[columns], runs.runs[columns])


def test_foreign_rows_in_parquet(tmp_path):
    """A Parquet table of rows is read like the same CSV; its nulls are blanks."""
    frame = pd.DataFrame(
        {"step": [0, 5, 10], "loss": [None, 0.2, 0.1], "val_acc": [0.1, None, 0.6]}
    )
    frame.to_parquet(tmp_path / "r.parquet")
    runs = read_runs(tmp_path, ReadOptions(batch_size=1))
    assert curve(runs) == [(0, 0.1), (10, 0.6)]
    assert runs.steps["nonfinite"].isna().all()


# --- the real logs -----------------------------------------------------------------------------

shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared real logs are not here")


@shared
def test_every_real_log_gives_a_run_or_a_reason():
    """Without any option each real file is a run, a named copy, or a refusal to act on."""
    runs = read_runs(SHARED)
    told = [f.path for f in runs.files] + [r.path for r in runs.refused]
    copies = [n.where for n in runs.notes if n.code == "earlier_checkpoint"]
    files = {str(p) for p in SHARED.iterdir() if p.suffix != ".md"}
    assert files == set(told) | set(copies)
    assert all("give" in r.reason for r in runs.refused)


@shared
@pytest.mark.parametrize(
    ("name", "options", "batch_size", "rows", "responses"),
    [
        ("tinker-metrics.jsonl", {}, 128, 80, 80 * 128),
        ("roll-metrics-first80.jsonl", {}, 512, 80, 80 * 512),
        ("microbatch-rows-array.json", {"batch_size": 8}, 8, 200, 1600),
        ("homemade-metrics.csv",
         {"batch_size": 160, "map": {"accuracy": ("eval_final_ans",)}}, 160, 30, 30 * 160),
    ],
)  # fmt: skip
def test_real_logs_of_other_frameworks(name, options, batch_size, rows, responses):
    """Generic reading counts what the files themselves count, or what the user gives."""
    runs = read_runs(SHARED / name, ReadOptions(**options))
    assert runs.runs["batch_size"].tolist() == [batch_size]
    assert len(runs.steps) == rows
    assert runs.steps["responses"].max() == responses


@shared
def test_the_real_home_made_table():
    """Empty evaluation cells are no zeros; n is read from its column."""
    options = ReadOptions(batch_size=160, map={"accuracy": ("eval_final_ans",)})
    runs = read_runs(SHARED / "homemade-metrics.csv", options)
    assert curve(runs)[0] == (5 * 160, 0.793333)
    assert runs.evals["n"].tolist() == [150] * len(runs.evals)
    assert len(runs.evals) == 6


def test_a_foreign_run_json_hides_no_log(tmp_path):
    """A `run.json` of another tool is one more configuration; the log beside it is read."""
    files = {"a/run.json": '{"lr": 1e-5, "seed": 4}', "a/metrics.jsonl": series([0.1, 0.2, 0.3])}
    runs = read(tmp_path, files, batch_size=8)
    assert (runs.runs["lr"][0], runs.runs["seed"][0]) == (1e-5, 4)
    assert len(runs.evals) == 3
