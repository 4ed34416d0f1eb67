"""torchtune's GRPO recipes (`recipes/dev`).

- A step is one optimizer step; a row is written after each rollout, so the first stands at
  `ppo_epochs`, and a rollout has that many steps.
- `batch_size` counts the prompts of one process; the number of processes stands in no setting.
- There is no validation.

Read in the source of torchtune of April 2025 to April 2026. `GRPOSimpleLoss` does not clip.
"""

from __future__ import annotations

import math
import re
from typing import Any

from twoclock.frameworks.base import Facts, Framework, Setting
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    bound_above_zero,
    count,
    described,
    first,
    not_negative,
    numeric,
    positive,
    put,
    put_clips,
    text,
    whole,
)

_SCHEDULE = re.compile(r"get_(\w+?)_schedule(?:_with_warmup)?")


def _last(value: Any) -> str | None:
    """Return the last part of a dotted name."""
    found = text(value)
    return None if found is None else found.rpartition(".")[2]


def _schedule(value: Any) -> str | None:
    name = _last(value)
    found = _SCHEDULE.fullmatch(name) if name else None
    return found[1] if found else name


def _complete(facts: Facts, config: Flat) -> None:
    processes = first(config, "world_size", "nproc_per_node", read=count)
    prompts = count(config.get("batch_size"))
    if processes is not None and prompts is not None:
        put(facts, "prompts_per_rollout", prompts * processes)
    if _last(config.get("loss._component_")) == "GRPOSimpleLoss":
        put_clips(facts, math.inf, math.inf, math.inf)
    if config and "lr_scheduler._component_" not in config:
        put(facts, "lr_schedule", "constant", "derived")
    put(facts, "optimizer", described(
        config.get("optimizer._component_"), betas=config.get("optimizer.betas"),
        eps=config.get("optimizer.eps"), decay=config.get("optimizer.weight_decay"),
    ))  # fmt: skip


TORCHTUNE = Framework(
    name="torchtune",
    writes=(
        ("successes", "num_stop_tokens"),
        ("approx_policy_kl", "clipfrac", "ratios"),
    ),
    configures=(("grpo_samples",),),
    steps={"step": 1, "Step": 1, "_step": 1},
    step_counts="optimizer",
    schedule_counts="optimizer",
    columns={
        "reward": ("rewards",),
        "clip_fraction": ("clipfrac",),
        "kl_ref": ("kl_loss",),
        "kl_old": ("approx_policy_kl",),
        "grad_norm": ("grad_norm",),
        "ratio_mean": ("ratios",),
        "response_tokens": ("response_lengths",),
        "loss": ("policy_loss", "loss"),
        "lr": ("lr",),
    },
    settings=(
        Setting("prompts_per_process", ("batch_size",), count),
        Setting("group_size", ("grpo_samples",), count),
        Setting("optimizer_steps_per_rollout", ("ppo_epochs",), count),
        Setting("epochs", ("ppo_epochs",), count),
        Setting("lr", ("optimizer.lr",), positive),
        Setting("lr_schedule", ("lr_scheduler._component_",), _schedule),
        Setting("warmup_steps", ("lr_scheduler.num_warmup_steps",), not_negative),
        Setting("total_steps", ("num_steps",), positive),
        Setting("clip_low", ("loss.epsilon",), numeric),
        Setting("clip_high", ("loss.epsilon_high", "loss.epsilon"), numeric),
        Setting("kl_coef", ("loss.kl_coeff",), not_negative),
        Setting("temperature", ("temperature",), positive),
        Setting("grad_clip", ("clip_grad_norm",), bound_above_zero),
        Setting("seed", ("seed",), whole),
        Setting("model", ("model._component_",), _last),
        Setting("task", ("dataset._component_",), _last),
    ),
    defaults={
        "optimizer_steps_per_rollout": 1, "minibatches": 1, "epochs": 1, "clip_low": 0.1,
        "clip_high": 0.1, "clip_dual": float("inf"), "entropy_coef": 0.0,
        "advantage": "centred/std", "loss_mean": "sequence",
    },
    complete=_complete,
)  # fmt: skip
