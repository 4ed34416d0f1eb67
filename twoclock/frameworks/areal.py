"""AReaL.

- A step is one rollout, counted from 0. Versions that logged one row a minibatch wrote them at
  steps of their own, so that the logged step runs ahead of the rollouts.
- `train_dataset.batch_size` counts prompts; an update has `actor.ppo_n_minibatches` steps.
- A validation at step s is measured after the update of step s; there is none before training.

Read in the source of AReaL 0.3 to 1.0. Sampling is asynchronous unless
`rollout.max_head_offpolicyness` is 0. `update_successful` 0 marks an update that was skipped
because it was not finite.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import first_of, gathered, holding, spread
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound,
    bound_above_zero,
    count,
    described,
    first,
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

_BEGINS = ("ppo_actor/task_reward/avg",)
"""A key that each rollout has once, on the first of its rows."""

_UPDATES = ("ppo_actor/update/*",)


def _plain(key: str) -> str:
    """Return a key with today's name of the actor."""
    return f"ppo_actor/{key[11:]}" if key.startswith("grpo_actor/") else key


def arrange(columns: Mapping[str, Pair], rows: int, _facts: Facts) -> Mapping[str, Pair]:
    """Count the rollouts where each of them has several rows, at steps of their own.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.

    Returns
    -------
    mapping
        ``step``, rollouts counted from 0, for all rows; empty where the logged steps are right.

    Examples
    --------
    >>> at = np.arange(4)
    >>> log = {"_step": (at, at + 0.0), "ppo_actor/update/grad_norm": (at, np.ones(4)),
    ...        "ppo_actor/task_reward/avg": (np.array([0, 2]), np.array([0.4, 0.5]))}
    >>> arrange(log, 4, {})["step"][1]
    array([0., 0., 1., 1.])
    """
    logged = first_of(("step", "_step", "Step"), columns)
    begins = holding(_BEGINS, columns, rows)
    extra = holding(_UPDATES, columns, rows) & ~begins
    if logged is None or not begins.any() or not extra.any():
        return {}
    step = spread(logged, rows)
    starts = np.flatnonzero(begins & np.isfinite(step))
    if not len(starts):
        return {}
    gaps = np.diff(step[starts])
    usual = max(1.0, float(np.median(gaps[gaps > 0]))) if (gaps > 0).any() else 1.0
    seen: dict[float, int] = {}
    rollout = int(step[starts[0]] // usual) - 1
    counted = np.full(rows, np.nan)
    for at in starts.tolist():
        rollout = seen.setdefault(float(step[at]), rollout + 1)
        counted[at] = rollout
    known = starts[np.maximum(np.searchsorted(starts, np.arange(rows), side="right") - 1, 0)]
    return {"step": gathered(np.where(np.isfinite(step), counted[known], np.nan))}


def _complete(facts: Facts, config: Flat) -> None:
    lag = numeric(config.get("rollout.max_head_offpolicyness"))
    if lag is not None:
        put(facts, "synchronous", "yes" if lag == 0 else "no")
    capped = positive(
        config.get("actor.behav_imp_weight_cap", config.get("actor.behave_imp_weight_cap"))
    )
    if capped is not None and (
        on(config, "actor.use_decoupled_loss") or "actor.use_decoupled_loss" not in config
    ):
        put(facts, "clip_active", "yes")
    if positive(config.get("actor.m2_threshold")) is not None:
        put(facts, "clip_active", "yes")
    put(facts, "advantage", _advantage(config))
    place = "actor.optimizer"
    put(facts, "optimizer", described(
        config.get(f"{place}.type"), eps=config.get(f"{place}.eps"),
        betas=[config.get(f"{place}.beta1"), config.get(f"{place}.beta2")],
        decay=config.get(f"{place}.weight_decay"),
    ))  # fmt: skip


def _advantage(config: Flat) -> str | None:
    """Return how rewards become advantages: by groups, and then perhaps over the batch."""
    old = first(config, "actor.group_reward_norm", read=switch)
    mean = text(config.get("actor.reward_norm.mean_level"))
    deviation = text(config.get("actor.reward_norm.std_level"))
    if old or mean == "group":
        parts = {"group": "centred/std", "batch": "centred/batch std"}
        name = "centred/std" if old else parts.get(deviation or "", "centred")
    elif mean is None:
        return None
    else:
        name = f"{mean} mean"
    whitened = on(config, "actor.adv_norm") or "actor.adv_norm.mean_level" in config
    return f"{name}, whitened" if whitened else name


AREAL = Framework(
    name="areal",
    writes=(
        ("ppo_actor/task_reward/avg",),
        ("ppo_actor/update/*",),
        ("eval-rollout/reward",),
        ("rollout/reward", "timeperf/rollout"),
    ),
    configures=(
        ("gconfig.n_samples",),
        ("actor.ppo_n_minibatches",),
        ("rollout.max_head_offpolicyness",),
    ),
    steps={"step": 0, "_step": 0},
    synchronous=False,
    columns={
        "reward": ("ppo_actor/task_reward/avg", "rollout/reward"),
        "clip_fraction": ("ppo_actor/update/clip_ratio/avg",),
        "kl_old": ("ppo_actor/update/approx_kl/avg", "ppo_actor/update/behave_approx_kl/avg"),
        "entropy": ("ppo_actor/update/entropy/avg",),
        "grad_norm": ("ppo_actor/update/grad_norm",),
        "ratio_mean": ("ppo_actor/update/importance_weight/avg",),
        "ratio_max": ("ppo_actor/update/importance_weight/max",),
        "loss": ("ppo_actor/update/actor_loss/avg", "ppo_actor/update/loss/avg"),
        "lr": ("ppo_actor/update/lr",),
        "rollout_seconds": ("timeperf/rollout",),
        "update_seconds": ("timeperf/train_step",),
    },
    scores=(("eval-rollout/reward",),),
    settings=(
        Setting("prompts_per_rollout", ("train_dataset.batch_size",), count),
        Setting(
            "group_size", ("gconfig.n_samples", "actor.group_size", "group_size"), count
        ),
        Setting("minibatches", ("actor.ppo_n_minibatches", "ppo.ppo_n_minibatches"), count),
        Setting("lr", ("actor.optimizer.lr",), positive),
        Setting("lr_schedule", ("actor.optimizer.lr_scheduler_type",), text),
        Setting("warmup_steps", ("actor.optimizer.warmup_steps",), not_negative),
        Setting("warmup_ratio", ("actor.optimizer.warmup_steps_proportion",), not_negative),
        Setting("total_steps", ("total_train_steps",), positive),
        Setting("clip_low", ("actor.eps_clip",), numeric),
        Setting("clip_high", ("actor.eps_clip_higher", "actor.eps_clip"), numeric),
        Setting("clip_dual", ("actor.c_clip",), bound),
        Setting("kl_coef", ("actor.kl_ctl",), not_negative),
        Setting("entropy_coef", ("actor.entropy_coeff", "actor.entropy_coef"), not_negative),
        Setting("temperature", ("gconfig.temperature", "actor.temperature"), positive),
        Setting("grad_clip", ("actor.optimizer.gradient_clipping",), bound_above_zero),
        Setting("seed", ("seed",), whole),
        Setting("model", ("actor.path",), text),
        Setting("task", ("train_dataset.path",), data_set),
    ),
    defaults={
        "minibatches": 4, "epochs": 1, "clip_low": 0.2, "clip_high": 0.2,
        "clip_dual": float("inf"), "loss_mean": "token",
    },
    several_rows=True,
    plain=_plain,
    complete=_complete,
    arrange=arrange,
)  # fmt: skip
