"""Which keys of which log mean which column: one table, first match wins.

A pattern is an exact key, or has ``*`` for any text. To teach twoclock a new key, add it here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from twoclock.frameworks import FRAMEWORKS
from twoclock.frameworks.patterns import any_of
from twoclock.schema import RUNS, STEPS

STEP_KEYS = (
    "training/global_step", "train/global_step", "trainer/global_step", "rollout", "step",
    "training_step", "iteration", "iter", "global_step", "rollout/step", "train/step",
    "eval/step", "system/step", "progress/batch", "Step", "update", "_step",
)  # fmt: skip
"""Keys that count steps, best first: a trainer's own counter before a logger's."""

RESPONSES_TOTAL = ("responses", "episode", "progress/total_samples")
"""Keys that hold the responses generated so far."""

RESPONSES_EACH = (
    "rollout/num_samples", "system/responses", "data/num_rollouts", "env/all/total_episodes",
)  # fmt: skip
"""Keys that hold the responses generated in this rollout alone."""

GENERATED_BATCHES = ("train/num_gen_batches",)
"""Generation batches behind one training batch (dynamic sampling)."""

SAMPLED_PROMPTS = ("rollout/total_num_samples",)
"""Prompts or responses sampled for one training batch (filtering forks)."""

INVALID_SHARE = ("trajectory_filter/invalid_ratio",)
"""Share of the generated responses that is masked out of the training."""

STEP_SECONDS = ("timing_s/step", "perf/time_per_step", "iter_time_s", "time/total")
"""Wall time of one rollout with its update, which adds up to the time since the start."""

STEP_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "optimizer_step": ("optimizer_step",),
    "responses_trained": ("responses_trained",),
    "tokens": ("tokens",),
    "flops": ("flops",),
    "seconds": ("seconds",),
    "rollout_seconds": ("rollout_seconds", "timing_s/gen"),
    "update_seconds": ("update_seconds", "timing_s/update_actor"),
    "reward": (
        "critic/score/mean", "rollout/raw_reward", "reward/avg_raw_reward",
        "ppo_actor/task_reward/avg", "rollout/reward_mean", "train/reward", "reward",
        "reward/all/mean", "reward/mean", "mean_reward", "train_reward", "scores",
        "env/all/reward/total", "rewards", "reward/selected_mean", "reward_mean", "avg_reward",
        "average_reward", "rewards_mean", "rewards_avg", "reward_avg", "mean_rewards",
    ),
    "clip_fraction": (
        "actor/pg_clipfrac", "clip_ratio/region_mean", "clip_ratio", "clip_fraction",
        "ppo_clip_ratio", "policy/clipfrac_avg", "policy/clip_ratio", "policy/ppo_clip_ratio",
        "ppo_actor/update/clip_ratio/avg", "train/pg_clipfrac", "actor/ppo_ratio_clipfrac",
        "clipfrac", "clip_frac", "is_masked/mean",
    ),
    "kl_ref": (
        "actor/kl_loss", "kl", "kl_ref", "train/kl", "train/kl_loss", "train/kl_penalty",
        "policy/policy_kl", "objective/kl2_avg", "critic/kl", "kl_loss", "mean_kl", "kl_mean",
        "kl_avg", "avg_kl", "kl_div", "kl_divergence",
    ),
    "kl_old": (
        "actor/ppo_kl", "ppo_kl", "kl_old", "train/ppo_kl", "ppo_actor/update/approx_kl/avg",
        "actor/approxkl", "approx_policy_kl", "approx_kl",
    ),
    "entropy": (
        "actor/entropy", "actor/entropy_loss", "entropy", "train/entropy", "entropy/all/mean",
        "entropy/mean", "policy/entropy_avg", "policy/policy_entropy", "train/approx_entropy",
        "train/entropy_loss", "entropy_loss", "ppo_actor/update/entropy/avg", "optim/entropy",
        "critic/entropy/mean", "mean_entropy", "entropy_mean", "avg_entropy",
    ),
    "grad_norm": (
        "actor/grad_norm", "grad_norm", "train/grad_norm", "actor_grad_norm", "optim/grad_norm",
        "policy/raw_grad_norm", "policy/grad_norm", "ppo_actor/update/grad_norm",
        "actor_train/grad_norm",
    ),
    "ratio_mean": (
        "ratio_mean", "train/probs_ratio", "ppo_actor/update/importance_weight/avg",
        "actor/ratio_mean", "ratios", "train/ois",
    ),
    "ratio_max": ("ratio_max", "actor/ratio_max", "train/probs_ratio_max"),
    "response_tokens": (
        "response_length/mean", "completions/mean_length", "completion_length",
        "response_tokens", "rollout/response_length_mean", "response_length",
        "rollout/response_lengths", "train/mean_gen_tokens_per_sample", "val/sequence_lengths",
        "generate/avg_num_tokens", "token/response_length/mean", "tokens/response_length/mean",
        "length/mean", "env/all/ac_tokens_per_turn", "response_lengths",
        "mean_response_length", "avg_response_length", "mean_completion_length",
        "avg_completion_length", "response_length_mean", "avg_response_len",
    ),
    "loss": (
        "actor/pg_loss", "loss", "train/loss", "policy_loss", "policy/policy_loss",
        "actor/loss", "train/pg_loss", "loss/mean", "ppo_actor/update/actor_loss/avg", "pg_loss",
        "loss_pg", "actor_loss",
    ),
    "lr": (
        "actor/lr", "learning_rate", "lr", "train/learning_rate", "train/lr", "optim/lr",
        "actor_lr", "policy/policy_lr", "ppo_actor/update/lr", "train/lr-pg_0",
    ),
}  # fmt: skip

ACCURACY = (
    (
        "val_acc", "val/acc", "val_accuracy", "val/accuracy", "valid_acc",
        "eval_acc", "eval/acc", "eval_accuracy", "eval/accuracy", "validation_accuracy",
        "validation/accuracy", "test_acc", "test/acc", "test_accuracy", "test/accuracy",
        "val-acc", "eval-acc", "validation/acc",
    ),
    ("val-core/*/acc/mean@*", "val-core/*/acc/mean_at_*"),
    ("val-core/*/reward/mean@*", "val-core/*/reward/mean_at_*"),
    ("val/test_score/*",),
    ("eval/eval_*_pass1", "eval_*_pass1"),
    ("eval/all/avg_score",),
    ("eval/pass_at_1",),
    ("eval/*/avg@*",),
    ("val_correct/all/mean",),
    ("test/env/all/correct",),
)  # fmt: skip
"""Keys of a validation accuracy, in tiers: two different keys in one tier are ambiguous."""

PLAIN_ACCURACY = "accuracy"
"""Taken for the validation where no other key looks like one; else it may be the training's."""

