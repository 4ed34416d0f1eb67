"""verl consoles and file logs: groups D and F of the cases, and the real ones."""

import json
import math

import pytest

from tests.reading import SHARED, codes, curve, note, read
from twoclock.errors import NoUsableRuns
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs

CONFIG = {
    "data": {"train_batch_size": 64, "train_files": "/data/gsm8k/train.parquet", "seed": None},
    "actor_rollout_ref": {
        "actor": {
            "ppo_mini_batch_size": 16, "ppo_epochs": 1, "clip_ratio": 0.2, "use_kl_loss": False,
            "optim": {"lr": 1e-6, "lr_warmup_steps": -1, "lr_warmup_steps_ratio": 0.1},
        },
        "rollout": {"n": 8},
        "model": {"path": "org/model"},
    },
    "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
    "trainer": {"experiment_name": "exp"},
}  # fmt: skip


def lines(*rows):
    """Return console lines behind a Ray prefix."""
    return "".join(f"(TaskRunner pid=7) {row}\n" for row in rows)


def with_config(**changes):
    """Return files: a file log of 20 steps and a Hydra configuration beside it."""
    config = json.loads(json.dumps(CONFIG))
    for name, value in changes.items():
        *path, last = name.split("__")
        here = config
        for part in path:
            here = here[part]
        here[last] = value
    rows = [{"step": s, "data": {"critic/score/mean": s / 100, "actor/lr": 1e-6}} for s in
            range(1, 21)]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return {"exp.jsonl": text, ".hydra/config.yaml": json.dumps(config)}


def test_colours_and_worker_prefixes_are_no_metrics(tmp_path):
    """Case 25: step, validation and gradient are read; pid and ip never become numbers."""
    text = (
        "\x1b[36m(TaskRunner pid=4242, ip=10.0.0.7)\x1b[0m step:10 - "
        "val-core/toy/acc/mean@1:0.412 - actor/grad_norm:0.310\n"
    )
    runs = read(tmp_path, {"train.log": text}, batch_size=4)
    assert curve(runs) == [(40, 0.412)]
    assert runs.steps["grad_norm"].tolist() == [0.310]


def test_wrapped_numbers_are_read(tmp_path):
    """Case 26: np.float64(...) and tensor(...) hold numbers, NaN included."""
    text = lines(
        "step:20 - val-core/toy/acc/mean@1:np.float64(0.4125) - "
        "critic/score/mean:np.float32(-1.0) - actor/pg_loss:np.float64(nan) - "
        "actor/grad_norm:tensor(0.5, device='cuda:0')"
    )
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert curve(runs) == [(20, 0.4125)]
    assert runs.steps[["reward", "grad_norm"]].values.tolist() == [[-1.0, 0.5]]
    assert runs.steps["nonfinite"].tolist() == ["loss"]


def test_a_validation_that_cannot_be_parsed_is_not_no_validation(tmp_path):
    """Case 26: the key is there, so its unreadable value is named."""
    text = lines("step:20 - val-core/toy/acc/mean@1:<Mean 0.4> - critic/score/mean:0.5")
    with pytest.raises(NoUsableRuns, match=r"val-core/toy/acc/mean@1 holds no number.*<Mean 0\.4>"):
        read(tmp_path, {"train.log": text}, batch_size=1)


def test_a_rate_rounded_to_nothing_is_unknown(tmp_path):
    """Case 27: lr 0.000 is unknown, and what is nan is non-finite from that step."""
    text = lines(
        "step:83 - actor/lr:0.000 - actor/pg_loss:nan - actor/grad_norm:nan - "
        "critic/score/mean:-1.000 - response_length/mean:257.000"
    )
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert runs.runs["lr"].isna().all()
    assert runs.steps["nonfinite"].tolist() == ["grad_norm,loss"]
    assert {"rounded_lr", "missing_lr"} <= codes(runs)


def test_a_second_launch_in_one_console_wins(tmp_path):
    """Case 31: the restart from 40 replaces step 60; nothing is counted twice."""
    rows = [f"step:{s} - val-core/toy/acc/mean@1:{v:.2f} - critic/score/mean:0.5" for s, v in
            [(20, 0.3), (40, 0.45), (60, 0.62), (60, 0.5), (80, 0.61)]]  # fmt: skip
    banner = "Resuming from /ckpt/global_step_40"
    runs = read(tmp_path, {"train.log": lines(*rows[:3], banner, *rows[3:])}, batch_size=1)
    assert curve(runs) == [(20, 0.3), (40, 0.45), (60, 0.5), (80, 0.61)]


