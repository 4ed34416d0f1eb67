"""What the trainer writes: the header of a run, and a row per member and rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from twoclock.clipping import clip_active
from twoclock.trainer.crew import Crew, RolloutReport
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.tasks import SYMBOLS


def train_rows(crew: Crew, report: RolloutReport) -> list[dict[str, Any]]:
    """Return one `steps` row per member; measured floats keep five significant digits."""
    s = crew.common
    fixed = {
        "rollout": crew.rollout,
        "optimizer_step": crew.optimizer.steps,
        "responses": crew.responses,
        "responses_trained": crew.responses,
        "flops": _five(crew.responses * flops_per_response(s)),
        "seconds": round(crew.seconds, 3),
        "rollout_seconds": round(report.rollout_seconds, 4),
        "update_seconds": round(report.update_seconds, 4),
    }
    measured = {
        "reward": report.reward,
        "entropy": report.entropy,
        "grad_norm": report.grad_norm,
        "response_tokens": report.tokens / s.batch_size,
        "lr": report.lr,
        **{name: value for name, value in vars(report.stats).items() if value is not None},
    }
    lists = {name: values.tolist() for name, values in measured.items()}
    return [
        {
            **fixed,
            "tokens": tokens,
            **{name: _five(values[i]) for name, values in lists.items()},
        }
        for i, tokens in enumerate(crew.tokens)
    ]


def flops_per_response(settings: TrainSettings) -> float:
    """Return FLOPs per response of sampling and updates: 2 N and 6 N E per token read.

    N counts all parameters; attention scores, the KL penalty's look at the base policy and
    validation are left out. A prompt is read once per group, hence its share 1/G; answers are
    computed to their full length (Kaplan et al. 2020, arXiv:2001.08361, section 2.1).
    """
    shape = settings.shape()
    read = shape.prompt / settings.group_size + shape.answer - 1  # tokens per response
    return 2.0 * shape.n_params * read * (1 + 3 * settings.epochs)


def run_row(settings: TrainSettings) -> dict[str, Any]:
    """Return the content of `run.json` for a run."""
    s = settings
    clips = [math.inf if clip is None else clip for clip in (s.clip_low, s.clip_high)]
    return {
        "framework": "twoclock",
        "model": f"{s.family}-{s.layers}x{s.width}-base-{s.base_key()[:8]}",
        "task": f"{s.task}-{s.digits}" + (f"x{s.symbols}" if s.symbols != SYMBOLS else ""),
        "seed": s.seed,
        "prompts_per_rollout": s.prompts,
        "group_size": s.group_size,
        "batch_size": s.batch_size,
        "minibatches": s.minibatches,
        "epochs": s.epochs,
        "optimizer_steps_per_rollout": s.steps_per_rollout,
        "lr": s.lr,
        "base_lr": s.base_lr,
        "lr_schedule": "constant",
        "warmup_responses": s.warmup_responses,
        "clip_low": s.clip_low,
        "clip_high": s.clip_high,
        "clip_dual": None,
        "clip_active": clip_active(clips, s.steps_per_rollout, synchronous=True),
        "kl_coef": s.kl_coef,
        "grad_clip": s.grad_clip,
        "optimizer": optimizer_name(s),
        "n_params": s.shape().n_params,
        "eval_size": s.eval_size,
        "temperature": s.temperature,
        "loss_mean": s.loss_mean,
        "advantage": "centred/std" if s.normalize_std else "centred",
        "entropy_coef": s.entropy_coef,
        "lr_gamma": s.gamma,
        "reference_batch": s.reference_batch,
        "variant": s.variant,
        "settings": settings_text(s),
    }


def optimizer_name(settings: TrainSettings) -> str:
    """Return the optimizer with its settings, as one text.

    Examples
    --------
    >>> optimizer_name(TrainSettings(seed=0, batch_size=64, base_lr=1e-4, responses=64))
    'adam(0.9,0.999,eps=1e-08)'
    """
    s = settings
    if s.optimizer == "sgd":
        return f"sgd(momentum={s.momentum:g})"
    return f"adam({s.beta1:g},{s.beta2:g},eps={s.adam_eps:g})"


def settings_text(settings: TrainSettings) -> str:
    """Return all settings in one line, ``name=value, name=value``; None is ``none``."""
    return ", ".join(f"{name}={text}" for name, text in _texts(asdict(settings)).items())


def settings_changes(run: Mapping[str, Any], settings: TrainSettings) -> str:
    """Return which settings of the run with this header are not `settings`: old and new values.

    Settings that are younger than the run count as having had their default values.

    Examples
    --------
    >>> old = TrainSettings(seed=0, batch_size=64, base_lr=1e-4, responses=640)
    >>> new = TrainSettings(seed=0, batch_size=64, base_lr=1e-4, responses=640, clip_low=None)
    >>> settings_changes({"settings": settings_text(old)}, new)
    'clip_low was 0.2, is none'
    """
    text = run.get("settings")
    if not isinstance(text, str):
        return "it does not tell which"
    default = {f.name: f.default for f in fields(TrainSettings) if f.default is not MISSING}
    old = {**_texts(default), **dict(item.split("=", 1) for item in text.split(", "))}
    new = _texts(asdict(settings))
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    return ", ".join(f"{n} was {old.get(n)}, is {new.get(n, 'unknown')}" for n in names)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: "none" if value is None else str(value) for name, value in values.items()}


def _five(value: float) -> float:
    return float(f"{value:.5g}")
