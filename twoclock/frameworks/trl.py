"""TRL's GRPOTrainer, and unsloth, which is a patched TRL.

- A step is one optimizer step; a rollout has K = steps_per_generation * num_iterations /
  gradient_accumulation_steps of them.
- `generation_batch_size` counts responses; the batch of one device times processes times
  steps_per_generation is the same number. The number of processes stands in no argument.
- A validation at step s is measured after s steps. It logs rewards: which of them is an accuracy,
  and what it pays for a right answer, only the user knows.

Read in the source of TRL 0.14 to 1.16. What its arguments mean is said once here, for logs and for
`twoclock.integrations.trl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from twoclock.frameworks.base import Fact, Facts, Framework, Setting, limit
from twoclock.frameworks.config import Flat
from twoclock.frameworks.values import positive

Args = Mapping[str, Any]
"""Arguments of a `GRPOConfig` by name."""

_RATIO_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""Values of `loss_type` whose ratio is clipped to 1 - epsilon .. 1 + epsilon_high."""

_MEANS = {"dapo": "token", "bnpo": "token", "grpo": "sequence", "dr_grpo": "constant"}
"""How the loss types average tokens; others, which change more than that, keep their name."""

_ADVANTAGES = {"group": "centred/std", "batch": "centred/batch std", "none": "centred"}


def clips(args: Args) -> dict[str, Any]:
    """Return the clips of the loss, None for one that is off; a soft or unknown loss has none here.

    Examples
    --------
    >>> clips({"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "delta": None})
    {'clip_low': 0.2, 'clip_high': 0.28, 'clip_dual': None}
    >>> clips({"loss_type": "sapo", "epsilon": 0.2})
    {}
    """
    low, high = args.get("epsilon"), args.get("epsilon_high")
    high = low if high is None else high
    loss = args.get("loss_type", "grpo")
    if low is not None and loss in _RATIO_CLIPPED:
        return {"clip_low": low, "clip_high": high, "clip_dual": args.get("delta")}
    if high is not None and loss == "cispo":  # the ratio itself is cut at epsilon_high
        return {"clip_low": None, "clip_high": None, "clip_dual": high}
    return {}


def loss_mean(args: Args) -> str:
    """Return how tokens are averaged in the loss.

    Examples
    --------
    >>> loss_mean({"loss_type": "bnpo", "importance_sampling_level": "sequence"})
    'token, sequence ratio'
    """
    kind = str(args["loss_type"])
    name = _MEANS.get(kind, kind)
    level = args.get("importance_sampling_level", "token")
    return name if level == "token" else f"{name}, {level} ratio"


def advantage(args: Args) -> str:
    """Return how advantages follow from rewards."""
    scale = {True: "group", False: "none"}.get(args["scale_rewards"], args["scale_rewards"])
    name = _ADVANTAGES.get(str(scale), str(scale))
    order = args.get("multi_objective_aggregation", "sum_then_normalize")
    return name if order == "sum_then_normalize" else f"{name}, {order}"


def masks_ratios(args: Args) -> bool:
    """Whether ratios are truncated or masked beside the clip, whatever its epsilon."""
    sampler = args.get("use_vllm") and args.get("vllm_importance_sampling_correction")
    return bool(sampler) or args.get("off_policy_mask_threshold") is not None


def word(value: Any) -> str:
    """Return the word behind a choice, which may be an enumeration's member."""
    return str(getattr(value, "value", value))


def schedule(args: Args) -> str:
    """Return the schedule after warm-up, with what it was given."""
    name = word(args["lr_scheduler_type"])
    given = args.get("lr_scheduler_kwargs") or {}
    given = given if isinstance(given, Mapping) else {}
    settings = ",".join(f"{key}={given[key]}" for key in sorted(given))
    name = "constant" if name == "constant_with_warmup" else name
    return f"{name}({settings})" if settings else name