def test_a_resume_below_the_first_logged_step_is_explained_by_its_banner(tmp_path):
    """A log that begins at 41 and resumes from 40 again is no counter reset."""
    rows = [f"step:{s} - critic/score/mean:0.5" for s in (41, 42, 43)]
    text = lines(*rows, "Setting global step to 40", *rows)
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert runs.steps["rollout"].tolist() == [41, 42, 43]
    with pytest.raises(NoUsableRuns, match="step falls 43 -> 41 at row 4"):
        read(tmp_path, {"train.log": lines(*rows, *rows)}, batch_size=1)


def test_two_validation_sets_are_never_chosen_between(tmp_path):
    """Case 32: both keys are named; the one that is mapped is read."""
    text = lines(
        "step:10 - val-core/easy/acc/mean@1:0.80 - val-core/hard/acc/mean@1:0.10 - actor/lr:1e-06"
    )
    with pytest.raises(NoUsableRuns) as caught:
        read(tmp_path, {"train.log": text}, batch_size=1)
    assert "val-core/easy/acc/mean@1, val-core/hard/acc/mean@1" in str(caught.value)
    hard = {"accuracy": ("val-core/hard/acc/mean@1",)}
    assert curve(read(tmp_path, {"train.log": text}, batch_size=1, map=hard)) == [(10, 0.1)]


def test_a_key_renamed_in_mid_run(tmp_path):
    """Case 33: aliases join the series; without them the cut is told."""
    text = lines(
        "step:0 - val/test_score/toy:0.10",
        "step:20 - val/test_score/toy:0.30 - critic/score/mean:0.4",
        "step:40 - val-core/toy/acc/mean@1:0.55 - critic/score/mean:0.5",
    )
    keys = ("val-core/toy/acc/mean@1", "val/test_score/toy")
    runs = read(tmp_path, {"train.log": text}, batch_size=1, map={"accuracy": keys})
    assert curve(runs) == [(0, 0.1), (20, 0.3), (40, 0.55)]
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert curve(runs) == [(40, 0.55)]
    assert "val/test_score/toy ends" in note(runs, "renamed_key").message


def test_progress_bars_glued_to_the_line(tmp_path):
    """Carriage returns of progress bars do not hide or damage a step."""
    text = (
        "Training:  10%|#   | 1/10 [00:05<00:45,  5.00s/it]\rstep:1 - critic/score/mean:0.5\r"
        "Training:  20%|##  | 2/10\n(main_task pid=7) step:2 - critic/score/mean:0.6"
        " [repeated 4x across cluster]\n"
    )
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert runs.steps["reward"].tolist() == [0.5, 0.6]


def test_a_cut_last_value_is_left_out(tmp_path):
    """A file without a final line end may end inside a number: it is not believed."""
    text = lines("step:1 - critic/score/mean:0.512", "step:2 - critic/score/mean:0.5")[:-1]
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert runs.steps["reward"].tolist() == [0.512]
    assert "cut_line" in codes(runs)


def test_a_console_that_stopped_before_its_first_step(tmp_path):
    """A crash before step 1 is 'no metrics', not a run and not a traceback."""
    text = lines("{'actor_rollout_ref': {'rollout': {'n': 8}},", "RuntimeError: out of memory")
    with pytest.raises(NoUsableRuns, match="no metrics"):
        read(tmp_path, {"train.log": text})


def test_a_sibling_folder_without_metrics_is_listed(tmp_path):
    """Case 35: only the head node's folder is a run; the other is 'no metrics'."""
    text = lines(*[f"step:{s} - critic/score/mean:0.5" for s in range(1, 11)])
    files = {"exp_120000/train.log": text, "exp_120003/gpu.log": "gpu 0: 35 C\ngpu 1: 36 C\n"}
    runs = read(tmp_path, files, batch_size=1)
    assert runs.runs["run_id"].tolist() == ["exp_120000"]
    assert [r.reason.split(":")[0] for r in runs.refused] == ["no metrics"]


