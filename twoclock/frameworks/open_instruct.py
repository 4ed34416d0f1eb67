"""open-instruct (`grpo_fast.py`).

- A step is one rollout (`training_step`, from 1); `episode` counts the responses sampled for it,
  and `global_step` is another name of `episode`.
- `num_unique_prompts_rollout` counts prompts.
- A validation at step s is asked for before the update of step s and logged after it; sampling is
  asynchronous, so its weights may be those of either side. It is counted after step s. There is
  one at step 1 with `eval_on_step_0`.

Read in the source of open-instruct of July 2025 to August 2026. Keys below `val/` are statistics of
the training data; validations are below `eval/`. A right answer scores `verification_reward` (10
by default).
"""

from __future__ import annotations

import math

from twoclock.frameworks.base import Facts, Framework, Setting
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound_above_zero,
    chosen,
    count,
    described,
    drop_clips,
    fact_number,
    named,
    not_negative,
    numeric,
    positive,
    put,
    put_clips,
    switch,
    text,
    whole,
)

_MASKING = ("dppo", "tvpo")
"""Loss functions that mask tokens instead of clipping the ratio."""


def _mean(value: object) -> str | None:
    if value == "token":
        return "token"
    return "constant" if numeric(value) is not None else None


def _task(value: object) -> str | None:
    """Return the data sets of a mixture, which stand in turn with their shares."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        return None
    return "+".join(part for part in value if text(part) and numeric(part) is None) or None


def _complete(facts: Facts, config: Flat) -> None:
    loss = text(config.get("loss_fn"))
    if loss == "cispo":  # the ratio itself is cut
        high = fact_number(facts, "clip_high")
        put_clips(facts, math.inf, math.inf, 1 + (0.2 if high is None else high))
    elif loss in _MASKING:
        drop_clips(facts)
    caps = ("truncated_importance_sampling_ratio_cap", "tis_mask_lower", "tis_mask_upper")
    if loss in _MASKING or any(positive(config.get(name)) for name in caps):
        put(facts, "clip_active", "yes")
    if switch(config.get("async_mode")) is False:
        put(facts, "synchronous", "yes")
    if "learning_rate" in config:
        put(facts, "optimizer", described("adamw", decay=config.get("weight_decay")))


OPEN_INSTRUCT = Framework(
    name="open-instruct",
    writes=(
        ("objective/verifiable_reward",),
        ("objective/verifiable_correct_rate",),
        ("training_step", "episode", "scores"),
        ("policy/clipfrac_avg", "val/sequence_lengths"),
        ("val/sequence_lengths", "val/stop_rate"),
        ("eval/scores", "eval/sequence_lengths"),
    ),
    configures=(("num_unique_prompts_rollout",), ("num_samples_per_prompt_rollout",)),
    steps={"training_step": 1},
    schedule_counts="optimizer",
    synchronous=False,
    columns={
        "reward": ("scores", "objective/scores", "objective/verifiable_reward"),
        "clip_fraction": ("policy/clipfrac_avg",),
        "kl_ref": (
            "objective/kl2_avg", "objective/kl3_avg", "objective/kl_avg", "objective/kl1_avg",
            "objective/kl0_avg",
        ),
        "kl_old": ("policy/approxkl_avg", "debug/vllm_local_reverse_kl"),
        "entropy": ("policy/entropy_avg",),
        "grad_norm": ("optim/grad_norm",),
        "ratio_mean": ("val/ratio",),
        "response_tokens": ("val/sequence_lengths",),
        "loss": ("loss/policy_avg", "loss/total_avg"),
        "lr": ("lr",),
        "rollout_seconds": ("time/getting_response", "time/trainer_idling"),
        "update_seconds": ("time/training",),
    },
    accuracy=(("eval/pass_at_1",),),
    scores=(("eval/scores",),),
    never_validation=("val/*",),
    responses_total=("episode", "global_step"),
    settings=(
        Setting("prompts_per_rollout", ("num_unique_prompts_rollout",), count),
        Setting("group_size", ("num_samples_per_prompt_rollout",), count),
        Setting("minibatches", ("num_mini_batches",), count),
        Setting("epochs", ("num_epochs",), count),
        Setting("lr", ("learning_rate",), positive),
        Setting("lr_schedule", ("lr_scheduler_type",), text),
        Setting("warmup_steps", ("warm_up_steps", "warmup_steps"), positive),
        Setting("warmup_ratio", ("warmup_ratio",), not_negative),
        Setting("clip_low", ("clip_lower", "cliprange"), numeric),
        Setting("clip_high", ("clip_higher", "cliprange"), numeric),
        Setting("kl_coef", ("beta",), not_negative),
        Setting("loss_mean", ("loss_denominator",), _mean),
        Setting("loss_mean", ("masked_mean_denominator",), _mean),
        Setting("loss_mean", ("masked_mean_axis",), chosen("sequence", "token")),
        Setting(
            "advantage", ("advantage_normalization_type",),
            named({"standard": "centred/std", "centered": "centred"}),
        ),
        Setting("temperature", ("temperature",), positive),
        Setting("grad_clip", ("max_grad_norm",), bound_above_zero),
        Setting("seed", ("seed",), whole),
        Setting("model", ("model_name_or_path",), text),
        Setting("task", ("dataset_mixer_list", "dataset_mixer"), _task),
        Setting("score_scale", ("verification_reward",), positive),
    ),
    defaults={
        "minibatches": 1, "epochs": 1, "clip_dual": float("inf"), "entropy_coef": 0.0,
        "loss_mean": "token",
    },
    complete=_complete,
)  # fmt: skip
