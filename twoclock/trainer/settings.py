"""Settings of one run: plain data, checked once when made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twoclock.errors import SettingsError
from twoclock.trainer.loss import LOSS_MEANS, LossRule
from twoclock.trainer.policy import FAMILIES, Shape
from twoclock.trainer.tasks import SYMBOLS, TASKS, Task, make_task

SIZES: dict[str, dict[str, int]] = {
    "small": {"width": 16, "layers": 1, "heads": 2},
    "medium": {"width": 32, "layers": 2, "heads": 2},
    "large": {"width": 64, "layers": 4, "heads": 4},
}
"""Named sizes of a model: about 4, 26 and 200 thousand parameters for a transformer."""

OPTIMIZERS = ("adam", "sgd")

PROBE_PARTS = 16
"""Disjoint parts of a probe's held-out rollout."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Everything that decides one run; equal settings give equal metrics on one machine.

    Parameters
    ----------
    seed : int
        Seed of the run's only generator: problems, samples and minibatches.
    batch_size : int
        Responses per rollout, B; a multiple of ``group_size * minibatches``.
    base_lr : float
        Learning rate at `reference_batch`; the peak rate is ``base_lr * (B/B0)**gamma``.
    responses : int
        Responses after which the run ends (rounded up to whole rollouts).
    task : {"sorting", "addition", "chain", "brackets"}
        What is trained, see `twoclock.trainer.tasks`.
    digits : int
        Length of a problem: digits to sort, of each number to add, terms of the chain, brackets in
        the prompt.
    symbols : int
        Difficulty: digits are 0 .. symbols-1 (sorting), the radix (addition), the modulus (chain),
        twice the number of bracket types; 2 to 10.
    noise : float
        Share of answer tokens replaced by a random symbol in the base policy's training data.
    base_steps : int
        Supervised steps of the base policy.
    base_seed : int
        Seed of the base policy and its data; all runs of a comparison share it.
    family : {"transformer", "recurrent"}
        Kind of the model, see `twoclock.trainer.policy`.
    width, layers, heads : int
        Model width, blocks and attention heads (`SIZES` has named ones).
    group_size : int
        Responses per prompt, G (Shao et al. 2024, arXiv:2402.03300, section 4.1.1).
    temperature : float
        Logits are divided by it when sampling, and so in the ratios; validation samples at 1.
    minibatches, epochs : int
        K = minibatches * epochs optimizer steps per rollout (Schulman et al. 2017,
        arXiv:1707.06347, algorithm 1).
    reference_batch : int
        B0 of the learning-rate rule ``lr = base_lr * (B/B0)**gamma``.
    gamma : float
        Exponent of the rule: 0.5 square root (Krizhevsky 2014, arXiv:1404.5997; Malladi et al.
        2022, arXiv:2205.10287, for Adam), 1 linear (Goyal et al. 2017, arXiv:1706.02677), 0 fixed.
    warmup_responses : int
        The rate rises linearly over the first so many responses, step by step; 0: no warm-up
        (Goyal et al. 2017, section 2.2).
    clip_low, clip_high : float or None
        The importance ratio is clipped to [1 - clip_low, 1 + clip_high]; None: that side is free
        (`twoclock.trainer.loss.policy_loss`).
    loss_mean : {"token", "sequence", "constant"}
        How tokens are averaged (`twoclock.trainer.loss.token_weights`).
    normalize_std : bool
        Divide advantages by the group's standard deviation (`twoclock.trainer.loss.advantages`).
    kl_coef : float
        Weight of the KL penalty to the base policy; 0: none, and the base is not evaluated.
    entropy_coef : float
        Weight of the entropy bonus.
    optimizer : {"adam", "sgd"}
        See `twoclock.trainer.optimizers`.
    beta1, beta2, adam_eps : float
        Adam's decay rates and epsilon.
    momentum : float
        Momentum of SGD.
    grad_clip : float or None
        Largest gradient norm of a step (Pascanu et al. 2013, arXiv:1211.5063); None: no limit.
    eval_every : int
        Responses between validations; never finer than one rollout.
    eval_size : int
        Held-out problems, one sampled answer each.
    eval_seed : int
        Seed of the held-out problems and of the uniforms that sample their answers.
    probe_every : int
        Responses between probes (`twoclock.trainer.probes`), rounded down to whole rollouts but
        at least one; 0: no probes.
    probe_prompts : int
        Held-out prompts of a probe, `group_size` responses each; a multiple of 16.
    probe_twins : int
        Repetitions of a probed rollout's updates, to tell their noise from their mean; 0: none,
        and a standard error of what they tell needs 2.
    variant : str
        Name of the variant of a study; only part of the run's name.

    Raises
    ------
    SettingsError
        A value is outside its range.

    Examples
    --------
    >>> TrainSettings(seed=0, batch_size=256, base_lr=1e-4, responses=4096).lr
    0.0002
    """

    seed: int
    batch_size: int
    base_lr: float
    responses: int
    task: str = "sorting"
    digits: int = 6
    symbols: int = SYMBOLS
    noise: float = 0.1
    base_steps: int = 2000
    base_seed: int = 0
    family: str = "transformer"
    width: int = 32
    layers: int = 2
    heads: int = 2
    group_size: int = 8
    temperature: float = 1.0
    minibatches: int = 8
    epochs: int = 1
    reference_batch: int = 64
    gamma: float = 0.5
    warmup_responses: int = 0
    clip_low: float | None = 0.2
    clip_high: float | None = 0.2
    loss_mean: str = "token"
    normalize_std: bool = True
    kl_coef: float = 0.0
    entropy_coef: float = 0.0
    optimizer: str = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    adam_eps: float = 1e-8
    momentum: float = 0.0
    grad_clip: float | None = None
    eval_every: int = 512
    eval_size: int = 500
    eval_seed: int = 0
    probe_every: int = 0
    probe_prompts: int = 512
    probe_twins: int = 2
    variant: str = ""

    def __post_init__(self) -> None:
        for name, low in _AT_LEAST.items():
            self._check(name, getattr(self, name) >= low, f"must be >= {low}")
        for name in ("base_lr", "adam_eps", "temperature", "clip_low", "clip_high", "grad_clip"):
            value = getattr(self, name)
            self._check(name, value is None or value > 0, "must be > 0")
        for name in ("noise", "beta1", "beta2", "momentum"):
            self._check(name, 0 <= getattr(self, name) < 1, "must be >= 0 and < 1")
        for name, known in _CHOICES.items():
            self._check(name, getattr(self, name) in known, f"must be one of {', '.join(known)}")
        self._check("symbols", self.symbols <= SYMBOLS, f"must be <= {SYMBOLS}")
        named = re.fullmatch(r"[a-z0-9.]*", self.variant) is not None
        self._check("variant", named, "must have lower-case letters, digits and dots only")
        self.make_task()
        whole = self.group_size * self.minibatches
        rule = f"must be a multiple of group_size * minibatches == {whole}"
        self._check("batch_size", self.batch_size % whole == 0, rule)
        self._check("width", self.width % self.heads == 0, "must be a multiple of heads")
        rule = f"must be a multiple of {PROBE_PARTS}"
        self._check("probe_prompts", self.probe_prompts % PROBE_PARTS == 0, rule)

    def _check(self, name: str, fine: bool, rule: str) -> None:
        if not fine:
            msg = f"{name} == {getattr(self, name)!r}, {rule}"
            raise SettingsError(msg)

    @property
    def lr(self) -> float:
        """Peak learning rate, ``base_lr * (batch_size / reference_batch)**gamma``."""
        return float(self.base_lr * (self.batch_size / self.reference_batch) ** self.gamma)

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps per rollout, K."""
        return self.minibatches * self.epochs

    @property
    def prompts(self) -> int:
        """Prompts per rollout."""
        return self.batch_size // self.group_size

    @property
    def rollouts(self) -> int:
        """Rollouts until `responses` are reached."""
        return -(-self.responses // self.batch_size)

    @property
    def eval_rollouts(self) -> int:
        """Rollouts between validations."""
        return max(1, self.eval_every // self.batch_size)

    @property
    def probe_rollouts(self) -> int:
        """Rollouts between probes; 0: no probes."""
        return max(1, self.probe_every // self.batch_size) if self.probe_every else 0

    @property
    def run_id(self) -> str:
        """Name of the run's folder, for example ``B00064-lr1e-05-s0`` or ``...-s0-sgd``."""
        variant = f"-{self.variant}" if self.variant else ""
        return f"B{self.batch_size:05d}-lr{self.base_lr:g}-s{self.seed}{variant}"

    def make_task(self) -> Task:
        """Return the task."""
        return make_task(self.task, self.digits, self.symbols)

    def shape(self) -> Shape:
        """Return the sizes of the policy."""
        task = self.make_task()
        tokens = (task.prompt_length, task.answer_length)
        return Shape(self.width, self.layers, self.heads, *tokens, self.family)

    def loss_rule(self) -> LossRule:
        """Return the options of the loss."""
        return LossRule(
            self.clip_low, self.clip_high, self.loss_mean, self.kl_coef, self.entropy_coef
        )

    def lr_at(self, responses: float) -> float:
        """Learning rate of the step that ends at `responses` trained responses.

        Examples
        --------
        >>> few = {"seed": 0, "batch_size": 64, "base_lr": 1.0, "responses": 640}
        >>> slow = TrainSettings(**few, warmup_responses=128)
        >>> slow.lr_at(32), slow.lr_at(128), slow.lr_at(500)
        (0.25, 1.0, 1.0)
        """
        if self.warmup_responses == 0:
            return self.lr
        return self.lr * min(1.0, responses / self.warmup_responses)

    def common(self) -> dict[str, Any]:
        """Return what members trained together must share: all but seed, base_lr, responses."""
        return {k: v for k, v in asdict(self).items() if k not in ("seed", "base_lr", "responses")}

    def base_key(self) -> str:
        """Return a short hash of what decides the base policy, for the name of its cache file."""
        names = ("task", "digits", "symbols", "noise", "base_steps", "base_seed", "family", "width",
                 "layers", "heads", "eval_size", "eval_seed")  # fmt: skip
        text = json.dumps({name: getattr(self, name) for name in names})
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_size(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the key `size` replaced by width, layers and heads.

    Raises
    ------
    SettingsError
        The size is unknown, or one of the three is given beside it.

    Examples
    --------
    >>> with_size({"size": "small", "digits": 6})
    {'digits': 6, 'width': 16, 'layers': 1, 'heads': 2}
    """
    rest = {name: value for name, value in values.items() if name != "size"}
    if "size" not in values:
        return rest
    size = values["size"]
    if size not in SIZES:
        msg = f"size == {size!r}, must be one of {', '.join(SIZES)}"
        raise SettingsError(msg)
    both = sorted(rest.keys() & SIZES[size].keys())
    if both:
        msg = f"size == {size!r} sets {both[0]} already; give one of them"
        raise SettingsError(msg)
    return {**rest, **SIZES[size]}


_CHOICES: dict[str, tuple[str, ...]] = {
    "task": tuple(sorted(TASKS)), "family": FAMILIES, "loss_mean": LOSS_MEANS,
    "optimizer": OPTIMIZERS,
}  # fmt: skip

_AT_LEAST: dict[str, float] = {
    "seed": 0, "batch_size": 1, "responses": 1, "digits": 1, "symbols": 2, "base_steps": 0,
    "base_seed": 0, "width": 1, "layers": 1, "heads": 1, "group_size": 2, "minibatches": 1,
    "epochs": 1, "reference_batch": 1, "warmup_responses": 0, "kl_coef": 0, "entropy_coef": 0,
    "eval_every": 1, "eval_size": 1, "eval_seed": 0, "probe_every": 0, "probe_prompts": 1,
    "probe_twins": 0,
}  # fmt: skip