def optimizer(args: Args) -> str:
    """Return the optimizer's name and settings, those that are 0 or absent left out."""
    name = word(args["optim"])
    parts = []
    names = ("adam_beta1", "adam_beta2", "adam_epsilon")
    if ("adam" in name or "lion" in name) and all(n in args for n in names):
        betas, eps = (args["adam_beta1"], args["adam_beta2"]), args["adam_epsilon"]
        parts = [*(f"{_number(beta):g}" for beta in betas), f"eps={_number(eps):g}"]
    if args.get("weight_decay"):
        parts.append(f"weight_decay={_number(args['weight_decay']):g}")
    if args.get("optim_args"):
        parts.append(str(args["optim_args"]))
    return f"{name}({','.join(parts)})" if parts else name


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _complete(facts: Facts, config: Flat) -> None:
    """Add what several arguments say together."""

    def put(name: str, value: Any) -> None:
        facts.setdefault(name, Fact(math.inf if value is None else value, "config"))

    for name, value in clips(config).items():
        put(name, value)
    for name, argument, read in (
        ("loss_mean", "loss_type", loss_mean),
        ("advantage", "scale_rewards", advantage),
        ("lr_schedule", "lr_scheduler_type", schedule),
        ("optimizer", "optim", optimizer),
    ):
        if isinstance(config.get(argument), str | bool):
            put(name, read(config))
    if masks_ratios(config):
        put("clip_active", "yes")
    if word(config.get("lr_scheduler_type")) == "constant":
        put("warmup_responses", 0.0)


def _plain(key: str) -> str:
    """Return a key as `trainer_state.json` has it: W&B and TensorBoard put the split first."""
    if key.startswith("train/"):
        return key[len("train/") :]
    return f"eval_{key[len('eval/') :]}" if key.startswith("eval/") else key


def _gradient_limit(value: Any) -> Any:
    return limit(value or None)


_ACCURACIES = (
    "eval_rewards/accuracy/mean", "eval_rewards/accuracy_reward/mean", "eval_rewards/acc/mean",
    "eval_rewards/accuracy_reward_func/mean", "eval_rewards/accuracy_func/mean",
    "eval_rewards/accuracy", "eval_rewards/accuracy_reward", "eval_rewards/acc",
    "eval_rewards/accuracy_reward_func",
)  # fmt: skip
"""Reward functions that their authors call an accuracy; any other may pay what it likes."""

TRL = Framework(
    name="trl",
    writes=(
        ("completions/mean_length", "reward_std"),
        ("completion_length", "reward_std", "rewards/*"),
        ("rewards/*/mean", "reward_std"),
        ("rewards/*", "reward_std", "epoch"),
        ("frac_reward_zero_std", "reward"),
        ("clip_ratio/region_mean", "reward"),
    ),
    configures=(
        ("num_generations", "per_device_train_batch_size"),
        ("num_generations", "generation_batch_size"),
        ("num_generations", "max_completion_length", "learning_rate"),
    ),
    steps={"global_step": 1, "step": 1},
    step_counts="optimizer",
    schedule_counts="optimizer",
    columns={
        "reward": ("reward",),
        "kl_ref": ("kl",),
        "loss": ("loss",),
        "lr": ("learning_rate",),
        "clip_fraction": ("clip_ratio/region_mean", "clip_ratio", "cispo_clip_ratio"),
        "entropy": ("entropy",),
        "grad_norm": ("grad_norm",),
        "response_tokens": ("completions/mean_length", "completion_length"),
    },
    accuracy=(_ACCURACIES,),
    scores=(("eval_reward",),),
    settings=(
        *(
            Setting(name, (name,))
            for name in (
                "generation_batch_size", "per_device_train_batch_size", "num_iterations",
                "gradient_accumulation_steps", "steps_per_generation", "num_generations",
                "seed", "temperature", "entropy_coef", "warmup_steps", "warmup_ratio",
            )
        ),
        Setting("world_size", ("world_size", "global_world_size")),
        Setting("lr", ("learning_rate",)),
        Setting("kl_coef", ("beta",)),
        Setting("grad_clip", ("max_grad_norm",), _gradient_limit),
        Setting("total_steps", ("max_steps",), positive),
        Setting("model", ("model_name_or_path", "model_args.model_name_or_path", "_name_or_path",
                          "model_name")),
        Setting("task", ("dataset_name", "script_args.dataset_name", "dataset")),
    ),
    plain=_plain,
    complete=_complete,
)  # fmt: skip
