"""One run in several logs counts once, and only on evidence."""

import json

import pytest

from tests.reading import codes, curve, note, read
from tests.wandb_bytes import config, framed, history, run
from twoclock.errors import NoUsableRuns

VERL = {
    "data": {"train_batch_size": 8, "train_files": "gsm8k/train.parquet", "seed": 3},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 4, "ppo_epochs": 1, "optim": {"lr": 1e-6}},
        "rollout": {"n": 4}, "model": {"path": "org/model"},
    },
    "algorithm": {"adv_estimator": "grpo"},
}  # fmt: skip


def reward(step, seed=0):
    """Return a reward that hardly two runs share."""
    return round(0.2 + 0.01 * step + 0.001 * ((step * 37 + seed * 11) % 17), 4)


def jsonl(rows):
    """Return JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def file_log(steps, seed=0, **more):
    """Return a log of verl's file logger."""
    rows = []
    for step in steps:
        data = {"critic/score/mean": reward(step, seed), "actor/pg_loss": 0.1, **more}
        if step % 5 == 0:
            data["val-core/gsm8k/acc/mean@1"] = reward(step, seed)
        rows.append({"step": step, "data": data})
    return jsonl(rows)


def console(steps, seed=0):
    """Return the console of the same run, to three decimals."""
    return "".join(
        f"(TaskRunner pid=7) step:{s} - critic/score/mean:{reward(s, seed):.3f} - "
        f"actor/entropy:{0.4 + s / 1000:.3f}\n"
        for s in steps
    )


def plain(steps, seed=0, **more):
    """Return rows of a home-made trainer."""
    return jsonl({"step": s, "reward": reward(s, seed), "val/acc": reward(s, seed), **more}
                 for s in steps)  # fmt: skip


