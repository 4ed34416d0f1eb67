"""verl.

- A step is one rollout and counts from the very start, also in a log that was resumed.
- `train_batch_size` and `ppo_mini_batch_size` count prompts; B is prompts times `rollout.n`.
- A validation at step s is measured after s rollouts; step 0 is the one before training.
- Forks that search or act (Search-R1) repeat each prompt `n_agent` times before they generate.

Read in the source of verl 0.1 to 0.9. Clipping is decided by configuration; where it does not name
a bound, verl's own default stands (source "derived"); truncated or masked ratios count as clipping
that acts.
"""

from __future__ import annotations

import re
from typing import Any

from twoclock.frameworks.base import Fact, Facts, Framework, Setting
from twoclock.frameworks.config import Flat, number
from twoclock.frameworks.values import not_negative, put

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
DEFAULT_CLIP, DEFAULT_DUAL_CLIP = 0.2, 3.0

_MEANS = {
    "token-mean": "token",
    "seq-mean-token-mean": "sequence",
    "seq-mean-token-sum-norm": "constant",
}
"""How `loss_agg_mode` averages tokens; other modes keep their name."""

_NUMBERED = re.compile(r"^(val-(?:core|aux)/.*/(?:mean|best|worst|maj|std))_(\d+)")
"""A key of samples whose ``@`` a sink has replaced by ``_``."""

_GROUPED = ("grpo", "grpo_passk", "grpo_vectorized")


def data_set(files: Any) -> str | None:
    """Return a data set's name: the last two parts of its path, without the ending.

    Examples
    --------
    >>> data_set(["data/gsm8k/train.parquet", "data/math/train.parquet"])
    'gsm8k/train+math/train'
    """
    if isinstance(files, list):
        return "+".join(name for item in files if (name := data_set(item))) or None
    if not isinstance(files, str):
        return None
    parts = [part for part in files.split("/") if part]
    return "/".join([*parts[-2:-1], parts[-1].partition(".parquet")[0]]) if parts else None


def _mean(mode: Any) -> Any:
    return _MEANS.get(mode, mode) if isinstance(mode, str) else None


