"""NeMo-RL.

- A step is one rollout; rows carry the number of finished rollouts, so the first is 1.
- `grpo.num_prompts_per_step` counts prompts and `policy.train_global_batch_size` responses.
- A validation at step s is measured after s rollouts, with `val_at_start` also at 0. Its
  "accuracy" is the mean reward of the environment: for a verifier that pays 0 or 1 the accuracy.

Read in the source of NeMo-RL of June 2025 to August 2026. There is no clip fraction. A run that is
started again writes into a new folder `exp_NNN`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from twoclock.frameworks.base import Facts, Framework, Setting
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound,
    bound_above_zero,
    chosen,
    count,
    described,
    fact_number,
    not_negative,
    numeric,
    on,
    positive,
    put,
    put_clips,
    switch,
    text,
    whole,
)
from twoclock.frameworks.verl import data_set

_MEGATRON = "policy.megatron_cfg"
_SHORT = {"ConstantLR": "constant", "CosineAnnealingLR": "cosine", "LinearLR": "linear"}


def _complete(facts: Facts, config: Flat) -> None:
    megatron = on(config, f"{_MEGATRON}.enabled")
    (_megatron_rates if megatron else _torch_rates)(facts, config)
    _clips(facts, config)
    baseline = on(config, "grpo.use_leave_one_out_baseline")
    divided = switch(config.get("grpo.normalize_rewards"))
    if divided is not None:
        name = "centred/std" if divided else "centred"
        put(facts, "advantage", f"{name}, leave one out" if baseline else name)
    asynchronous = switch(config.get("grpo.async_grpo.enabled"))
    if asynchronous is not None:
        put(facts, "synchronous", "no" if asynchronous else "yes")


def _clips(facts: Facts, config: Flat) -> None:
    if on(config, "loss_fn.disable_ppo_ratio"):
        put_clips(facts, math.inf, math.inf, math.inf)
    elif on(config, "loss_fn.use_cispo"):  # the ratio itself is cut
        put_clips(facts, math.inf, math.inf, 1 + (fact_number(facts, "clip_high") or 0.2))
    if on(config, "loss_fn.force_on_policy_ratio"):
        put(facts, "clip_active", "no")
    cut = positive(config.get("loss_fn.truncated_importance_sampling_ratio"))
    if cut is not None and on(config, "loss_fn.use_importance_sampling_correction"):
        put(facts, "clip_active", "yes")


def _megatron_rates(facts: Facts, config: Flat) -> None:
    place = f"{_MEGATRON}.optimizer"
    put(facts, "lr", positive(config.get(f"{place}.lr")))
    put(facts, "grad_clip", bound_above_zero(config.get(f"{place}.clip_grad", "")))
    betas = [config.get(f"{place}.adam_beta1"), config.get(f"{place}.adam_beta2")]
    put(facts, "optimizer", described(
        config.get(f"{place}.optimizer"), betas=betas, eps=config.get(f"{place}.adam_eps"),
        decay=config.get(f"{place}.weight_decay"),
    ))  # fmt: skip
    put(facts, "lr_schedule", text(config.get(f"{_MEGATRON}.scheduler.lr_decay_style")))
    put(facts, "warmup_steps", not_negative(config.get(f"{_MEGATRON}.scheduler.lr_warmup_iters")))


def _torch_rates(facts: Facts, config: Flat) -> None:
    place = "policy.optimizer.kwargs"
    put(facts, "optimizer", described(
        config.get("policy.optimizer.name"), betas=config.get(f"{place}.betas"),
        eps=config.get(f"{place}.eps"), decay=config.get(f"{place}.weight_decay"),
    ))  # fmt: skip
    parts = config.get("policy.scheduler")
    names = [_part_name(part) for part in parts] if isinstance(parts, list) else []
    names = [name for name in names if name]
    if not names:
        put(facts, "lr_schedule", _part_name({"name": config.get("policy.scheduler.name")}))
        return
    put(facts, "lr_schedule", names[-1])
    if len(names) > 1 and names[0] == "linear":
        put(facts, "warmup_steps", _milestone(parts))


def _part_name(part: Any) -> str | None:
    name = text(part.get("name")) if isinstance(part, Mapping) else None
    return None if name is None else _SHORT.get(name.rpartition(".")[2], name.rpartition(".")[2])


def _milestone(parts: Any) -> float | None:
    """Return the step at which the first part of a chain of schedules gives way to the second."""
    for part in parts:
        marks = part.get("milestones") if isinstance(part, Mapping) else None
        if isinstance(marks, list) and marks:
            return not_negative(marks[0])
    return None


NEMO_RL = Framework(
    name="nemo-rl",
    writes=(
        ("train/probs_ratio_clamped",),
        ("train/gen_kl_error", "train/policy_kl_error"),
        ("train/token_mult_prob_error",),
        ("train/mean_gen_tokens_per_sample",),
        ("train/baseline_reward/pct_mixed",),
        ("validation/accuracy", "validation/avg_length"),
    ),
    configures=(
        ("grpo.num_prompts_per_step",),
        ("grpo.num_generations_per_prompt",),
        ("loss_fn.ratio_clip_min",),
        ("policy.train_global_batch_size",),
    ),
    steps={"step": 1, "_step": 1},
    columns={
        "reward": ("train/reward",),
        "kl_ref": ("train/kl_penalty",),
        "kl_old": ("train/policy_kl_error",),
        "entropy": ("train/approx_entropy",),
        "grad_norm": ("train/grad_norm",),
        "ratio_mean": ("train/probs_ratio",),
        "ratio_max": ("train/probs_ratio_max",),
        "response_tokens": ("train/mean_gen_tokens_per_sample",),
        "loss": ("train/loss",),
        "lr": ("train/lr",),
        "rollout_seconds": ("timing/train/generation", "train/timing/generation"),
        "update_seconds": ("timing/train/policy_training", "train/timing/policy_training"),
    },
    accuracy=(("validation/accuracy",), ("validation*/accuracy",)),
    settings=(
        Setting("prompts_per_rollout", ("grpo.num_prompts_per_step",), count),
        Setting("group_size", ("grpo.num_generations_per_prompt",), count),
        Setting("minibatch_responses", ("policy.train_global_batch_size",), count),
        Setting("lr", ("policy.optimizer.kwargs.lr",), positive),
        Setting("total_steps", ("grpo.max_num_steps",), positive),
        Setting("clip_low", ("loss_fn.ratio_clip_min", "loss_fn.ratio_eps_min"), numeric),
        Setting("clip_high", ("loss_fn.ratio_clip_max", "loss_fn.ratio_eps_max"), numeric),
        Setting("clip_dual", ("loss_fn.ratio_clip_c",), bound),
        Setting("kl_coef", ("loss_fn.reference_policy_kl_penalty",), not_negative),
        Setting("loss_mean", ("loss_fn.token_level_loss",), chosen("token", "sequence")),
        Setting("temperature", ("policy.generation.temperature",), positive),
        Setting("grad_clip", ("policy.max_grad_norm",), bound_above_zero),
        Setting("seed", ("grpo.seed",), whole),
        Setting("model", ("policy.model_name",), text),
        Setting("task", ("data.train.dataset_name", "data.dataset_name"), data_set),
        Setting("eval_size", ("grpo.max_val_samples",), count),
    ),
    defaults={
        "epochs": 1, "clip_low": 0.2, "clip_high": 0.2, "clip_dual": float("inf"),
        "loss_mean": "token",
    },
    complete=_complete,
)  # fmt: skip
