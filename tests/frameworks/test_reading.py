"""Whole logs of frameworks whose rows say more than their steps do."""

import json

import pytest

from tests.frameworks.examples import PRIME, SLIME_CONFIG
from tests.reading import curve, read
from twoclock.frameworks.verl import VERL


def log(rows, config):
    return {"metrics.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
            "config.json": json.dumps(config)}  # fmt: skip


def test_batches_that_vary_are_counted_by_the_log(tmp_path):
    """Batches of prime-rl hold more than was asked for: validations stand at the logged totals."""
    sizes = [520, 512, 530, 512]
    rows = [{"step": 0, "eval/aime/effective/agent/avg@4": 0.05}]
    for step, size in enumerate(sizes, start=1):
        before = sum(sizes[: step - 1])
        rows.append({"step": step, "train/agg/effective/reward/mean": 0.1, "progress/tasks": 3,
                     "progress/rollouts": size, "progress/total_rollouts": before})  # fmt: skip
    rows.append({"step": 2, "eval/aime/effective/agent/avg@4": 0.2})
    rows.append({"step": 4, "eval/aime/effective/agent/avg@4": 0.4})
    runs = read(tmp_path, log(rows, PRIME))
    assert curve(runs) == [(0, 0.05), (1032, 0.2), (2074, 0.4)]
    assert runs.steps["responses"].tolist() == [520, 1032, 1562, 2074]


def test_a_loss_that_the_log_leaves_out_is_not_finite(tmp_path):
    """Lines of prime-rl leave out a NaN loss; loss/nan_count tells the step where it was."""
    rows = [{"step": s, "loss/mean": 0.1, "loss/nan_count": 0, "optim/lr": 1e-6,
             "mismatch_kl/all/mean": 0.0} for s in range(3)]  # fmt: skip
    rows.append({"step": 3, "loss/nan_count": 5, "optim/lr": 1e-6})
    runs = read(tmp_path, log(rows, PRIME))
    assert runs.steps["nonfinite"].fillna("").tolist() == ["", "", "", "loss"]


def test_three_clocks_make_one_run(tmp_path):
    """Rollouts, optimizer steps and validations meet on the responses of each rollout."""
    rows = [{"eval/step": 0, "eval/aime": 0.1}]
    for rollout in range(3):
        rows.append({"rollout/step": rollout, "rollout/raw_reward": 0.1 * rollout})
        rows += [{"train/step": 2 * rollout + k, "train/pg_loss": 0.1 + k, "train/grad_norm": 1.0}
                 for k in (0, 1)]  # fmt: skip
    rows.append({"eval/step": 2, "eval/aime": 0.4})
    runs = read(tmp_path, log(rows, SLIME_CONFIG))
    assert curve(runs) == [(0, 0.1), (768, 0.4)]
    assert runs.steps["responses"].tolist() == [256, 512, 768]
    assert runs.steps["optimizer_step"].tolist() == [2, 4, 6]
    assert runs.steps["loss"].tolist() == [1.1, 1.1, 1.1]


def test_every_spelling_of_a_verl_score_is_one_key():
    """A file, MLflow and tensorboardX write the number of samples in three ways."""
    keys = ("val-core/a/acc/mean@8", "val-core/a/acc/mean_at_8", "val-core/a/acc/mean_8")
    assert {VERL.plain(key) for key in keys} == {keys[0]}
    assert VERL.plain("val-aux/a/acc/best_4/mean") == "val-aux/a/acc/best@4/mean"
    assert VERL.plain("critic/score/mean") == "critic/score/mean"


@pytest.mark.parametrize(
    ("key", "metric", "scale"),
    [
        ("eval_rewards/accuracy_reward/mean", "eval_rewards/accuracy_reward/mean", "accuracy"),
        ("eval/rewards/accuracy_reward/mean", "eval_rewards/accuracy_reward/mean", "accuracy"),
        ("eval_rewards/correctness_reward_func/mean", "eval_reward", "score"),
    ],
)
def test_a_reward_function_called_accuracy_is_one(tmp_path, key, metric, scale):
    """TRL's sum of rewards is a score; the part that is named an accuracy is the accuracy."""
    total = "eval/reward" if key.startswith("eval/") else "eval_reward"
    row = {"completions/mean_length": 9.0, "reward_std": 0.1, "reward": 0.5}
    rows = [{"step": s, **row, total: 0.3 * s, key: 0.1 * s} for s in (1, 2, 3)]
    runs = read(tmp_path, {"m.jsonl": "".join(json.dumps(r) + "\n" for r in rows)}, batch_size=8)
    assert runs.evals["metric"].unique().tolist() == [metric]
    assert runs.evals["scale"].unique().tolist() == [scale]
