"""SkyRL.

- A step is one rollout (`trainer/global_step`), from 1.
- `trainer.train_batch_size` and `trainer.policy_mini_batch_size` count prompts.
- A validation at step s is measured after s rollouts; the one at 0 is before training (on by
  default).

Read in the source of SkyRL 0.1 to 0.4. Whether it samples while it trains is decided by the script
that is started, and stands in no setting.
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
    named,
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

_ALGORITHM = "trainer.algorithm"
_OPTIMIZER = "trainer.policy.optimizer_config"
_MEANS = {
    "token_mean": "token",
    "sequence_mean": "sequence",
    "seq_mean_token_sum_norm": "constant",
}
_CLIPPED = ("regular", "gspo", "ppo")
_UNCLIPPED = ("importance_sampling", "rollout_is", "sapo", "cross_entropy")
_MASKING = ("clip_cov", "dppo")


def _complete(facts: Facts, config: Flat) -> None:
    _clips(facts, config)
    correction = f"{_ALGORITHM}.off_policy_correction"
    ratios = (f"{correction}.tis_ratio_type", f"{correction}.sequence_mask_metric")
    limits = [f"{correction}.outlier_token_is_threshold_{end}" for end in ("low", "high")]
    corrected = any(text(config.get(name)) for name in ratios) or any(
        numeric(config.get(name)) is not None for name in limits
    )
    if corrected or on(config, f"{_ALGORITHM}.use_tis"):
        put(facts, "clip_active", "yes")
    estimator = text(config.get(f"{_ALGORITHM}.advantage_estimator"))
    divided = switch(config.get(f"{_ALGORITHM}.grpo_norm_by_std")) is not False
    grouped = "centred/std" if divided else "centred"
    put(facts, "advantage", grouped if estimator == "grpo" else estimator)
    kl = (f"{_ALGORITHM}.use_kl_loss", f"{_ALGORITHM}.use_kl_in_reward")
    if all(switch(config.get(name)) is False for name in kl):
        put(facts, "kl_coef", 0.0)
    if switch(config.get(f"{_ALGORITHM}.use_entropy_loss")) is False:
        put(facts, "entropy_coef", 0.0)
    if _OPTIMIZER + ".lr" in config:
        put(facts, "optimizer", described(
            "adamw", betas=config.get(f"{_OPTIMIZER}.adam_betas"),
            decay=config.get(f"{_OPTIMIZER}.weight_decay"),
        ))  # fmt: skip


def _clips(facts: Facts, config: Flat) -> None:
    loss = text(config.get(f"{_ALGORITHM}.policy_loss_type"))
    if loss == "dual_clip":
        put(facts, "clip_dual", numeric(config.get(f"{_ALGORITHM}.clip_ratio_c")) or 3.0)
    elif loss == "cispo":  # the ratio itself is cut
        high = numeric(config.get(f"{_ALGORITHM}.cispo.cispo_eps_clip_high"))
        put_clips(facts, math.inf, math.inf, 1 + (5.0 if high is None else high))
    elif loss in _UNCLIPPED:
        put_clips(facts, math.inf, math.inf, math.inf)
    elif loss is not None and loss not in _CLIPPED:
        drop_clips(facts)
        put(facts, "clip_active", "yes" if loss in _MASKING else None)


SKYRL = Framework(
    name="skyrl",
    writes=(
        ("reward/avg_raw_reward",),
        ("trainer/global_step", "policy/policy_loss"),
        ("policy/policy_loss", "policy/policy_entropy"),
        ("eval/all/avg_score",),
        ("loss/avg_final_rewards",),
        ("generate/avg_num_tokens", "generate/batch_num_seq"),
    ),
    configures=(
        ("trainer.policy_mini_batch_size",),
        ("generator.n_samples_per_prompt",),
        ("trainer.algorithm.eps_clip_low",),
        ("trainer.update_epochs_per_batch",),
    ),
    steps={"trainer/global_step": 1, "step": 1, "_step": 1},
    schedule_counts="optimizer",
    synchronous=None,
    columns={
        "reward": ("reward/avg_raw_reward",),
        "clip_fraction": ("policy/clip_ratio", "policy/ppo_clip_ratio"),
        "kl_ref": ("policy/policy_kl", "loss/avg_kl"),
        "entropy": ("policy/policy_entropy",),
        "grad_norm": ("policy/grad_norm", "policy/raw_grad_norm"),
        "response_tokens": ("generate/avg_num_tokens",),
        "loss": ("policy/policy_loss", "policy/final_loss"),
        "lr": ("policy/policy_lr",),
        "rollout_seconds": ("timing/generate",),
        "update_seconds": ("timing/train_critic_and_policy", "timing/policy_train"),
    },
    accuracy=(("eval/all/avg_score",), ("eval/*/avg_score",)),
    settings=(
        Setting("prompts_per_rollout", ("trainer.train_batch_size",), count),
        Setting("group_size", ("generator.n_samples_per_prompt",), count),
        Setting("minibatch_prompts", ("trainer.policy_mini_batch_size",), count),
        Setting("epochs", ("trainer.update_epochs_per_batch",), count),
        Setting("lr", (f"{_OPTIMIZER}.lr",), positive),
        Setting(
            "lr_schedule", (f"{_OPTIMIZER}.scheduler",), named({"constant_with_warmup": "constant"})
        ),
        Setting("warmup_steps", (f"{_OPTIMIZER}.num_warmup_steps",), not_negative),
        Setting("clip_low", (f"{_ALGORITHM}.eps_clip_low",), numeric),
        Setting("clip_high", (f"{_ALGORITHM}.eps_clip_high",), numeric),
        Setting("kl_coef", (f"{_ALGORITHM}.kl_loss_coef",), not_negative),
        Setting("entropy_coef", (f"{_ALGORITHM}.entropy_loss_coef",), not_negative),
        Setting("loss_mean", (f"{_ALGORITHM}.loss_reduction",), named(_MEANS)),
        Setting("temperature", ("generator.sampling_params.temperature",), positive),
        Setting("grad_clip", (f"{_OPTIMIZER}.max_grad_norm",), bound_above_zero),
        Setting("synchronous", ("trainer.fully_async.enabled",), chosen("no", "yes")),
        Setting("seed", ("trainer.seed",), whole),
        Setting("model", ("trainer.policy.model.path",), text),
        Setting("task", ("data.train_data",), data_set),
    ),
    defaults={
        "epochs": 1, "clip_low": 0.2, "clip_high": 0.2, "clip_dual": float("inf"),
        "loss_mean": "token",
    },
    complete=_complete,
)  # fmt: skip