PRINTED = """{'actor_rollout_ref': {'actor': {'clip_ratio': 0.2,
                                 'clip_ratio_c': 3.0,
                                 'optim': {'betas': [0.9, 0.999],
                                           'lr': 1e-06},
                                 'ppo_epochs': 1,
                                 'ppo_mini_batch_size': 16},
                       'rollout': {'n': 8, 'val_kwargs': {'n': 1}}},
 'critic': {'optim': {'lr': 1e-05}, 'ppo_mini_batch_size': 4},
 'data': {'train_batch_size': 64, 'seed': None}}
"""


def test_a_printed_config_broken_by_other_workers(tmp_path):
    """The configuration is read from the lines of one worker only, nested names kept apart."""
    noisy = []
    for i, line in enumerate(PRINTED.splitlines()):
        noisy.append(f"\x1b[36m(TaskRunner pid=7)\x1b[0m {line}")
        noisy.append(f"(WorkerDict pid={20 + i}) {{'train_batch_size': 1, 'n': 2}}")
        noisy.append("(TaskRunner pid=7) UserWarning: something {else}")
    noisy.append("(TaskRunner pid=7) step:20 - critic/score/mean:0.5")
    runs = read(tmp_path, {"train.log": "\n".join(noisy) + "\n"})
    row = runs.runs.iloc[0]
    assert (row["batch_size"], row["lr"], row["optimizer_steps_per_rollout"]) == (512, 1e-6, 4)
    assert (row["batch_size_from"], row["lr_from"]) == ("config", "config")
    assert runs.steps["responses"].tolist() == [10_240]


def test_overrides_on_the_command_line(tmp_path):
    """Without a printed configuration the launch command still tells the sizes."""
    command = (
        "+ python3 -m verl.trainer.main_ppo data.train_batch_size=64 "
        "actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.optim.lr=1e-6\n"
    )
    text = command + lines("step:1 - critic/score/mean:0.5")
    row = read(tmp_path, {"train.log": text}).runs.iloc[0]
    assert (row["batch_size"], row["lr"], row["clip_high_from"]) == (512, 1e-6, "derived")


@pytest.mark.parametrize(("epochs", "updates"), [(1, 4), (4, 16)], ids=["case-51", "case-52"])
def test_prompts_times_samples_and_epochs(tmp_path, epochs, updates):
    """Cases 51, 52: B = 512 and 10,240 responses after step 20; epochs add updates only."""
    runs = read(tmp_path, with_config(actor_rollout_ref__actor__ppo_epochs=epochs))
    row = runs.runs.iloc[0]
    assert (row["batch_size"], row["prompts_per_rollout"], row["group_size"]) == (512, 64, 8)
    assert row["optimizer_steps_per_rollout"] == updates
    assert runs.steps["responses"].iloc[-1] == 10_240
    assert runs.steps["optimizer_step"].iloc[-1] == 20 * updates
    assert (row["model"], row["task"], row["kl_coef"]) == ("org/model", "gsm8k/train", 0.0)


def test_clipping_is_decided_by_configuration(tmp_path):
    """A wide epsilon with the default dual clip still clips; without it nothing acts."""
    wide = {"actor_rollout_ref__actor__clip_ratio": 1e9}
    row = read(tmp_path / "dual", with_config(**wide)).runs.iloc[0]
    assert (row["clip_dual"], row["clip_dual_from"], row["clip_active"]) == (3.0, "derived", "yes")
    off = {**wide, "actor_rollout_ref__actor__clip_ratio_c": 1e9}
    row = read(tmp_path / "off", with_config(**off)).runs.iloc[0]
    assert (row["clip_dual_from"], row["clip_active"]) == ("config", "no")
    once = {"actor_rollout_ref__actor__ppo_mini_batch_size": 64}
    assert read(tmp_path / "k1", with_config(**once)).runs["clip_active"].tolist() == ["no"]
    capped = {**once, "actor_rollout_ref__actor__tis_imp_ratio_cap": 2.0}
    assert read(tmp_path / "tis", with_config(**capped)).runs["clip_active"].tolist() == ["yes"]


def test_overrides_yaml_goes_before_config_yaml(tmp_path):
    """Hydra's overrides are what the run really used."""
    files = with_config() | {".hydra/overrides.yaml": "- actor_rollout_ref.rollout.n=4\n"}
    assert read(tmp_path, files).runs["batch_size"].tolist() == [256]


def test_a_configuration_of_another_experiment_is_not_taken(tmp_path):
    """Two logs share a folder: only the one that the configuration names gets it."""
    files = with_config()
    files["other.jsonl"] = files["exp.jsonl"].replace("0.05", "0.07")
    runs = read(tmp_path, files)
    assert runs.runs["run_id"].tolist() == ["exp"]
    assert [r.facts for r in runs.refused] == [("batch_size",)]


