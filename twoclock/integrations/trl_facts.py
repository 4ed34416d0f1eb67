"""What the arguments of TRL's GRPOTrainer say about a run: its facts, and how to count responses.

Needs neither TRL nor torch: any object with the attributes of `trl.GRPOConfig` will do. The rules
were read in the source of TRL 1.16 (`grpo_config.py`, `grpo_trainer.py`); a config without
`steps_per_generation` (before 0.18) is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twoclock.errors import LogFormatError
from twoclock.runfacts import RunFacts

_RATIO_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""Values of `loss_type` whose ratio is clipped to 1 - epsilon .. 1 + epsilon_high."""

_NO_WARMUP = ("constant",)

_MEANS = {"dapo": "token", "bnpo": "token", "grpo": "sequence", "dr_grpo": "constant"}
"""How the loss types average tokens; others, which change more than that, keep their name."""

_ADVANTAGES = {"group": "centred/std", "batch": "centred/batch std", "none": "centred"}


@dataclass(frozen=True)
class Cycle:
    """How TRL samples: G responses each time, used by so many micro-batches of each process.

    A micro-batch is one forward and backward pass, an optimizer step (TRL's `global_step`)
    takes `accumulation` of them. TRL samples before micro-batch 0, `micro_batches`,
    2 * `micro_batches`, ... of a training session, and anew when training is resumed.

    Parameters
    ----------
    generation : int
        Responses of one generation over all processes, G (`generation_batch_size`).
    slices : int
        Micro-batches that use each response once (`steps_per_generation`).
    micro_batches : int
        Micro-batches from one generation to the next (`steps_per_generation * num_iterations`).
    accumulation : int
        Micro-batches of one optimizer step (`gradient_accumulation_steps`).

    Examples
    --------
    >>> cycle = Cycle(generation=64, slices=8, micro_batches=16, accumulation=2)
    >>> cycle.batch_size, cycle.steps
    (64, 8)
    >>> [cycle.generated(m) for m in (0, 1, 16, 17)], [cycle.trained(m) for m in (0, 1, 12, 17)]
    ([0, 64, 64, 128], [0, 8, 64, 72])
    >>> Cycle(generation=8, slices=1, micro_batches=1, accumulation=4).batch_size
    32
    """

    generation: int
    slices: int
    micro_batches: int
    accumulation: int

    @property
    def steps(self) -> int:
        """Optimizer steps per rollout, K."""
        return max(1, self.micro_batches // self.accumulation)

    @property
    def batch_size(self) -> int:
        """Responses per rollout, B; several generations that feed one step are one rollout."""
        return self.generation * max(1, self.accumulation // self.micro_batches)

    def generated(self, micro_batches: int) -> int:
        """Return the responses sampled by the end of so many micro-batches of a session."""
        return math.ceil(micro_batches / self.micro_batches) * self.generation

    def trained(self, micro_batches: int) -> int:
        """Return the responses that a gradient has used by then, at least once."""
        whole, part = divmod(micro_batches, self.micro_batches)
        used = min(part, self.slices) * self.generation // self.slices
        return whole * self.generation + used

    def whole(self, micro_batches: int) -> bool:
        """Whether a generation has just been used up."""
        return micro_batches % self.micro_batches == 0


def sampling_cycle(args: Any) -> Cycle:
    """Return how a `GRPOConfig` samples.

    Raises
    ------
    LogFormatError
        The optimizer steps per rollout vary, or one process drives several devices.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> args = SimpleNamespace(
    ...     generation_batch_size=64, steps_per_generation=8, num_iterations=2,
    ...     gradient_accumulation_steps=4, n_gpu=1,
    ... )
    >>> sampling_cycle(args).steps
    4
    """
    try:
        cycle = Cycle(
            generation=args.generation_batch_size,
            slices=args.steps_per_generation,
            micro_batches=args.steps_per_generation * args.num_iterations,
            accumulation=args.gradient_accumulation_steps,
        )
    except AttributeError as err:
        msg = f"TwoClockCallback needs a GRPOConfig of TRL 0.18 or newer: {err}"
        raise LogFormatError(msg) from err
    longer, shorter = cycle.micro_batches, cycle.accumulation
    if max(longer, shorter) % min(longer, shorter):
        msg = (
            f"steps_per_generation * num_iterations == {longer} and gradient_accumulation_steps == "
            f"{shorter}: the optimizer steps of a rollout vary; let one divide the other"
        )
        raise LogFormatError(msg)
    if args.n_gpu > 1:
        msg = f"one process drives {args.n_gpu} devices; start one process per device (torchrun)"
        raise LogFormatError(msg)
    return cycle


def run_facts(args: Any, *, max_steps: int) -> RunFacts:
    """Return the facts of a run that a `GRPOConfig` holds; counts are in responses.

    Parameters
    ----------
    args : GRPOConfig
        Of TRL 0.18 or newer.
    max_steps : int
        Optimizer steps of the whole run, which a relative warm-up needs.

    Raises
    ------
    LogFormatError
        See `sampling_cycle`.
    """
    cycle = sampling_cycle(args)
    facts: RunFacts = {
        "framework": "trl",
        "seed": args.seed,
        "batch_size": cycle.batch_size,
        "group_size": args.num_generations,
        "optimizer_steps_per_rollout": cycle.steps,
        "lr": args.learning_rate,
        "lr_schedule": _schedule(args),
        "warmup_responses": _warmup_responses(args, cycle, max_steps),
        "kl_coef": args.beta,
        "entropy_coef": getattr(args, "entropy_coef", 0.0),
        "loss_mean": _loss_mean(args),
        "advantage": _advantage(args),
        "temperature": args.temperature,
        "grad_clip": args.max_grad_norm or None,
        "optimizer": _optimizer(args),
        **_clips(args),
    }
    if cycle.slices % cycle.accumulation == 0:
        facts["minibatches"] = cycle.slices // cycle.accumulation
        facts["epochs"] = args.num_iterations
    if _masks_ratios(args):
        facts["clip_active"] = "yes"
    return facts


def _clips(args: Any) -> RunFacts:
    """Return the clips of the loss; those of a soft or unknown loss are left out."""
    high = args.epsilon if args.epsilon_high is None else args.epsilon_high
    if args.loss_type in _RATIO_CLIPPED:
        return {"clip_low": args.epsilon, "clip_high": high, "clip_dual": args.delta}
    if args.loss_type == "cispo":  # the ratio itself is cut at epsilon_high
        return {"clip_low": None, "clip_high": None, "clip_dual": high}
    return {}


def _loss_mean(args: Any) -> str:
    name = _MEANS.get(args.loss_type, args.loss_type)
    level = getattr(args, "importance_sampling_level", "token")
    return name if level == "token" else f"{name}, {level} ratio"


def _advantage(args: Any) -> str:
    scale = {True: "group", False: "none"}.get(args.scale_rewards, args.scale_rewards)
    name = _ADVANTAGES.get(scale, str(scale))
    order = getattr(args, "multi_objective_aggregation", "sum_then_normalize")
    return name if order == "sum_then_normalize" else f"{name}, {order}"


def _masks_ratios(args: Any) -> bool:
    """Whether ratios are truncated or masked beside the clip, whatever its epsilon."""
    sampler = getattr(args, "use_vllm", False) and args.vllm_importance_sampling_correction
    return bool(sampler) or getattr(args, "off_policy_mask_threshold", None) is not None


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _schedule(args: Any) -> str:
    """Return the schedule after warm-up, with what it was given."""
    name = _word(args.lr_scheduler_type)
    given = getattr(args, "lr_scheduler_kwargs", None) or {}
    settings = ",".join(f"{key}={given[key]}" for key in sorted(given))
    name = "constant" if name == "constant_with_warmup" else name
    return f"{name}({settings})" if settings else name


def _warmup_responses(args: Any, cycle: Cycle, max_steps: int) -> float:
    if _word(args.lr_scheduler_type) in _NO_WARMUP:
        return 0.0
    return float(args.get_warmup_steps(max_steps) * cycle.batch_size / cycle.steps)


def _optimizer(args: Any) -> str:
    """Return the optimizer's name and settings, those that are 0 or absent left out."""
    name = _word(args.optim)
    parts = []
    if "adam" in name or "lion" in name:
        parts = [f"{args.adam_beta1:g}", f"{args.adam_beta2:g}", f"eps={args.adam_epsilon:g}"]
    if args.weight_decay:
        parts.append(f"weight_decay={args.weight_decay:g}")
    if getattr(args, "optim_args", None):
        parts.append(str(args.optim_args))
    return f"{name}({','.join(parts)})" if parts else name
