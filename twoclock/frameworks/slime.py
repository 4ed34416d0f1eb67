"""slime.

- There are three clocks, all from 0: `rollout/step` counts rollouts, `train/step` optimizer steps,
  and `eval/step` the rollout of a validation. With `wandb_always_use_train_step` the first and the
  third are counted in optimizer steps, too. Here all become finished rollouts.
- `rollout_batch_size` counts prompts and `global_batch_size` responses.
- A validation at eval/step s is measured after the update of rollout s; the one before training
  also stands at 0.

Read in the source of slime of July 2025 to August 2026. A validation is a mean reward, on whatever
scale the reward has; `rollout/raw_reward` is the reward, `rollout/rewards` the normalised one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import Bools, Floats, gathered, spread
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

_EVAL = re.compile(r"eval/(?!step$)[^/]+(?<!-truncated_ratio)(?<!-repetition_frac)")
_PASS = re.compile(r".*-pass@\d+")
_SEED = 1234
"""Seed of the weights where none is set."""


def _plain(key: str) -> str:
    """Return a key, that of a data set's mean reward with an ending that says so."""
    return f"{key}/reward" if _EVAL.fullmatch(key) and not _PASS.fullmatch(key) else key


def arrange(columns: Mapping[str, Pair], rows: int, facts: Facts) -> Mapping[str, Pair]:
    """Put the three clocks on one.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.
    facts : dict of str to Fact
        `optimizer_steps_per_rollout`, and what is set about validations.

    Returns
    -------
    mapping
        ``step``, the rollouts finished at each row: 1 for the first rollout and for the optimizer
        steps on it, 0 for a validation before training.

    Examples
    --------
    >>> log = {"eval/step": (np.array([0, 4]), np.array([0.0, 1.0])),
    ...        "rollout/step": (np.array([1, 3]), np.array([0.0, 1.0])),
    ...        "train/step": (np.array([2]), np.array([0.0]))}
    >>> arrange(log, 5, {})["step"][1]
    array([0., 1., 1., 2., 2.])
    """
    rollout, train, evaluation = (
        spread(columns.get(f"{name}/step"), rows) for name in ("rollout", "train", "eval")
    )
    per = fact_number(facts, "optimizer_steps_per_rollout")
    if _says(facts, "clocks", "train"):
        if per is None:
            return {}
        rollout, evaluation = np.round(rollout / per), np.round(evaluation / per)
    elif per is None:
        per = _observed(rollout, train)
    step = np.full(rows, np.nan)
    if per is not None:
        step = np.floor(train / per) + 1
    begun = np.flatnonzero(np.isfinite(rollout) | np.isfinite(train))
    untrained = _untrained(evaluation, facts, begun[0] if len(begun) else rows)
    step = np.where(np.isfinite(evaluation), np.where(untrained, 0.0, evaluation + 1), step)
    step = np.where(np.isfinite(rollout), rollout + 1, step)
    return {"step": gathered(step)} if np.isfinite(step).any() else {}


def _observed(rollout: Floats, train: Floats) -> float | None:
    """Return the optimizer steps per rollout that fit the last step of each clock, if one does.

    The last rollout may not be trained on, or not to the end.
    """
    if not np.isfinite(rollout).any() or not np.isfinite(train).any():
        return None
    steps, before = float(np.nanmax(train)) + 1, float(np.nanmax(rollout))
    least = float(np.ceil(steps / (before + 1)))
    most = float(np.floor(steps / before)) if before > 0 else least
    return least if least == most >= 1 else None


def _untrained(evaluation: Floats, facts: Facts, begun: int) -> Bools:
    """Tell which validations at 0 precede the training: those before its rows, or all by plan."""
    first = evaluation == 0
    if _says(facts, "validates_first", "no"):
        return np.zeros_like(first)
    interval = fact_number(facts, "eval_interval")
    if interval is not None and interval > 1:
        return np.asarray(first, dtype=bool)
    return np.asarray(first & (np.arange(len(first)) < begun), dtype=bool)


def _says(facts: Facts, name: str, value: str) -> bool:
    return name in facts and facts[name].value == value