def test_dynamic_sampling_counts_what_was_generated(tmp_path):
    """Case 57: 2,048 trained on, 4,096 generated; both are in the table."""
    rows = [{"step": s, "data": {"critic/score/mean": 0.5, "train/num_gen_batches": g}} for s, g in
            enumerate((1, 2, 3, 2), start=1)]  # fmt: skip
    config = json.loads(json.dumps(CONFIG))
    config["data"]["train_batch_size"] = 32
    config["actor_rollout_ref"]["rollout"]["n"] = 16
    files = {
        "exp.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        ".hydra/config.yaml": json.dumps(config),
    }
    runs = read(tmp_path, files)
    assert runs.runs["batch_size"].tolist() == [512]
    assert runs.steps["responses"].tolist() == [512, 1536, 3072, 4096]
    assert runs.steps["responses_trained"].tolist() == [512, 1024, 1536, 2048]
    assert "count generated" in note(runs, "filtered_sampling").message


def test_masked_responses_are_generated_but_not_trained_on(tmp_path):
    """Case 59: 1,536 of 2,048 trained on, told because it is above 10 %."""
    rows = [{"step": s, "data": {"critic/score/mean": 0.5, "trajectory_filter/invalid_ratio": 0.25}}
            for s in range(1, 5)]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=512)
    assert runs.steps["responses"].iloc[-1] == 2048
    assert runs.steps["responses_trained"].iloc[-1] == 1536
    assert "25 %" in note(runs, "invalid_responses").message


def test_a_signed_reward_is_a_score(tmp_path):
    """A validation reward from -1 to 1 is not an accuracy, and is told."""
    text = lines("step:0 - val-core/x/reward/mean@1:-0.4", "step:5 - val-core/x/reward/mean@1:0.8")
    runs = read(tmp_path, {"train.log": text}, batch_size=1)
    assert runs.evals["scale"].tolist() == ["score", "score"]
    assert "score_scale" in codes(runs)


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared real logs are not here")


@shared
def test_the_real_resumed_console():
    """Steps 101 to 435 count from 0; 34 validations; settings from the broken printout."""
    runs = read_runs(SHARED / "verl-console-resumed-at-101.log")
    row = runs.runs.iloc[0]
    assert (row["batch_size"], row["group_size"], row["lr"]) == (256, 1, 1e-6)
    assert (row["optimizer_steps_per_rollout"], row["clip_active"]) == (4, "yes")
    assert row["ended"] == "completed"
    assert runs.steps["responses"].iloc[[0, -1]].tolist() == [101 * 256, 435 * 256]
    assert len(runs.steps) == 335
    assert curve(runs)[0] == (110 * 256, 0.892)
    assert curve(runs)[-1] == (435 * 256, 0.867)
    assert len(runs.evals) == 34
    assert runs.steps["lr"].isna().all()
    assert runs.steps["seconds"].isna().all()
    assert {"left_truncated", "not_grpo", "rounded_lr"} <= codes(runs)


@shared
def test_the_real_filtered_console():
    """10 rollouts of 32 prompts x 8; 768 prompts x 8 sampled for 2,560 responses trained on."""
    runs = read_runs(SHARED / "verl-console-grpo-filtered.log")
    row = runs.runs.iloc[0]
    assert (row["batch_size"], row["optimizer_steps_per_rollout"], row["lr"]) == (256, 1, 1e-6)
    assert row["clip_active"] == "no"
    assert runs.steps["responses"].iloc[-1] == 768 * 8
    assert runs.steps["responses_trained"].iloc[-1] == 2560
    assert math.isclose(runs.steps["entropy"].iloc[0], 1.182466983795166)


@shared
def test_the_real_file_log():
    """Three rows of a signed reward; the batch size is asked for and then counted."""
    path = SHARED / "verl-filelogger.jsonl"
    with pytest.raises(NoUsableRuns, match="--batch-size"):
        read_runs(path)
    runs = read_runs(path, ReadOptions(batch_size=128, group_size=8))
    assert runs.steps["responses"].tolist() == [128, 256, 384]
    assert runs.runs["prompts_per_rollout"].tolist() == [16]
    assert runs.steps["reward"].iloc[0] == -0.265625
    assert runs.steps["seconds"].round().tolist() == [116, 205, 291]