def _word(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _complete(facts: Facts, config: Flat) -> None:
    put(facts, "kl_coef", _kl_coef(config))
    put(facts, "advantage", _advantage(config))
    _count_agents(facts, config)
    group = number(config, f"{ROLLOUT}.n")
    generated = number(config, "data.gen_batch_size")
    put(facts, "gen_batch_responses", generated * group if generated and group else None)
    cap = number(config, f"{ACTOR}.tis_imp_ratio_cap")
    truncated = config.get("algorithm.rollout_correction.rollout_is") not in (None, False)
    if truncated or (cap is not None and cap > 0):
        facts["clip_active"] = Fact("yes", "config")
    if any(name.startswith("actor_rollout_ref.") for name in config):
        for name, value in (
            ("clip_low", DEFAULT_CLIP),
            ("clip_high", DEFAULT_CLIP),
            ("clip_dual", DEFAULT_DUAL_CLIP),
        ):
            facts.setdefault(name, Fact(value, "derived"))


def _count_agents(facts: Facts, config: Flat) -> None:
    """Count the trajectories of a prompt where a fork repeats prompts before it generates.

    Search-R1 and what is built on it sample each prompt `n_agent` times; their minibatches count
    what is trained on, and know of `n` only.
    """
    agents, group = number(config, f"{ROLLOUT}.n_agent"), number(config, f"{ROLLOUT}.n")
    if agents is None or agents < 1:
        return
    group = 1 if group is None else group
    facts["group_size"] = Fact(agents * group, "config")
    part = facts.pop("minibatch_prompts", None)
    if part is not None:
        facts["minibatch_responses"] = Fact(part.value * group, part.source)


def _kl_coef(config: Flat) -> float | None:
    in_loss = config.get(f"{ACTOR}.use_kl_loss")
    in_reward = config.get("algorithm.use_kl_in_reward")
    if in_loss:
        return number(config, f"{ACTOR}.kl_loss_coef")
    if in_reward:
        return number(config, "algorithm.kl_ctrl.kl_coef")
    return 0.0 if in_loss is False and in_reward is False else None


def _advantage(config: Flat) -> str | None:
    estimator = config.get("algorithm.adv_estimator")
    if estimator in _GROUPED:
        plain = config.get("algorithm.norm_adv_by_std_in_grpo") is False
        return "centred" if plain else "centred/std"
    return estimator if isinstance(estimator, str) else None


def _plain(key: str) -> str:
    """Return a key as verl's own file has it: MLflow and tensorboardX allow no ``@``."""
    return _NUMBERED.sub(r"\1@\2", key.replace("_at_", "@"))


VERL = Framework(
    name="verl",
    writes=(
        ("critic/score/mean", "actor/pg_loss"),
        ("critic/score/mean", "training/global_step"),
        ("critic/score/mean", "actor/pg_clipfrac"),
        ("val-core/*",),
        ("val/test_score/*",),
        ("actor/ppo_kl", "actor/pg_clipfrac"),
    ),
    configures=(("actor_rollout_ref.*",), ("data.train_batch_size", "algorithm.adv_estimator")),
    steps={"training/global_step": 1, "step": 1},
    columns={
        "reward": ("critic/score/mean", "critic/rewards/mean"),
        "clip_fraction": ("actor/pg_clipfrac",),
        "kl_ref": ("actor/kl_loss", "actor/reward_kl_penalty", "critic/kl"),
        "kl_old": ("actor/ppo_kl",),
        "entropy": ("actor/entropy", "actor/entropy_loss"),
        "grad_norm": ("actor/grad_norm",),
        "response_tokens": ("response_length/mean",),
        "loss": ("actor/pg_loss", "actor/loss"),
        "lr": ("actor/lr",),
        "rollout_seconds": ("timing_s/gen",),
        "update_seconds": ("timing_s/update_actor",),
    },
    accuracy=(
        ("val-core/*/acc/mean@*",),
        ("val-core/*/reward/mean@*",),
        ("val/test_score/*",),
    ),
    settings=(
        Setting("prompts_per_rollout", ("data.train_batch_size",)),
        Setting("group_size", (f"{ROLLOUT}.n",)),
        Setting("minibatch_prompts", (f"{ACTOR}.ppo_mini_batch_size",)),
        Setting("epochs", (f"{ACTOR}.ppo_epochs",)),
        Setting("lr", (f"{ACTOR}.optim.lr",)),
        Setting("grad_clip", (f"{ACTOR}.grad_clip", f"{ACTOR}.optim.clip_grad")),
        Setting("optimizer", (f"{ACTOR}.optim.optimizer",), _word),
        Setting(
            "lr_schedule",
            (f"{ACTOR}.optim.lr_scheduler_type", f"{ACTOR}.optim.warmup_style"),
            _word,
        ),
        Setting("warmup_steps", (f"{ACTOR}.optim.lr_warmup_steps",), not_negative),
        Setting("warmup_ratio", (f"{ACTOR}.optim.lr_warmup_steps_ratio",)),
        Setting("total_steps", ("trainer.total_training_steps",)),
        Setting("clip_low", (f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio")),
        Setting("clip_high", (f"{ACTOR}.clip_ratio_high", f"{ACTOR}.clip_ratio")),
        Setting("clip_dual", (f"{ACTOR}.clip_ratio_c",)),
        Setting("entropy_coef", (f"{ACTOR}.entropy_coeff",)),
        Setting("loss_mean", (f"{ACTOR}.loss_agg_mode",), _mean),
        Setting("temperature", (f"{ROLLOUT}.temperature",)),
        Setting(
            "seed", ("data.seed", f"{ACTOR}.data_loader_seed", f"{ACTOR}.fsdp_config.seed")
        ),
        Setting("model", ("actor_rollout_ref.model.path",), _word),
        Setting("task", ("data.train_files",), data_set),
    ),
    plain=_plain,
    complete=_complete,
)  # fmt: skip
