"""The callback in real training: what it says against what the reward function saw."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

trl = pytest.importorskip("trl", reason="TRL is not installed here; `make test-trl` installs it")

from transformers import TrainerCallback  # noqa: E402

import twoclock  # noqa: E402
from tests.trl.tiny import Exact, make_trainer, save_model  # noqa: E402
from twoclock.errors import LogFormatError  # noqa: E402
from twoclock.integrations.trl import TwoClockCallback  # noqa: E402
from twoclock.runlog import read_header  # noqa: E402

pytestmark = [
    pytest.mark.trl,
    # TRL 1.16 asks transformers 5.24 for a name that transformers has renamed
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
]


class Abort(TrainerCallback):
    """Raise an error after a step, as a kill would end training."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        """Raise at the step."""
        if state.global_step == self.step:
            msg = "killed"
            raise RuntimeError(msg)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Save a tiny random model."""
    return save_model(tmp_path_factory.mktemp("trl") / "tiny")


def rows(folder, kind="train"):
    """Return the rows of one kind."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def run(model, folder, *, resume=None, abort=None, reward=None, **settings):
    """Train with the callback, killed after step `abort`; return the reward function."""
    reward = reward or Exact()
    callback = TwoClockCallback(folder, task="sums", model="tiny")
    others = [Abort(abort)] if abort else []
    out = folder.parent / f"out-{folder.name}"
    trainer = make_trainer(model, out, [callback, *others], reward=reward, **settings)
    checkpoint = None if resume is None else str(out / f"checkpoint-{resume}")
    if abort:
        with pytest.raises(RuntimeError, match="killed"):
            trainer.train(resume_from_checkpoint=checkpoint)
        callback.logger.close()  # as the end of the process would
    else:
        trainer.train(resume_from_checkpoint=checkpoint)
    return reward


@pytest.fixture(scope="session")
def trained(model, tmp_path_factory):
    """Train three rollouts of 32 responses, K = 8; return what the reward function saw, too."""
    root = tmp_path_factory.mktemp("runs")
    reward = Exact()
    callback = TwoClockCallback(root / "b32-s5", task="sums", facts={"base_lr": 1e-3})
    with callback:
        trainer = make_trainer(
            model, root / "out", [callback], reward=reward, eval_on_start=True,
            epsilon_high=0.28, delta=4.0, beta=0.01, max_grad_norm=0.5, weight_decay=0.1,
        )  # fmt: skip
        trainer.train()
    return root / "b32-s5", reward, trainer


def test_every_fact_is_what_was_set(trained, model):
    """B in responses, K, epochs, clips, seed, rate, warm-up, KL and the rest come back exactly."""
    folder, _, trainer = trained
    runs = twoclock.read_runs(folder)
    expected = {
        "framework": "trl",
        "model": model,
        "task": "sums",
        "seed": 5,
        "batch_size": 32,
        "group_size": 8,
        "prompts_per_rollout": 4,
        "minibatches": 4,
        "epochs": 2,
        "optimizer_steps_per_rollout": 8,
        "lr": 1e-3,
        "base_lr": 1e-3,
        "lr_schedule": "constant",
        "warmup_responses": 16.0,
        "clip_low": 0.2,
        "clip_high": 0.28,
        "clip_dual": 4.0,
        "clip_active": "yes",
        "kl_coef": 0.01,
        "entropy_coef": 0.0,
        "loss_mean": "token",
        "advantage": "centred/std",
        "temperature": 1.0,
        "grad_clip": 0.5,
        "optimizer": "adamw_torch_fused(0.9,0.999,eps=1e-08,weight_decay=0.1)",
        "n_params": sum(p.numel() for p in trainer.model.parameters()),
        "ended": "completed",
    }
    row = runs.runs.iloc[0]
    assert {name: row[name] for name in expected} == expected


def test_responses_are_those_that_the_reward_function_saw(trained):
    """One row per rollout, its responses and tokens the sampled ones, its reward their mean."""
    folder, reward, trainer = trained
    train = rows(folder)
    assert [r["responses"] for r in train] == [32, 64, 96]
    assert reward.sampled == 96
    assert [r["optimizer_step"] for r in train] == [8, 16, 24]
    assert trainer.state.global_step == 24
    means = [sum(values) / len(values) for values in reward.rewards]
    assert [r["reward"] for r in train] == pytest.approx(means, abs=1e-7)
    lengths = [sum(map(sum, reward.lengths[: i + 1])) for i in range(3)]
    assert [r["tokens"] for r in train] == pytest.approx(lengths, abs=1e-4)


def test_rows_average_the_steps_of_a_rollout(trained):
    """Loss, gradient norm, entropy, KL and clip fraction are means over K steps, lr is not."""
    folder, _, trainer = trained
    history = [h for h in trainer.state.log_history if "loss" in h]
    keys = {
        "loss": "loss", "grad_norm": "grad_norm", "entropy": "entropy", "kl_ref": "kl",
        "clip_fraction": "clip_ratio/region_mean",
    }  # fmt: skip
    for i, row in enumerate(rows(folder)):
        steps = history[8 * i : 8 * i + 8]
        for column, key in keys.items():
            mean = sum(h[key] for h in steps) / 8
            assert row[column] == pytest.approx(mean, rel=1e-9, abs=1e-12)
        assert row["lr"] == steps[-1]["learning_rate"]


def test_validations_are_the_mean_reward_of_the_evaluation(trained):
    """At 0, 32, 64 and 96 responses, over all problems and samples."""
    folder, reward, _ = trained
    evals = twoclock.read_runs(folder).evals
    assert evals.responses.tolist() == [0, 32, 64, 96]
    assert evals.n.tolist() == [128] * 4
    assert set(evals.metric) == {"rewards/exact/mean"}
    seen = [reward.evaluated[128 * i : 128 * i + 128] for i in range(4)]
    assert evals.accuracy.tolist() == pytest.approx([sum(s) / 128 for s in seen], abs=1e-7)


def test_the_trainers_own_log_says_the_same(trained, tmp_path):
    """`trainer_state.json`, read with the settings it lacks, has the same responses and values."""
    folder, _, trainer = trained
    trainer.state.save_to_json(str(tmp_path / "trainer_state.json"))
    metric = "eval_rewards/exact/mean"
    options = twoclock.ReadOptions(batch_size=32, map={"accuracy": (metric,)}, group_size=8)
    theirs = twoclock.read_runs(tmp_path, options)
    ours = twoclock.read_runs(folder)
    assert theirs.evals.responses.tolist() == ours.evals.responses.tolist()
    assert theirs.evals.accuracy.tolist() == ours.evals.accuracy.tolist()
    assert theirs.runs.optimizer_steps_per_rollout[0] == 8


def test_logging_steps_change_no_row(trained, model, tmp_path):
    """With a log every 10 steps only, each rollout still has its own values."""
    run(
        model, tmp_path / "a", eval_on_start=True, logging_steps=10, epsilon_high=0.28, delta=4.0,
        beta=0.01, max_grad_norm=0.5, weight_decay=0.1,
    )  # fmt: skip
    names = ("responses", "reward", "loss", "entropy", "kl_ref", "response_tokens", "lr")
    for mine, theirs in zip(rows(tmp_path / "a"), rows(trained[0]), strict=True):
        assert [mine[n] for n in names] == pytest.approx([theirs[n] for n in names], rel=1e-6)


def test_a_rollout_that_max_steps_cuts_off_counts_in_full(model, tmp_path):
    """20 steps of K = 8: the third rollout was sampled whole and has 4 steps, one pass."""
    reward = run(model, tmp_path / "a", max_steps=20, eval_strategy="no")
    train = rows(tmp_path / "a")
    assert [r["responses"] for r in train] == [32, 64, 96]
    assert reward.sampled == 96
    assert [r["optimizer_step"] for r in train] == [8, 16, 20]
    reward = run(model, tmp_path / "b", max_steps=18, eval_strategy="no")
    assert rows(tmp_path / "b")[-1]["responses_trained"] == 64 + 16


def test_validations_within_a_rollout_count_its_responses(model, tmp_path):
    """Evaluated every 4 steps of K = 8, the responses sampled by then stand in the row."""
    run(model, tmp_path / "a", eval_steps=4, max_steps=16)
    seen = [(r["rollout"], r["responses"]) for r in rows(tmp_path / "a", "eval")]
    assert seen == [(1, 32), (1, 32), (2, 64), (2, 64)]
    assert twoclock.read_runs(tmp_path / "a").evals.responses.tolist() == [32, 64]


def test_several_generations_of_one_step_are_one_rollout(model, tmp_path):
    """Accumulation 4 over generations of 8 responses: B = 32, K = 1, clipping cannot act."""
    reward = run(
        model, tmp_path / "a", gradient_accumulation_steps=4, steps_per_generation=1,
        num_iterations=1, max_steps=3, eval_strategy="no",
    )  # fmt: skip
    header = read_header(tmp_path / "a")
    assert (header["batch_size"], header["optimizer_steps_per_rollout"]) == (32, 1)
    assert header["clip_active"] == "no"
    assert [r["responses"] for r in rows(tmp_path / "a")] == [32, 64, 96]
    assert reward.sampled == 96


def test_accumulated_steps_are_counted_once(model, tmp_path):
    """Accumulation 2, 4 slices, 2 iterations: K = 4 over 32 responses."""
    reward = run(
        model, tmp_path / "a", gradient_accumulation_steps=2, max_steps=8, eval_strategy="no"
    )
    header = read_header(tmp_path / "a")
    assert (header["batch_size"], header["optimizer_steps_per_rollout"]) == (32, 4)
    assert (header["minibatches"], header["epochs"]) == (2, 2)
    assert [r["responses"] for r in rows(tmp_path / "a")] == [32, 64]
    assert reward.sampled == 64


def test_a_killed_run_is_resumed_at_a_rollout(model, tmp_path):
    """Killed in rollout 3, resumed after rollout 2: rows and counts as if never stopped."""
    settings = {"save_strategy": "steps", "save_steps": 16}
    run(model, tmp_path / "a", abort=20, **settings)
    assert read_header(tmp_path / "a")["ended"] == "unknown"
    run(model, tmp_path / "a", resume=16, **settings)
    run(model, tmp_path / "whole", **settings)
    timed = ("seconds", "eval_seconds")
    for kind in ("train", "eval"):
        again, whole = (
            [{k: v for k, v in r.items() if k not in timed} for r in rows(tmp_path / name, kind)]
            for name in ("a", "whole")
        )
        assert [r["responses"] for r in again] == [r["responses"] for r in whole]
        assert again[:2] == whole[:2]
    assert {**read_header(tmp_path / "a"), "run_id": "whole"} == read_header(tmp_path / "whole")


def test_resuming_within_a_rollout_counts_both_samplings(model, tmp_path):
    """TRL samples a rollout anew where it resumes; the log counts what the reward function saw."""
    settings = {"save_strategy": "steps", "save_steps": 12, "eval_steps": 4}
    reward = Exact()
    run(model, tmp_path / "a", abort=15, reward=reward, **settings)
    before = reward.sampled  # rollout 2, sampled before the checkpoint
    run(model, tmp_path / "a", resume=12, reward=reward, **settings)
    train = rows(tmp_path / "a")
    assert before == 64
    assert [r["optimizer_step"] for r in train] == [8, 12, 20, 24]
    assert [r["responses"] for r in train] == [32, 64, 96, 128]
    assert reward.sampled == 128
    evals = [(r["rollout"], r["responses"]) for r in rows(tmp_path / "a", "eval")]
    assert evals == [(1, 32), (1, 32), (2, 64), (3, 96), (3, 96), (4, 128)]
    assert twoclock.read_runs(tmp_path / "a").steps.responses.tolist() == [32, 64, 96, 128]


def test_a_restored_callback_goes_on_too(model, tmp_path):
    """Where the trainer rebuilds callbacks from the checkpoint, the log is the same."""
    settings = {
        "save_strategy": "steps", "save_steps": 16, "eval_strategy": "no",
        "restore_callback_states_from_checkpoint": True,
    }  # fmt: skip
    run(model, tmp_path / "a", abort=20, **settings)
    run(model, tmp_path / "a", resume=16, **settings)
    assert [r["responses"] for r in rows(tmp_path / "a")] == [32, 64, 96]
    assert read_header(tmp_path / "a")["ended"] == "completed"


def test_a_run_killed_before_its_first_checkpoint_begins_again(model, tmp_path):
    """Training from the start drops the rows of the abandoned attempt."""
    run(model, tmp_path / "a", abort=12, max_steps=16)
    run(model, tmp_path / "a", max_steps=16)
    assert [r["responses"] for r in rows(tmp_path / "a")] == [32, 64]
    with pytest.raises(LogFormatError, match="holds a completed run"):
        run(model, tmp_path / "a", max_steps=16)


def test_a_crash_is_recorded_and_goes_on(model, tmp_path):
    """Inside the `with` block an error of training makes the run crashed."""
    callback = TwoClockCallback(tmp_path / "a")
    with pytest.raises(RuntimeError, match="killed"), callback:
        make_trainer(model, tmp_path / "out", [callback, Abort(9)]).train()
    assert read_header(tmp_path / "a")["ended"] == "crashed"
    assert len(rows(tmp_path / "a")) == 1


def test_a_run_that_is_stopped_early_says_so(model, tmp_path):
    """An end before `max_steps` is stopped, not completed."""

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 8

    callback = TwoClockCallback(tmp_path / "a")
    make_trainer(model, tmp_path / "out", [callback, Stop()]).train()
    assert read_header(tmp_path / "a")["ended"] == "stopped"


def test_evaluations_before_and_after_training_are_kept(model, tmp_path):
    """A base accuracy and a last one that are asked for by hand stand in the log."""
    callback = TwoClockCallback(tmp_path / "a", facts={"eval_size": 128})
    trainer = make_trainer(model, tmp_path / "out", [callback], max_steps=8, eval_steps=100)
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    assert [r["responses"] for r in rows(tmp_path / "a", "eval")] == [0, 32, 32]
    assert read_header(tmp_path / "a")["ended"] == "completed"


def test_a_checkpoint_without_the_callback_is_refused(model, tmp_path):
    """Responses before it are not known, and are not guessed."""
    make_trainer(model, tmp_path / "out-a", [], max_steps=8, save_strategy="steps", save_steps=8,
                 eval_strategy="no").train()  # fmt: skip
    with pytest.raises(LogFormatError, match="step 8 was saved without this callback"):
        run(model, tmp_path / "a", resume=8, eval_strategy="no")


def test_several_reward_functions_need_a_name(model, tmp_path):
    """Which of them is the accuracy is asked at the first step, and can be said."""

    def length(completions, **_):
        return [float(len(c)) for c in completions]

    def train(name, accuracy):
        callback = TwoClockCallback(tmp_path / name, accuracy=accuracy, right_answer=2.0)
        rewards = [Exact(), length]
        with callback:
            make_trainer(model, tmp_path / "out", [callback], reward=rewards, max_steps=8).train()

    with pytest.raises(LogFormatError, match="several reward functions; say which"):
        train("a", None)
    with pytest.raises(LogFormatError, match="no metric 'rewards/exakt/mean'"):
        train("b", "rewards/exakt/mean")
    train("c", "rewards/exact/mean")
    (row,) = rows(tmp_path / "c", "eval")
    assert 0 <= row["accuracy"] <= 0.5


def test_a_loss_that_is_nan_is_seen(model, tmp_path):
    """With `logging_nan_inf_filter` off, a diverged run has its loss named as not finite."""
    run(
        model, tmp_path / "a", learning_rate=1e38, warmup_steps=0, max_steps=8,
        lr_scheduler_type="constant", eval_strategy="no", logging_nan_inf_filter=False,
        reward=Exact(),
    )  # fmt: skip
    assert "loss" in rows(tmp_path / "a")[0]["nonfinite"]


def test_two_processes_are_one_run(model, tmp_path):
    """B counts the responses of both processes, which one of them logs."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = ["-m", "tests.trl.two_processes", str(tmp_path), model]
    subprocess.run([*command, *script], check=True, cwd=Path(__file__).parents[2], timeout=300)
    seen = [json.loads((tmp_path / f"rank{i}.json").read_text()) for i in (0, 1)]
    train, evals = rows(tmp_path / "run"), rows(tmp_path / "run", "eval")
    assert read_header(tmp_path / "run")["batch_size"] == 32
    assert [(r["optimizer_step"], r["responses"]) for r in train] == [(4, 32), (8, 64)]
    assert sum(s["sampled"] for s in seen) == 64
    assert sum(r["accuracy"] * r["n"] for r in evals) == pytest.approx(
        sum(s["right"] for s in seen)
    )


def test_logged_runs_go_through_the_analysis(model, tmp_path):
    """Unclipped runs of two sizes, square-root rule, make one stratum of the failure clock."""
    for size in (16, 64):
        run(
            model, tmp_path / "runs" / f"b{size}", per_device_train_batch_size=size // 4,
            num_iterations=1, max_steps=24, eval_steps=4, eval_on_start=True, epsilon=1e9,
            learning_rate=1e-2 * (size / 64) ** 0.5, lr_scheduler_type="constant",
        )  # fmt: skip
    runs = twoclock.read_runs(tmp_path / "runs")
    failures = twoclock.find_failures(runs.runs, runs.steps, runs.evals).events
    assert failures.batch_size.tolist() == [16, 64]
    assert set(failures.clip_active) == {"no"}
    (fit,) = twoclock.analyse(runs, twoclock.Settings(draws=100)).failure
    assert fit.stratum["framework"] == "trl"
    assert fit.stratum["base_lr"] == pytest.approx(5e-3)
    assert fit.status == "not_identified"