SCORES = (
    ("eval_reward", "eval/reward"), ("eval-rollout/reward",), ("eval/scores",), ("val_reward",),
    ("val/reward",), ("test/env/all/reward/total",),
)  # fmt: skip
"""Keys of a validation reward: read as a score, never as an accuracy, unless the user says so."""

ACCURACY_N = ("n", "eval_n", "val_n", "eval_num_samples", "eval_n_scored")

_VALIDATION = re.compile(
    r"(?:val|valid|validation|eval|evaluation|test)(?:[-_./@].*)?"
    r"|(?:acc|accuracy|pass_rate|pass@\d+|score|reward)[-_](?:val|valid|validation|eval|test)",
    re.I,
)
_NOT_A_SCORE = re.compile(
    r"time|second|runtime|per_second|length|len$|loss|std|token|(?:^|[_/])n(?:$|_)|num|count"
    r"|step$|epoch|ratio|kl|entropy|seq|stop_rate|rho|/min$|/max$|aux|clip|solve_rate",
    re.I,
)


def looks_like_validation(key: str) -> bool:
    """Tell whether a key looks like a score of a validation, by its first word.

    Examples
    --------
    >>> looks_like_validation("eval_math_acc"), looks_like_validation("eval_runtime")
    (True, False)
    """
    return _VALIDATION.fullmatch(key) is not None and _NOT_A_SCORE.search(key) is None


RUN_NUMBERS = tuple(c.name for c in RUNS.columns if c.kind != "str" and c.name not in ("lr",))
"""`runs` columns that a row of a table may carry beside its metrics."""

RUN_TEXTS = ("framework", "model", "task", "optimizer", "lr_schedule", "ended")

_EXACT = frozenset(
    key
    for keys in (
        STEP_KEYS, RESPONSES_TOTAL, RESPONSES_EACH, GENERATED_BATCHES, SAMPLED_PROMPTS,
        INVALID_SHARE, ACCURACY_N, RUN_NUMBERS, tuple(STEPS.names), STEP_SECONDS,
        (PLAIN_ACCURACY,), *STEP_COLUMNS.values(), *SCORES,
        *(framework.keys for framework in FRAMEWORKS),
    )
    for key in keys
)  # fmt: skip
_GLOBS = any_of((
    *(glob for tier in ACCURACY for glob in tier),
    *(key for framework in FRAMEWORKS for key in framework.keys if "*" in key),
))  # fmt: skip
_OF_FRAMEWORKS = [(framework.plain, any_of(framework.keys)) for framework in FRAMEWORKS]


def _is_known(key: str) -> bool:
    return key in _EXACT or looks_like_validation(key) or _GLOBS.fullmatch(key) is not None


@functools.lru_cache(maxsize=50_000)
def plain_name(key: str) -> str:
    """Return the name that home-made trainers mean by one in capitals or several words.

    Examples
    --------
    >>> plain_name("Learning Rate"), plain_name("GradNorm"), plain_name("Val Acc"), plain_name("Q")
    ('learning_rate', 'grad_norm', 'val_acc', 'Q')
    """
    name = re.sub(r"[ _]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())).lower()
    return name if name != key and not _is_known(key) and _is_known(name) else key


@functools.lru_cache(maxsize=50_000)
def is_wanted(key: str) -> bool:
    """Tell whether any column may be read from this key, as it stands or as a framework's own."""
    if _is_known(key) or plain_name(key) != key:
        return True
    return any(
        plain != key and (plain in _EXACT or keys.fullmatch(plain) is not None)
        for plain_of, keys in _OF_FRAMEWORKS
        if (plain := plain_of(key))
    )
