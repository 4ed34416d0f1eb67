"""`twoclock train`: the bundled trainer."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from twoclock.cli.options import Quiet, grouped, panel
from twoclock.cli.progress import Bar
from twoclock.errors import SettingsError, TrainingError

_TASK, _MODEL, _GRPO, _VALIDATION = "Task and base policy", "Model", "GRPO", "Validation"
_PROBES = "Probes"


@dataclass(frozen=True)
class Training:
    """Every setting of a run but its grid; the same names and defaults as `TrainSettings`."""

    task: Annotated[str, panel(_TASK, "sorting, addition, chain or brackets.")] = "sorting"
    digits: Annotated[int, panel(_TASK, "Length of a problem: digits, terms or brackets.")] = 6
    symbols: Annotated[int, panel(_TASK, "Digits in use, radix or modulus; 2 to 10.")] = 10
    noise: Annotated[float, panel(_TASK, "Share of wrong tokens in the base's training data.")] = (
        0.1
    )
    base_steps: Annotated[int, panel(_TASK, "Supervised steps of the base policy.")] = 2000
    base_seed: Annotated[int, panel(_TASK, "Seed of the base policy.")] = 0
    family: Annotated[str, panel(_MODEL, "transformer or recurrent.")] = "transformer"
    width: Annotated[int, panel(_MODEL, "Model width.")] = 32
    layers: Annotated[int, panel(_MODEL, "Blocks.")] = 2
    heads: Annotated[int, panel(_MODEL, "Attention heads.")] = 2
    group_size: Annotated[int, panel(_GRPO, "Responses per prompt.")] = 8
    temperature: Annotated[float, panel(_GRPO, "Sampling temperature.")] = 1.0
    minibatches: Annotated[
        int, panel(_GRPO, "Minibatches per epoch; K = minibatches * epochs.")
    ] = 8
    epochs: Annotated[int, panel(_GRPO, "Passes over a rollout.")] = 1
    reference_batch: Annotated[int, panel(_GRPO, "B0 of lr = base_lr * (B/B0)**gamma.")] = 64
    gamma: Annotated[float, panel(_GRPO, "0.5 square root, 1 linear, 0 fixed.")] = 0.5
    warmup_responses: Annotated[int, panel(_GRPO, "Length of the lr warm-up.")] = 0
    clip_low: Annotated[str, panel(_GRPO, "Lower clip epsilon, or none.")] = "0.2"
    clip_high: Annotated[str, panel(_GRPO, "Upper clip epsilon, or none.")] = "0.2"
    loss_mean: Annotated[str, panel(_GRPO, "Average over: token, sequence, constant.")] = "token"
    normalize_std: Annotated[bool, panel(_GRPO, "Divide advantages by the group's sd.")] = True
    kl_coef: Annotated[float, panel(_GRPO, "Weight of the KL to the base policy.")] = 0.0
    entropy_coef: Annotated[float, panel(_GRPO, "Weight of the entropy bonus.")] = 0.0
    optimizer: Annotated[str, panel(_GRPO, "adam or sgd.")] = "adam"
    beta1: Annotated[float, panel(_GRPO, "Adam's first decay rate.")] = 0.9
    beta2: Annotated[float, panel(_GRPO, "Adam's second decay rate.")] = 0.999
    adam_eps: Annotated[float, panel(_GRPO, "Adam's epsilon.")] = 1e-8
    momentum: Annotated[float, panel(_GRPO, "Momentum of sgd.")] = 0.0
    grad_clip: Annotated[str, panel(_GRPO, "Largest gradient norm, or none.")] = "none"
    eval_every: Annotated[int, panel(_VALIDATION, "Responses between validations.")] = 512
    eval_size: Annotated[int, panel(_VALIDATION, "Held-out problems.")] = 500
    eval_seed: Annotated[int, panel(_VALIDATION, "Seed of the held-out problems.")] = 0
    probe_every: Annotated[int, panel(_PROBES, "Responses between probes; 0: none.")] = 0
    probe_prompts: Annotated[int, panel(_PROBES, "Held-out prompts of a probe.")] = 512
    probe_twins: Annotated[int, panel(_PROBES, "Repetitions of a probed update.")] = 2
    variant: Annotated[str, panel(_VALIDATION, "Added to the names of the runs.")] = ""

    def values(self) -> dict[str, Any]:
        """Return the settings with "none" understood."""
        out = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("clip_low", "clip_high", "grad_clip"):
            out[name] = _number_or_none(out[name], name)
        return out

    def given(self, size: str) -> dict[str, Any]:
        """Return the settings with the key `size` in place of the model's defaults, if given."""
        values = self.values()
        if not size:
            return values
        defaults = Training().values()
        model = ("width", "layers", "heads")
        own = {k: v for k, v in values.items() if k not in model or v != defaults[k]}
        return {**own, "size": size}


@grouped
def train(
    *,
    out: Annotated[Path, typer.Argument(help="Each run is written to OUT/RUN_ID.")],
    batch_size: Annotated[int, typer.Option(help="Responses per rollout, B.")] = 64,
    base_lr: Annotated[
        list[float], typer.Option(help="Rate at the reference batch; repeatable.")
    ] = [1e-4],  # noqa: B006 (typer copies it)
    seed: Annotated[list[int], typer.Option(help="Seed; repeatable.")] = [0],  # noqa: B006
    responses: Annotated[int, typer.Option(help="Responses after which a run ends.")] = 20_000,
    size: Annotated[
        str, typer.Option(help="small, medium or large, for width, layers and heads.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    settings: Training,
    quiet: Quiet = False,
) -> None:
    """Train GRPO runs of one batch size, all seeds and learning rates at once.

    Example: twoclock train runs --batch-size 64 --base-lr 1e-4 --seed 0 --seed 1
    """
    trainer = load_trainer()
    shared = trainer.with_size(settings.given(size))
    members = [
        trainer.TrainSettings(
            seed=s, batch_size=batch_size, base_lr=rate, responses=responses, **shared
        )
        for rate in base_lr
        for s in seed
    ]
    with Bar(quiet=quiet) as bar:
        folders = trainer.train(members, out, progress=bar, device=device)
    done(folders, quiet=quiet)


def load_trainer() -> ModuleType:
    """Return the trainer's package, or raise TrainingError when torch is not installed."""
    try:
        from twoclock import trainer
    except ModuleNotFoundError as err:
        if err.name != "torch":
            raise
        msg = "training needs torch: pip install 'twoclock[train]' (README: the CPU build of torch)"
        raise TrainingError(msg) from None
    return trainer


def done(folders: list[Path], *, quiet: bool) -> None:
    """Say on stderr which runs are there now."""
    if not quiet:
        print(f"{len(folders)} runs in {folders[0].parent}", file=sys.stderr)


def _number_or_none(text: str, name: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        msg = f"--{name.replace('_', '-')} {text!r}: must be a number or none"
        raise SettingsError(msg) from None
