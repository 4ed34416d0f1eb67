"""ROLL.

- A step is one rollout, counted from 0; forks write `system/step`, which counts from 1.
- `rollout_batch_size` counts prompts in the RLVR pipelines and trajectories in the agentic ones.
- A validation at step s is measured before the update of step s, so the one at 0 is before
  training, and it stands in the row of that update.

Read in the source of ROLL 0.1 to 0.3. A dual clip is off by default; on, its bound is
1 + 2 * `pg_clip`. `critic/correct/mean` is the share of scores equal to the highest of the batch
and no accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import gathered, spread
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound_above_zero,
    count,
    described,
    named,
    not_negative,
    numeric,
    on,
    positive,
    put,
    switch,
    text,
    whole,
)
from twoclock.frameworks.verl import data_set

_TRAIN = "actor_train.training_args"
_STRATEGY = "actor_train.strategy_args.strategy_config"
_REDUCED = re.compile(r"@(?:sum|mean|max|min)$")
_RANGE = re.compile(r"\s*list\(range\(\s*(?:(\d+)\s*,\s*)?(\d+)\s*\)\)\s*")
_MEANS = {
    "token-mean": "token",
    "seq-mean-token-mean": "sequence",
    "seq-mean-token-sum-norm": "constant",
}
_CORRECTIONS = (
    "use_rollout_importance_sampling_ratio", "train_infer_ratio_mask", "train_infer_diff_mask",
    "train_infer_ratio_seq_mask", "train_infer_diff_seq_mask",
    "train_infer_correction.is_weight.enabled",
)  # fmt: skip


def _plain(key: str) -> str:
    """Return a key without the name of its reduction, which a raw dump still has."""
    return _REDUCED.sub("", key)


def arrange(columns: Mapping[str, Pair], rows: int, _facts: Facts) -> Mapping[str, Pair]:
    """Count the steps of a fork from 0, as ROLL does.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.

    Returns
    -------
    mapping
        ``step`` where the log has `system/step`.

    Examples
    --------
    >>> arrange({"system/step": (np.array([0, 1]), np.array([1.0, 2.0]))}, 2, {})["step"][1]
    array([0., 1.])
    """
    step = spread(columns.get("system/step"), rows)
    if not np.isfinite(step).any():
        return {}
    return {"step": gathered(step - float(np.nanmin(step) >= 1))}


def _complete(facts: Facts, config: Flat) -> None:
    if any(name.startswith("train_env_manager.") for name in config):
        _agentic(facts, config)
    part = _minibatch(config)
    put(facts, "minibatch_responses", part)
    if on(config, "use_pg_clip_range"):
        put(facts, "clip_low", numeric(config.get("pg_clip_low")))
        put(facts, "clip_high", numeric(config.get("pg_clip_high")))
    if on(config, "dual_clip_loss"):
        epsilon = numeric(config.get("pg_clip"))
        put(facts, "clip_dual", 1 + 2 * (0.2 if epsilon is None else epsilon), "derived")
    filters = config.get("train_infer_correction.filters")
    if on(config, *_CORRECTIONS) or _enabled(filters):
        put(facts, "clip_active", "yes")
    ahead = numeric(config.get("async_generation_ratio"))
    if ahead is not None:
        put(facts, "synchronous", "no" if ahead > 0 else "yes")
    _kl(facts, config)
    put(facts, "advantage", _advantage(config))
    if _TRAIN + ".learning_rate" in config:
        put(facts, "optimizer", described(
            text(config.get(f"{_TRAIN}.optim")) or "adamw",
            betas=[config.get(f"{_TRAIN}.adam_beta1"), config.get(f"{_TRAIN}.adam_beta2")],
            eps=config.get(f"{_TRAIN}.adam_epsilon"), decay=config.get(f"{_TRAIN}.weight_decay"),
        ))  # fmt: skip


def _agentic(facts: Facts, config: Flat) -> None:
    """Count trajectories, as the agentic pipelines do."""
    facts.pop("prompts_per_rollout", None)
    facts.pop("group_size", None)
    put(facts, "batch_size", count(config.get("rollout_batch_size")))
    put(facts, "group_size", count(config.get("train_env_manager.group_size")))


def _minibatch(config: Flat) -> int | None:
    """Return the responses of one optimizer step over all devices."""
    sizes = [
        count(config.get(f"{_TRAIN}.per_device_train_batch_size")),
        count(config.get(f"{_TRAIN}.gradient_accumulation_steps")),
    ]
    devices = device_count(config.get("actor_train.device_mapping"))
    if devices is None or None in sizes:
        return None
    shared = 1
    for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size",
                 "context_parallel_size"):  # fmt: skip
        shared *= count(config.get(f"{_STRATEGY}.{name}")) or 1
    shared *= count(config.get("actor_train.model_args.ulysses_size")) or 1
    if devices % shared:
        return None
    return (sizes[0] or 0) * (sizes[1] or 0) * (devices // shared)


def device_count(mapping: Any) -> int | None:
    """Return how many devices a mapping names; nothing is evaluated.

    Examples
    --------
    >>> device_count("list(range(0,8))"), device_count([0, 1]), device_count("[0, 2]")
    (8, 2, 2)
    """
    if isinstance(mapping, str):
        found = _RANGE.fullmatch(mapping)
        if found:
            return count(int(found[2][:9]) - int((found[1] or "0")[:9]))
        parts = mapping.strip().strip("[]").split(",")
        mapping = parts if all(whole(part) is not None for part in parts) else None
    return len(mapping) or None if isinstance(mapping, list) else None


def _enabled(filters: Any) -> bool:
    items = filters if isinstance(filters, list) else []
    return any(isinstance(item, Mapping) and switch(item.get("enabled")) for item in items)


def _kl(facts: Facts, config: Flat) -> None:
    in_loss, in_reward = (
        switch(config.get(name)) for name in ("use_kl_loss", "add_token_level_kl")
    )
    if in_loss:
        put(facts, "kl_coef", not_negative(config.get("kl_loss_coef")))
    elif in_reward:
        put(facts, "kl_coef", not_negative(config.get("init_kl_coef")))
    elif in_loss is False and in_reward is False:
        put(facts, "kl_coef", 0.0)


def _advantage(config: Flat) -> str | None:
    estimator = text(config.get("adv_estimator"))
    mean, deviation = (text(config.get(f"norm_{part}_type")) for part in ("mean", "std"))
    if mean == "group" and estimator in (None, "grpo", "reinforce"):
        parts = {"group": "centred/std", "batch": "centred/batch std"}
        name = parts.get(deviation or "", "centred")
    else:
        name = "centred/std" if estimator == "grpo" else estimator or ""
    return (f"{name}, whitened" if on(config, "whiten_advantages") else name) if name else None


ROLL = Framework(
    name="roll",
    writes=(
        ("actor/ppo_ratio_clipfrac",),
        ("actor/approxkl", "actor/policykl"),
        ("actor_train/grad_norm", "actor/pg_loss"),
        ("val_correct/all/mean",),
        ("critic/correct/mean",),
        ("scheduler/collect_query_count",),
    ),
    configures=(
        ("rollout_batch_size", f"{_TRAIN}.*"),
        ("actor_infer.generating_args.*",),
        ("num_return_sequences_in_group",),
        ("pg_clip", "adv_estimator"),
    ),
    steps={"step": 0, "_step": 0, "Step": 0},
    schedule_counts="optimizer",
    validates="before",
    columns={
        "reward": ("critic/score/mean", "reward/selected_mean", "critic/rewards/mean"),
        "clip_fraction": ("actor/ppo_ratio_clipfrac", "actor/clipfrac"),
        "kl_ref": ("critic/kl", "actor/kl_loss"),
        "kl_old": ("actor/approxkl",),
        "entropy": ("critic/entropy/mean",),
        "grad_norm": ("actor_train/grad_norm",),
        "ratio_mean": ("actor/ratio_mean",),
        "ratio_max": ("actor/ratio_max",),
        "response_tokens": (
            "token/response_length/mean", "tokens/response_length/mean", "length/mean",
        ),
        "loss": ("actor/pg_loss", "actor/total_loss"),
        "lr": ("actor/lr",),
        "rollout_seconds": ("time/step_generate", "time/rollout"),
        "update_seconds": ("time/step_train", "time/actor_train/train_step/total"),
    },
    accuracy=(("val_correct/all/mean",), ("val_correct/*/mean",)),
    scores=(("val_score/all/mean",), ("val/score/mean",)),
    responses_total=("system/samples",),
    responses_each=("system/responses",),
    needs=("system/step",),
    settings=(
        Setting("prompts_per_rollout", ("rollout_batch_size",), count),
        Setting(
            "group_size",
            ("num_return_sequences_in_group", "actor_infer.generating_args.num_return_sequences"),
            count,
        ),
        Setting("epochs", ("ppo_epochs",), count),
        Setting("lr", (f"{_TRAIN}.learning_rate",), positive),
        Setting(
            "lr_schedule", (f"{_TRAIN}.lr_scheduler_type",),
            named({"constant_with_warmup": "constant"}),
        ),
        Setting("warmup_steps", (f"{_TRAIN}.warmup_steps",), positive),
        Setting("warmup_ratio", (f"{_TRAIN}.warmup_ratio",), not_negative),
        Setting("clip_low", ("pg_clip",), numeric),
        Setting("clip_high", ("pg_clip",), numeric),
        Setting("entropy_coef", ("entropy_loss_coef",), not_negative),
        Setting("loss_mean", ("loss_agg_mode",), named(_MEANS)),
        Setting("temperature", ("actor_infer.generating_args.temperature",), positive),
        Setting("grad_clip", ("max_grad_norm", f"{_TRAIN}.max_grad_norm"), bound_above_zero),
        Setting("seed", ("seed",), whole),
        Setting("model", ("pretrain",), text),
        Setting("task", ("actor_train.data_args.file_name",), data_set),
    ),
    defaults={"epochs": 1, "clip_low": 0.2, "clip_high": 0.2, "clip_dual": float("inf")},
    plain=_plain,
    complete=_complete,
    arrange=arrange,
)  # fmt: skip
