"""What the arguments of TRL's GRPOTrainer say about a run: its facts, and how to count responses.

Needs neither TRL nor torch: any object with the attributes of `trl.GRPOConfig` will do. The rules
of sampling were read in the source of TRL 1.16 (`grpo_trainer.py`), what single arguments mean is
said in `twoclock.frameworks.trl`; a config without `steps_per_generation` (before 0.18) is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from twoclock.errors import LogFormatError
from twoclock.frameworks.trl import (
    advantage,
    clips,
    loss_mean,
    masks_ratios,
    optimizer,
    schedule,
    word,
)
from twoclock.runfacts import RunFacts

_NO_WARMUP = ("constant",)


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
    given = vars(args)
    facts: RunFacts = {
        "framework": "trl",
        "seed": args.seed,
        "batch_size": cycle.batch_size,
        "group_size": args.num_generations,
        "optimizer_steps_per_rollout": cycle.steps,
        "lr": args.learning_rate,
        "lr_schedule": schedule(given),
        "warmup_responses": _warmup_responses(args, cycle, max_steps),
        "kl_coef": args.beta,
        "entropy_coef": getattr(args, "entropy_coef", 0.0),
        "loss_mean": loss_mean(given),
        "advantage": advantage(given),
        "temperature": args.temperature,
        "grad_clip": args.max_grad_norm or None,
        "optimizer": optimizer(given),
        **cast(RunFacts, clips(given)),
    }
    if cycle.slices % cycle.accumulation == 0:
        facts["minibatches"] = cycle.slices // cycle.accumulation
        facts["epochs"] = args.num_iterations
    if masks_ratios(given):
        facts["clip_active"] = "yes"
    return facts


def _warmup_responses(args: Any, cycle: Cycle, max_steps: int) -> float:
    if word(args.lr_scheduler_type) in _NO_WARMUP:
        return 0.0
    return float(args.get_warmup_steps(max_steps) * cycle.batch_size / cycle.steps)
