"""prime-rl.

- A step is one batch; it counts from 1 in the newest versions and from 0 before (until mid 2026).
- `orchestrator.batch_size` counts responses; a batch given in tokens has no fixed number of them.
- A validation at step s is asked for with about s batches trained on. Sampling is asynchronous;
  where its row names the weights (`policy_version`, `ckpt_step`), these count.

Read in the source of prime-rl 0.3 to 0.8.1. Trainer and orchestrator are two logs of one run. The
loss masks tokens whose probability has moved too far, so clipping acts in every run. Non-finite
values are left out of its JSON lines: `loss/nan_count` is what witnesses them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import Bools, Floats, gathered, holding, spread, trained_from_zero
from twoclock.frameworks.config import Flat
from twoclock.frameworks.patterns import matching
from twoclock.frameworks.values import (
    bound_above_zero,
    count,
    described,
    first,
    named,
    not_negative,
    positive,
    put,
    text,
    whole,
)

_TOTALS = ("progress/total_rollouts", "progress/total_samples")
_EACH = ("progress/rollouts", "progress/samples")
_TRAIN = (
    "loss/*", "optim/*", *_EACH, *_TOTALS, "reward/*", "train/*", "entropy/*", "mismatch_kl/*",
    "perf/*",
)  # fmt: skip
_NEWEST = ("progress/total_rollouts", "train/agg/*", "eval/*/policy_version")
"""Keys of the versions whose first step is 1."""

_VERSIONS = ("eval/*/policy_version", "progress/ckpt_step")
"""Updates behind the weights that a validation measured."""


def _plain(key: str) -> str:
    """Return a key as the JSON lines have it: MLflow allows no ``@``."""
    return key.replace("_at_", "@")


def arrange(columns: Mapping[str, Pair], rows: int, _facts: Facts) -> Mapping[str, Pair]:
    """Put the steps on the clock that begins at 0, complete the totals and name lost losses.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.

    Returns
    -------
    mapping
        ``step`` (a training row at s trains on batch s, a validation at s measures what s batches
        gave),
        ``responses`` after the batch of the row, and ``loss/mean`` with NaN where the trainer
        counted values that are not finite.

    Examples
    --------
    >>> at = np.array([0, 1])
    >>> out = arrange({"step": (at, np.array([1.0, 2.0])), "loss/mean": (at, np.zeros(2)),
    ...                "loss/nan_count": (at, np.array([0.0, 7.0]))}, 2, {})
    >>> out["step"][1], out["loss/mean"][1]
    (array([0., 1.]), array([ 0., nan]))
    """
    out: dict[str, Pair] = {}
    alone = holding(("eval/*",), columns, rows) & ~holding(_TRAIN, columns, rows)
    step = trained_from_zero(columns, rows, ("step", "_step"), _NEWEST, measured=alone)
    if step is not None:
        out["step"] = gathered(_measured(spread(step, rows), columns, alone))
    total = _total(columns, rows)
    if total is not None:
        out["responses"] = gathered(total)
    lost = columns.get("loss/nan_count")
    if lost is not None and (lost[1] > 0).any():
        broken = spread(lost, rows) > 0
        loss = spread(columns.get("loss/mean"), rows)
        logged = holding(("loss/mean",), columns, rows) | broken
        at = np.flatnonzero(logged)
        out["loss/mean"] = (at, np.where(broken, np.nan, loss)[at])
    return out


def _measured(step: Floats, columns: Mapping[str, Pair], alone: Bools) -> Floats:
    """Return the steps, those of validations by the weights that they measured where these stand.

    Sampling runs ahead of the training, so a validation asked for at a step may measure weights of
    an earlier one.
    """
    for key in matching(_VERSIONS, columns):
        version = spread(columns[key], len(step))
        step = np.where(alone & np.isfinite(version) & np.isfinite(step), version, step)
    return step


def _total(columns: Mapping[str, Pair], rows: int) -> Floats | None:
    """Return the responses after each batch; some versions log the total without its own batch."""
    for total_key, each_key in zip(_TOTALS, _EACH, strict=True):
        if total_key in columns and each_key in columns:
            total, each = spread(columns[total_key], rows), spread(columns[each_key], rows)
            return total + each if _is_before(total_key, total, each) else total
    return None


def _is_before(key: str, total: Floats, each: Floats) -> bool:
    """Tell whether a total leaves out the batch of its own row."""
    both = np.isfinite(total) & np.isfinite(each)
    total, each = total[both], each[both]
    if not len(total):
        return False
    if total[0] < each[0]:
        return True
    grown = np.diff(total)
    forward = grown > 0
    before, after = (int((grown == part)[forward].sum()) for part in (each[:-1], each[1:]))
    return before > after if before != after else key == _TOTALS[0]


def _complete(facts: Facts, config: Flat) -> None:
    put(facts, "optimizer", described(
        first(config, "trainer.optim.type", "optim.type", read=text),
        betas=[first(config, f"trainer.optim.betas{i}", f"optim.betas{i}") for i in (1, 2)],
        decay=first(config, "trainer.optim.weight_decay", "optim.weight_decay"),
        momentum=first(config, "trainer.optim.momentum", "optim.momentum"),
    ))  # fmt: skip


PRIME_RL = Framework(
    name="prime-rl",
    writes=(
        ("mismatch_kl/*",),
        ("train/agg/*",),
        ("progress/total_rollouts", "progress/tasks"),
        ("progress/total_samples", "progress/problems"),
        ("loss/nan_count",),
        ("eval/*/avg@*",),
    ),
    configures=(
        ("orchestrator.batch_size",),
        ("orchestrator.group_size",),
        ("orchestrator.rollouts_per_example",),
        ("batch_size", "rollouts_per_example"),
        ("max_off_policy_steps",),
        ("orchestrator.max_off_policy_steps",),
        ("trainer.loss.kl_tau",),
        ("loss.kl_tau",),
    ),
    steps={"step": 0, "_step": 0},
    validates="before",
    synchronous=False,
    columns={
        "reward": (
            "train/agg/effective/reward/mean", "train/agg/*/reward/mean", "reward/all/mean",
            "reward/mean",
        ),
        "clip_fraction": ("is_masked/all/mean", "is_masked/mean"),
        "kl_ref": ("ref_kl/all/mean", "ref_kl/mean"),
        "kl_old": ("mismatch_kl/all/mean", "mismatch_kl/mean"),
        "entropy": ("entropy/all/mean", "entropy/mean"),
        "grad_norm": ("optim/grad_norm",),
        "ratio_mean": ("importance_ratio/all/mean", "importance_ratio/mean"),
        "response_tokens": (
            "train/agg/effective/num_output_tokens/mean", "train/agg/*/num_output_tokens/mean",
            "decode_len/all/mean", "seq_len/all/mean", "seq_len/mean",
        ),
        "loss": ("loss/mean",),
        "lr": ("optim/lr",),
    },
    accuracy=(
        ("eval/*/effective/*avg@*",),
        ("eval/*/all/*avg@*",),
        ("eval/*/avg@*",),
    ),
    scores=(("eval/*/effective/*reward/mean",), ("eval/*/all/*reward/mean",)),
    never_validation=("eval/*/policy_version",),
    responses_total=("responses", *_TOTALS),
    responses_each=_EACH,
    needs=("loss/nan_count", *_VERSIONS),
    settings=(
        Setting("batch_size", ("orchestrator.batch_size", "batch_size"), count),
        Setting(
            "group_size",
            (
                "orchestrator.group_size", "orchestrator.rollouts_per_example", "group_size",
                "rollouts_per_example",
            ),
            count,
        ),
        Setting("lr", ("trainer.optim.lr", "optim.lr"), positive),
        Setting("lr_schedule", ("trainer.scheduler.type", "scheduler.type"), text),
        Setting(
            "warmup_steps", ("trainer.scheduler.warmup_steps", "scheduler.warmup_steps"),
            not_negative,
        ),
        Setting(
            "total_steps", ("trainer.max_steps", "orchestrator.max_steps", "max_steps"), positive
        ),
        Setting(
            "advantage",
            (
                "orchestrator.advantage.type", "orchestrator.algo.type", "advantage.type",
                "orchestrator.advantage_type",
            ),
            named({"default": "centred", "grpo": "centred", "drgrpo": "centred"}),
        ),
        Setting(
            "temperature",
            (
                "orchestrator.train.sampling.temperature", "orchestrator.sampling.temperature",
                "train.sampling.temperature", "sampling.temperature",
            ),
            positive,
        ),
        Setting("grad_clip", ("trainer.optim.max_norm", "optim.max_norm"), bound_above_zero),
        Setting(
            "seed", ("orchestrator.seed", "seed", "orchestrator.buffer.seed", "buffer.seed"), whole
        ),
        Setting(
            "model",
            (
                "trainer.model.name", "orchestrator.model.name", "orchestrator.student.model.name",
                "model.name",
            ),
            text,
        ),
    ),
    defaults={"optimizer_steps_per_rollout": 1, "loss_mean": "token", "clip_active": "yes"},
    several_rows=True,
    plain=_plain,
    complete=_complete,
    arrange=arrange,
)  # fmt: skip
