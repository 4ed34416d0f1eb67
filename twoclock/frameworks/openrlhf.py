"""OpenRLHF.

- A step is one rollout, counted before it is logged: the first is 1, and a resumed run goes on
  counting from its checkpoint.
- `rollout.batch_size` counts prompts and `train.batch_size` responses, so one optimizer step takes
  `train.batch_size` responses.
- A validation at step s is measured after the update of step s; there is none before training.

Read in the source of OpenRLHF 0.5.9 to 0.11.0; the names of its flags became dotted in 0.10. With
dynamic filtering only `rollout/num_samples` counts, and it counts what was kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import gathered, spread
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound,
    bound_above_zero,
    count,
    described,
    first,
    item,
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

_SINK = ("train/", "eval/")
"""What W&B and TensorBoard put before every key of the console."""


_EVAL_STEP = "eval/global_step"
"""The step of a validation where the sink keeps it apart from that of the training rows."""


def _plain(key: str) -> str:
    if key == _EVAL_STEP:
        return key
    for prefix in _SINK:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


def arrange(columns: Mapping[str, Pair], rows: int, _facts: Facts) -> Mapping[str, Pair]:
    """Give rows of validations the step that the sink keeps apart.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.

    Returns
    -------
    mapping
        ``global_step`` of all rows, where validations have a step of their own.

    Examples
    --------
    >>> log = {"global_step": (np.array([0]), np.array([1.0])),
    ...        "eval/global_step": (np.array([1]), np.array([1.0]))}
    >>> arrange(log, 2, {})["global_step"][1]
    array([1., 1.])
    """
    if _EVAL_STEP not in columns:
        return {}
    trained, measured = (spread(columns.get(k), rows) for k in ("global_step", _EVAL_STEP))
    return {"global_step": gathered(np.where(np.isfinite(trained), trained, measured))}


def _complete(facts: Facts, config: Flat) -> None:
    if on(config, "enable_vllm_is_correction", "algo.advantage.is_correction_enable"):
        put(facts, "clip_active", "yes")  # ratios to the sampler are truncated or masked
    asynchronous = first(config, "train.async_enable", "async_train", read=switch)
    if asynchronous is not None:
        put(facts, "synchronous", "no" if asynchronous else "yes")
    estimator = first(
        config, "algo.advantage.estimator", "advantage_estimator", read=named(_ADVANTAGES)
    )
    undivided = on(config, "algo.advantage.no_std_norm", "no_advantage_std_norm")
    put(facts, "advantage", f"{estimator}, undivided" if estimator and undivided else estimator)
    if first(config, "actor.policy_loss_type", "policy_loss_type", read=text) == "gspo":
        put(facts, "loss_mean", "sequence, sequence ratio")
    put(facts, "optimizer", _optimizer(config))
    if config.get("actor.optim") == "muon":
        put(facts, "lr", positive(config.get("actor.muon.lr")))


def _optimizer(config: Flat) -> str | None:
    name = first(config, "actor.optim", read=text) or ("adam" if _adam(config) else None)
    return described(
        name,
        betas=config.get("actor.adam.betas", config.get("adam_betas")),
        eps=config.get("actor.adam.eps"),
        decay=config.get("actor.adam.weight_decay", config.get("l2")),
    )


def _adam(config: Flat) -> bool:
    return any(name in config for name in ("actor.adam.lr", "actor_learning_rate"))


_ADVANTAGES = {"group_norm": "centred/std", "dr_grpo": "centred"}

OPENRLHF = Framework(
    name="openrlhf",
    writes=(
        ("policy_loss", "actor_lr", "response_length"),
        ("ppo_clip_ratio", "actor_lr"),
        ("actor_grad_norm", "actor_lr"),
        ("rollout/reward_mean", "rollout/num_samples"),
        ("eval_*_pass1", "eval_*_truncated_rate"),
        ("eval/eval_*_pass1",),
    ),
    configures=(
        ("rollout.n_samples_per_prompt",),
        ("rollout.batch_size", "train.batch_size"),
        ("actor.adam.lr",),
        ("actor_learning_rate", "rollout_batch_size"),
        ("micro_rollout_batch_size", "n_samples_per_prompt"),
        ("eps_clip_low_high", "pretrain"),
    ),
    steps={"global_step": 1, "step": 1, "_step": 1},
    schedule_counts="optimizer",
    columns={
        "reward": ("rollout/reward_mean", "reward"),
        "clip_fraction": ("ppo_clip_ratio",),
        "kl_ref": ("kl",),
        "kl_old": ("ppo_kl",),
        "entropy": ("entropy_loss",),
        "grad_norm": ("actor_grad_norm",),
        "response_tokens": ("rollout/response_length_mean", "response_length"),
        "loss": ("policy_loss",),
        "lr": ("actor_lr",),
        "rollout_seconds": ("timing/generation", "timing/make_experience"),
        "update_seconds": ("timing/ppo_train",),
    },
    accuracy=(("eval_*_pass1",),),
    responses_each=("rollout/num_samples",),
    needs=(_EVAL_STEP,),
    settings=(
        Setting("prompts_per_rollout", ("rollout.batch_size", "rollout_batch_size"), count),
        Setting("group_size", ("rollout.n_samples_per_prompt", "n_samples_per_prompt"), count),
        Setting("minibatch_responses", ("train.batch_size", "train_batch_size"), count),
        Setting("epochs", ("train.max_epochs", "max_epochs"), count),
        Setting("lr", ("actor.adam.lr", "actor_learning_rate"), positive),
        Setting("lr_schedule", ("actor.lr_scheduler", "lr_scheduler"), text),
        Setting("warmup_ratio", ("actor.lr_warmup_ratio", "lr_warmup_ratio"), not_negative),
        Setting("clip_low", ("actor.eps_clip_low_high", "eps_clip_low_high"), item(0)),
        Setting("clip_high", ("actor.eps_clip_low_high", "eps_clip_low_high"), item(1)),
        Setting("clip_low", ("actor.eps_clip", "eps_clip"), numeric),
        Setting("clip_high", ("actor.eps_clip", "eps_clip"), numeric),
        Setting("clip_dual", ("actor.dual_clip", "dual_clip"), bound),
        Setting("kl_coef", ("algo.kl.init_coef", "init_kl_coef"), not_negative),
        Setting("entropy_coef", ("actor.entropy_coef", "entropy_loss_coef"), not_negative),
        Setting("temperature", ("rollout.temperature", "temperature"), positive),
        Setting("grad_clip", ("actor.max_norm", "max_norm"), bound_above_zero),
        Setting("seed", ("train.seed", "seed"), whole),
        Setting("model", ("actor.model_name_or_path", "pretrain"), text),
        Setting("task", ("data.prompt_dataset", "prompt_data"), data_set),
    ),
    defaults={
        "epochs": 1, "clip_low": 0.2, "clip_high": 0.2, "clip_dual": float("inf"),
        "loss_mean": "token",
    },
    plain=_plain,
    complete=_complete,
    arrange=arrange,
)  # fmt: skip