def test_trainer_and_orchestrator_are_one_run(tmp_path):
    """Case 18: the loss of one and the validation of the other make one run, not two seeds."""
    files = {
        "exp1-trainer.jsonl": jsonl({"step": s, "loss": 0.1 * s} for s in range(1, 5)),
        "exp1-orchestrator.jsonl": jsonl({"step": s, "val/acc": 0.1 * s} for s in (2, 4)),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["exp1"]
    assert curve(runs) == [(16, 0.2), (32, 0.4)]
    assert runs.steps["loss"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert "no_validation" not in codes(runs)
    assert "exp1-trainer.jsonl" in note(runs, "paired_logs").message


@pytest.mark.parametrize("name", ["exp1/trainer/metrics", "exp1_Trainer"])
def test_halves_are_found_by_folder_and_by_any_case(tmp_path, name):
    """The two halves may lie in folders of their own, and be written in capitals."""
    other = name.replace("trainer", "orchestrator").replace("Trainer", "orchestrator")
    files = {
        f"{name}.jsonl": jsonl({"step": s, "loss": 0.1 * s} for s in range(1, 5)),
        f"{other}.jsonl": jsonl({"step": s, "val/acc": 0.1 * s} for s in (2, 4)),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["exp1"]
    assert len(runs.evals) == 2


def test_training_rows_and_validations_in_two_files_are_one_run(tmp_path):
    """A train and an eval file in one folder are read as one log, run by run."""
    files = {}
    for seed in (0, 1):
        files[f"s{seed}/train.jsonl"] = jsonl({"step": s, "loss": s + seed} for s in range(1, 5))
        files[f"s{seed}/eval.jsonl"] = jsonl({"step": s, "val/acc": s / 10} for s in (0, 4))
    runs = read(tmp_path, files, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["s0", "s1"]
    assert curve(runs, "s0") == [(0, 0.0), (32, 0.4)]


def test_two_seeds_in_one_folder_are_not_a_pair(tmp_path):
    """Files that repeat each other's keys are two runs, whatever their names."""
    files = {"seed0_train.jsonl": plain(range(1, 6), 0), "seed1_train.jsonl": plain(range(1, 6), 1)}
    assert len(read(tmp_path, files, batch_size=8).runs) == 2


def test_a_console_far_from_the_file_log_is_the_same_run(tmp_path):
    """Two sinks of one run, in different folders, count once; each adds what the other lacks."""
    files = {
        "logs/exp.jsonl": file_log(range(1, 21)),
        "slurm/out-77.log": console(range(1, 21)),
        "logs/.hydra/config.yaml": json.dumps(VERL),
    }
    runs = read(tmp_path, files)
    assert len(runs.runs) == 1
    assert runs.runs["batch_size"].tolist() == [32]
    assert runs.steps["entropy"].notna().all()
    assert runs.steps["reward"].tolist() == [reward(s) for s in range(1, 21)]
    assert "out-77.log is the same run as" in note(runs, "same_run_twice").message


def test_a_sink_that_a_resume_truncated_is_completed_by_the_other(tmp_path):
    """The file logger of verl begins anew on a resume; the console still has the steps before."""
    files = {
        "exp.jsonl": file_log(range(11, 31)),
        "train.log": console(range(1, 31)),
        ".hydra/config.yaml": json.dumps(VERL),
    }
    runs = read(tmp_path, files)
    assert runs.steps["rollout"].tolist() == list(range(1, 31))
    assert "left_truncated" not in codes(runs)


def test_different_seeds_are_never_twins(tmp_path):
    """Logs of two formats whose values differ are two runs."""
    files = {"a.jsonl": file_log(range(1, 21), 0), "b.log": console(range(1, 21), 1)}
    runs = read(tmp_path, files, batch_size=32)
    assert len(runs.runs) == 2
    assert "same_run_twice" not in codes(runs)


def test_settings_that_contradict_keep_equal_values_apart(tmp_path):
    """Two runs that start alike and differ in a setting stay two runs."""
    rows = plain(range(1, 11))
    files = {"a.jsonl": rows, "b.csv": "step,reward,val/acc\n" + "".join(
        f"{s},{reward(s)},{reward(s)}\n" for s in range(1, 11))}  # fmt: skip
    files["runs.yaml"] = "- {path: a.jsonl, lr: 1.0e-6}\n- {path: b.csv, lr: 1.0e-5}\n"
    assert len(read(tmp_path, files, batch_size=8).runs) == 2
    files["runs.yaml"] = "- {path: a.jsonl, lr: 1.0e-6}\n- {path: b.csv, lr: 1.0e-6}\n"
    assert len(read(tmp_path / "same", files, batch_size=8).runs) == 1


def test_a_cumulative_copy_is_the_same_run(tmp_path):
    """A copy of a log taken while it grew is named and counted once, under the longer one."""
    files = {
        "ckpt-10/history.jsonl": plain(range(1, 11)),
        "ckpt-20/history.jsonl": plain(range(1, 21)),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert runs.steps["rollout"].max() == 20
    assert len(runs.runs) == 1
    assert "earlier" in note(runs, "earlier_checkpoint").message


def test_a_run_split_over_numbered_folders_is_joined(tmp_path):
    """A start with a folder of its own goes on where the last one stopped; overlap is told."""
    files = {
        "exp_001/metrics.jsonl": plain(range(1, 13)),
        "exp_002/metrics.jsonl": plain(range(11, 21), 5),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert runs.steps["rollout"].tolist() == list(range(1, 21))
    assert runs.steps["reward"].tolist()[10:] == [reward(s, 5) for s in range(11, 21)]
    assert "steps 11-12 overwritten" in note(runs, "resumed").message
    assert "exp_001" in note(runs, "joined").message


def test_parts_are_not_joined_where_two_runs_could_go_on(tmp_path):
    """With two candidates the later part stays alone and is told to begin in the middle."""
    files = {
        "exp_001/metrics.jsonl": plain(range(1, 13)),
        "exp_002/metrics.jsonl": plain(range(1, 13), 3),
        "exp_003/metrics.jsonl": plain(range(12, 21), 5),
    }
    runs = read(tmp_path, files, batch_size=8)
    assert len(runs.runs) == 3
    assert "left_truncated" in codes(runs)


def test_another_seed_does_not_go_on_where_one_stopped(tmp_path):
    """Names that tell seeds apart keep a log that begins late from being joined."""
    files = {"seed0.jsonl": plain(range(1, 13)), "seed1.jsonl": plain(range(12, 21), 1)}
    assert len(read(tmp_path, files, batch_size=8).runs) == 2


def test_the_processes_of_one_run_count_once(tmp_path):
    """One log for each rank is one run: the first rank is read, and it is told if others differ."""
    files = {f"run/rank_{r}.jsonl": plain(range(1, 6), r) for r in range(4)}
    runs = read(tmp_path, files, batch_size=8)
    assert runs.runs["run_id"].tolist() == ["run"]
    assert runs.steps["reward"].tolist() == [reward(s) for s in range(1, 6)]
    assert "hold other values" in note(runs, "rank_copies").message


def test_the_order_of_files_changes_nothing(tmp_path):
    """Joined runs are the same under other names and orders of their files."""
    first = read(tmp_path / "1", {
        "exp_001/m.jsonl": plain(range(1, 13)), "exp_002/m.jsonl": plain(range(12, 21), 2),
        "twin.csv": "step,reward\n" + "".join(f"{s},{reward(s)}\n" for s in range(1, 13)),
    }, batch_size=8)  # fmt: skip
    second = read(tmp_path / "2", {
        "exp_008/m.jsonl": plain(range(12, 21), 2), "exp_007/m.jsonl": plain(range(1, 13)),
        "a.csv": "step,reward\n" + "".join(f"{s},{reward(s)}\n" for s in range(1, 13)),
    }, batch_size=8)  # fmt: skip
    assert len(first.runs) == len(second.runs) == 1
    assert first.steps.drop(columns="run_id").equals(second.steps.drop(columns="run_id"))


def test_ranks_of_an_adapter_are_settings(tmp_path):
    """A sweep of the rank of an adapter is so many runs, not the processes of one."""
    files = {f"lora_rank{rank}.jsonl": plain(range(1, 6), rank) for rank in (8, 16, 32)}
    assert len(read(tmp_path, files, batch_size=8).runs) == 3


def test_names_of_two_seeds_are_two_runs(tmp_path):
    """Coarse accuracies may be alike for a while: what the names say of the seeds goes first."""
    first = "step,val_acc\n0,0.1\n10,0.2\n20,0.2\n"
    files = {"seed0.csv": first + "30,0.3\n", "seed1.csv": first}
    assert len(read(tmp_path, files, batch_size=8).runs) == 2


def test_what_the_user_says_of_one_part_is_said_of_the_run(tmp_path):
    """Facts and factors given for any of the joined logs reach the run."""
    files = {
        "train.csv": "step,loss,reward\n" + "".join(f"{s},0.5,{reward(s)}\n" for s in range(1, 9)),
        "eval.csv": "step,accuracy\n0,0.25\n4,0.5\n8,1.0\n",
        "runs.yaml": "- {path: train.csv, batch_size: 8}\n"
        "- {path: eval.csv, seed: 5, scale: {accuracy: 0.5}}\n",
    }
    runs = read(tmp_path, files)
    assert runs.runs[["batch_size", "seed"]].to_numpy().tolist() == [[8, 5]]
    assert curve(runs) == [(0, 0.125), (32, 0.25), (64, 0.5)]


def test_facts_of_an_earlier_part_stay(tmp_path):
    """A batch size given for the first part of a resumed run is that of the whole run."""
    files = {
        "part1.jsonl": plain(range(1, 13)),
        "part2.jsonl": plain(range(11, 21), 5),
        "runs.yaml": "- {path: part1.jsonl, batch_size: 8, seed: 3}\n",
    }
    runs = read(tmp_path, files)
    assert runs.runs[["batch_size", "seed"]].to_numpy().tolist() == [[8, 3]]


def test_validations_that_only_a_logger_counts_are_not_lost_in_a_join(tmp_path):
    """Parts are put in order by a key that reaches the validations, too."""

    def part(low, high):
        rows = []
        for s in range(low, high):
            rows.append({"_step": 2 * s, "train/global_step": s, "reward": reward(s)})
            if s % 5 == 0:
                rows.append({"_step": 2 * s + 1, "val_acc": reward(s)})
        return jsonl(rows)

    files = {"r_1.jsonl": part(1, 13), "r_2.jsonl": part(12, 21)}
    runs = read(tmp_path, files, batch_size=8)
    assert "joined" in codes(runs)
    assert curve(runs) == [(8 * s, reward(s)) for s in (5, 10, 15, 20)]


def test_splits_with_one_key_are_one_run(tmp_path):
    """Where the files of a run's splits use one name, its split tells whose it is."""
    rows = "".join(f"{s},0.5,{reward(s)}\n" for s in range(1, 9))
    files = {
        "a/train.csv": "step,loss,accuracy\n" + rows,
        "a/test.csv": "step,loss,accuracy\n0,0.7,0.25\n4,0.6,0.5\n8,0.5,0.75\n",
    }
    runs = read(tmp_path, files, batch_size=8)
    assert curve(runs, metric="test/accuracy") == [(0, 0.25), (32, 0.5), (64, 0.75)]
    assert len(runs.runs) == 1


def test_two_validations_of_one_run_are_not_two_runs(tmp_path):
    """An eval and a test file are one run, and which of them counts is for the user to say."""
    scores = "step,accuracy\n0,0.25\n4,0.5\n"
    files = {
        "train.csv": "step,reward\n" + "".join(f"{s},{reward(s)}\n" for s in range(1, 9)),
        "eval.csv": scores, "test.csv": scores,
    }  # fmt: skip
    with pytest.raises(NoUsableRuns, match="eval/accuracy, test/accuracy"):
        read(tmp_path, files, batch_size=8)
    runs = read(tmp_path, files, batch_size=8, map={"accuracy": ("eval/accuracy",)})
    assert curve(runs) == [(0, 0.25), (32, 0.5)]


def wandb_log(series, start, keys, **settings):
    """Return a W&B file of a run whose id is set by hand."""
    rows = [history({"train/global_step": s, **{k: reward(s, series) for k in keys}}, s)
            for s in range(1, 9)]  # fmt: skip
    return framed([run("s0", start=start), config(settings or {"x": 1}), *rows])


def test_processes_that_share_a_run_complete_each_other(tmp_path):
    """Two files of one id with different keys are written side by side, and neither is lost."""
    runs = read(tmp_path, {
        "run-20260101_000000-s0/run-s0.wandb": wandb_log(0, 1_700_000_000, ["loss"]),
        "run-20260101_000001-s0/run-s0.wandb": wandb_log(0, 1_700_000_001, ["reward", "val_acc"]),
    }, batch_size=8)  # fmt: skip
    assert len(runs.runs) == 1
    assert runs.steps[["reward", "loss"]].notna().all().all()
    assert len(curve(runs)) == 8


def test_one_id_for_two_seeds_is_two_runs(tmp_path):
    """An id that is set by hand may stand for several runs: settings tell them apart."""
    runs = read(tmp_path, {
        "run-20260101_000000-s0/run-s0.wandb": wandb_log(1, 1_700_000_000, ["reward"], seed=1),
        "run-20260102_000000-s0/run-s0.wandb": wandb_log(2, 1_700_090_000, ["reward"], seed=2),
    }, batch_size=8)  # fmt: skip
    assert sorted(runs.runs["seed"]) == [1, 2]
    assert "same_key" in codes(runs)


def test_seeds_in_the_rows_tell_runs_apart(tmp_path):
    """A log that begins late is no part of another whose rows name another seed."""
    files = {
        "exp_001/m.jsonl": plain(range(1, 13), seed_=1),
        "exp_002/m.jsonl": plain(range(12, 21), 5, seed_=2),
    }
    files = {name: text.replace("seed_", "seed") for name, text in files.items()}
    assert len(read(tmp_path, files, batch_size=8).runs) == 2