def _complete(facts: Facts, config: Flat) -> None:
    _steps(facts, config)
    if switch(config.get("use_kl_loss")) is False and not positive(config.get("kl_coef")):
        put(facts, "kl_coef", 0.0)
    if on(config, "use_tis", "use_opsm") or text(config.get("custom_tis_function_path")):
        put(facts, "clip_active", "yes")
    if on(config, "wandb_always_use_train_step"):
        put(facts, "clocks", "train")
    if on(config, "skip_eval_before_train"):
        put(facts, "validates_first", "no")
    estimator = text(config.get("advantage_estimator"))
    if on(config, "use_score_centering") or config.get("pg_loss_type") == "reinforce":
        put_clips(facts, math.inf, math.inf, math.inf)
    elif estimator == "cispo":  # the ratio itself is cut
        put_clips(facts, math.inf, math.inf, 1 + (fact_number(facts, "clip_high") or 0.2))
    put(facts, "advantage", _advantage(estimator, config))
    if whole(config.get("seed")) in (None, _SEED):
        put(facts, "seed", whole(config.get("rollout_seed")))
    put(facts, "optimizer", described(
        config.get("optimizer"), betas=[config.get("adam_beta1"), config.get("adam_beta2")],
        eps=config.get("adam_eps"), decay=config.get("weight_decay"),
    ))  # fmt: skip


def _steps(facts: Facts, config: Flat) -> None:
    """Count the optimizer steps of a rollout, which the clocks need."""
    steps = count(config.get("num_steps_per_rollout"))
    sizes = [fact_number(facts, name) for name in ("prompts_per_rollout", "group_size")]
    part = fact_number(facts, "minibatch_responses")
    if steps is None and None not in sizes and part:
        steps = max(1, round(math.prod(size or 0 for size in sizes)) // round(part))
    put(facts, "optimizer_steps_per_rollout", steps)


def _advantage(estimator: str | None, config: Flat) -> str | None:
    if estimator not in ("grpo", "gspo", "cispo"):
        return estimator
    divided = switch(config.get("grpo_std_normalization")) is not False
    name = "centred/std" if divided else "centred"
    return f"{name}, whitened" if on(config, "normalize_advantages") else name


SLIME = Framework(
    name="slime",
    writes=(
        ("rollout/raw_reward",),
        ("train/pg_clipfrac", "train/ppo_kl"),
        ("train/train_rollout_logprob_abs_diff",),
        ("rollout/step", "train/step"),
        ("rollout/response_lengths", "rollout/rewards"),
    ),
    configures=(
        ("rollout_batch_size", "hf_checkpoint"),
        ("rollout_batch_size", "n_samples_per_prompt", "global_batch_size"),
        ("num_rollout", "rollout_batch_size"),
        ("wandb_always_use_train_step",),
    ),
    steps={"step": 1},
    schedule_counts="optimizer",
    synchronous=None,
    columns={
        "reward": ("rollout/raw_reward",),
        "clip_fraction": ("train/pg_clipfrac",),
        "kl_ref": ("train/kl_loss",),
        "kl_old": ("train/ppo_kl",),
        "entropy": ("train/entropy_loss",),
        "grad_norm": ("train/grad_norm",),
        "ratio_mean": ("train/ois",),
        "response_tokens": (
            "rollout/response_len/mean", "rollout/response_lengths",
        ),
        "loss": ("train/pg_loss", "train/loss"),
        "lr": ("train/lr-pg_0",),
        "rollout_seconds": ("perf/rollout_time",),
        "update_seconds": ("perf/actor_train_time", "perf/train_time"),
    },
    scores=(("eval/*/reward",),),
    needs=("rollout/step", "train/step", "eval/step"),
    settings=(
        Setting("prompts_per_rollout", ("rollout_batch_size",), count),
        Setting("group_size", ("n_samples_per_prompt",), count),
        Setting("minibatch_responses", ("global_batch_size",), count),
        Setting("lr", ("lr",), positive),
        Setting("lr_schedule", ("lr_decay_style",), text),
        Setting("warmup_steps", ("lr_warmup_iters",), not_negative),
        Setting("warmup_ratio", ("lr_warmup_fraction",), not_negative),
        Setting("total_steps", ("lr_decay_iters", "train_iters"), positive),
        Setting("clip_low", ("eps_clip",), numeric),
        Setting("clip_high", ("eps_clip_high", "eps_clip"), numeric),
        Setting("clip_dual", ("eps_clip_c",), bound),
        Setting("kl_coef", ("kl_loss_coef",), positive),
        Setting("kl_coef", ("kl_coef",), not_negative),
        Setting("entropy_coef", ("entropy_coef",), not_negative),
        Setting("loss_mean", ("calculate_per_token_loss",), chosen("token", "sequence")),
        Setting("temperature", ("rollout_temperature",), positive),
        Setting("grad_clip", ("clip_grad",), bound_above_zero),
        Setting("seed", ("seed",), whole),
        Setting("model", ("hf_checkpoint",), text),
        Setting("task", ("prompt_data",), data_set),
        Setting("eval_interval", ("eval_interval",), count),
    ),
    defaults={
        "clip_low": 0.2, "clip_high": 0.2, "clip_dual": float("inf"), "loss_mean": "sequence",
    },
    several_rows=True,
    plain=_plain,
    complete=_complete,
    arrange=arrange,
)  # fmt: skip
