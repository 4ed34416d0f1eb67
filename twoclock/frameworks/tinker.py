"""tinker-cookbook.

- A step is one iteration (`progress/batch`), counted from 0.
- `groups_per_batch` counts prompts; a rollout has `num_substeps` optimizer steps.
- A validation at step s is measured before the update of step s; in synchronous training it
  stands in the row of that update.

Read in the source of tinker-cookbook of October 2025 to August 2026. The default loss,
importance_sampling, has no clip; ppo has one, by default to 0.8 .. 1.2. With
`remove_constant_reward_groups` the logged episodes are those that were kept.
"""

from __future__ import annotations

import math

from twoclock.frameworks.base import Fact, Facts, Framework, Setting
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import (
    count,
    drop_clips,
    not_negative,
    numeric,
    on,
    positive,
    put,
    put_clips,
    text,
    whole,
)

_LOSS = "loss_fn_config"
_UNCLIPPED = ("importance_sampling", "cross_entropy")


def _complete(facts: Facts, config: Flat) -> None:
    if not config:
        return
    _clips(facts, config)
    asynchronous = any(name.startswith("async_config.") for name in config)
    put(facts, "synchronous", "no" if asynchronous else "yes")
    if on(config, "remove_constant_reward_groups"):
        put(facts, "counts_kept_only", "yes")


def _clips(facts: Facts, config: Flat) -> None:
    loss = text(config.get("loss_fn")) or _UNCLIPPED[0]
    low, high = (numeric(config.get(f"{_LOSS}.clip_{end}_threshold")) for end in ("low", "high"))
    if loss in _UNCLIPPED:
        put_clips(facts, math.inf, math.inf, math.inf)
    elif loss == "ppo":  # thresholds of the ratio
        for name, value in (
            ("clip_low", None if low is None else 1 - low),
            ("clip_high", None if high is None else high - 1),
        ):
            known = value is not None
            facts[name] = Fact(value if known else 0.2, "config" if known else "derived")
        facts["clip_dual"] = Fact(math.inf, "derived")
    elif loss == "cispo" and high is not None:  # the ratio itself is cut
        put_clips(facts, math.inf, math.inf, high)
    else:
        drop_clips(facts)


TINKER = Framework(
    name="tinker-cookbook",
    writes=(
        ("env/all/reward/total",),
        ("env/all/total_episodes",),
        ("*/env/all/correct",),
        ("progress/batch", "progress/done_frac"),
        ("progress/batch", "data/num_rollouts"),
        ("optim/kl_sample_train_v1",),
    ),
    configures=(
        ("dataset_builder.groups_per_batch",),
        ("dataset_builder.*", "loss_fn"),
        ("dataset_builder.*", "learning_rate", "model_name"),
        ("groups_per_batch", "group_size", "model_name"),
        ("lora_rank", "num_substeps"),
    ),
    steps={"progress/batch": 0, "step": 0, "_step": 0},
    validates="before",
    columns={
        "reward": ("env/all/reward/total", "reward/mean"),
        "kl_old": ("optim/kl_sample_train_v2", "optim/kl_sample_train_v1"),
        "entropy": ("optim/entropy",),
        "response_tokens": ("env/all/ac_tokens_per_turn",),
        "lr": ("optim/lr",),
        "rollout_seconds": ("time/sample", "time/sampling"),
        "update_seconds": ("time/train_step", "time/train"),
    },
    accuracy=(("test/env/all/correct",), ("*/env/all/correct",), ("test/env/*/correct",)),
    scores=(("test/env/all/reward/total",), ("*/env/all/reward/total",)),
    responses_each=("env/all/total_episodes", "data/num_rollouts"),
    settings=(
        Setting(
            "prompts_per_rollout",
            (
                "async_config.groups_per_batch", "stream_minibatch_config.groups_per_batch",
                "dataset_builder.groups_per_batch", "dataset_builder.batch_size",
                "groups_per_batch",
            ),
            count,
        ),
        Setting("group_size", ("dataset_builder.group_size", "group_size"), count),
        Setting("optimizer_steps_per_rollout", ("num_substeps",), count),
        Setting("lr", ("learning_rate",), positive),
        Setting("lr_schedule", ("lr_schedule",), text),
        Setting("kl_coef", ("kl_penalty_coef",), not_negative),
        Setting("temperature", ("temperature",), positive),
        Setting("seed", ("seed", "dataset_builder.seed"), whole),
        Setting("model", ("model_name",), text),
        Setting("task", ("env", "dataset_builder.dataset_name", "recipe_name"), text),
    ),
    defaults={
        "optimizer_steps_per_rollout": 1, "lr_schedule": "constant", "entropy_coef": 0.0,
        "advantage": "centred", "loss_mean": "sum", "optimizer": "adam(0.9,0.95,eps=1e-08)",
    },
    complete=_complete,
)  # fmt: skip
