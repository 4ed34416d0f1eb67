"""Settings of one run: plain data, checked once when made."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from twoclock.errors import SettingsError
from twoclock.trainer.policy import Shape
from twoclock.trainer.tasks import TASKS, Task, make_task


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
    task : {"sorting", "addition"}
        What is trained.
    digits : int
        Digits to sort, or digits of each number to add.
    noise : float
        Share of answer tokens replaced by a random digit in the base policy's training data.
    base_steps : int
        Supervised steps of the base policy.
    base_seed : int
        Seed of the base policy and its data; all runs of a comparison share it.
    width, layers, heads : int
        Model width, blocks and attention heads.
    group_size : int
        Responses per prompt, G.
    minibatches, epochs : int
        K = minibatches * epochs optimizer steps per rollout.
    reference_batch : int
        B0 of the learning-rate rule.
    gamma : float
        Exponent of the rule: 0.5 square root, 1 linear, 0 fixed.
    warmup_responses : int
        The rate rises linearly over the first so many responses, step by step; 0: no warm-up.
    clip_low, clip_high : float or None
        The importance ratio is clipped to [1 - clip_low, 1 + clip_high]; None: that side is free.
    beta1, beta2, adam_eps : float
        Adam's decay rates and epsilon.
    grad_clip : float or None
        Largest gradient norm of a step; None: no limit.
    normalize_std : bool
        Divide advantages by the group's standard deviation.
    eval_every : int
        Responses between validations; never finer than one rollout.
    eval_size : int
        Held-out problems, one sampled answer each.
    eval_seed : int
        Seed of the held-out problems and of the uniforms that sample their answers.

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
    noise: float = 0.1
    base_steps: int = 2000
    base_seed: int = 0
    width: int = 32
    layers: int = 2
    heads: int = 2
    group_size: int = 8
    minibatches: int = 8
    epochs: int = 1
    reference_batch: int = 64
    gamma: float = 0.5
    warmup_responses: int = 0
    clip_low: float | None = 0.2
    clip_high: float | None = 0.2
    beta1: float = 0.9
    beta2: float = 0.999
    adam_eps: float = 1e-8
    grad_clip: float | None = None
    normalize_std: bool = True
    eval_every: int = 512
    eval_size: int = 500
    eval_seed: int = 0

    def __post_init__(self) -> None:
        for name, low in _AT_LEAST.items():
            self._check(name, getattr(self, name) >= low, f"must be >= {low}")
        for name in ("base_lr", "adam_eps", "clip_low", "clip_high", "grad_clip"):
            value = getattr(self, name)
            self._check(name, value is None or value > 0, "must be > 0")
        for name in ("noise", "beta1", "beta2"):
            self._check(name, 0 <= getattr(self, name) < 1, "must be >= 0 and < 1")
        known = ", ".join(sorted(TASKS))
        self._check("task", self.task in TASKS, f"must be one of {known}")
        whole = self.group_size * self.minibatches
        rule = f"must be a multiple of group_size * minibatches == {whole}"
        self._check("batch_size", self.batch_size % whole == 0, rule)
        self._check("width", self.width % self.heads == 0, "must be a multiple of heads")

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
    def run_id(self) -> str:
        """Name of the run's folder, for example ``B00064-lr1e-05-s0``."""
        return f"B{self.batch_size:05d}-lr{self.base_lr:g}-s{self.seed}"

    def make_task(self) -> Task:
        """Return the task."""
        return make_task(self.task, self.digits)

    def shape(self) -> Shape:
        """Return the sizes of the policy."""
        task = self.make_task()
        return Shape(self.width, self.layers, self.heads, task.prompt_length, task.answer_length)

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
        names = ("task", "digits", "noise", "base_steps", "base_seed", "width", "layers", "heads",
                 "eval_size", "eval_seed")  # fmt: skip
        text = json.dumps({name: getattr(self, name) for name in names})
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_AT_LEAST: dict[str, float] = {
    "seed": 0, "batch_size": 1, "responses": 1, "digits": 1, "base_steps": 0, "base_seed": 0,
    "width": 1, "layers": 1, "heads": 1, "group_size": 2, "minibatches": 1, "epochs": 1,
    "reference_batch": 1, "warmup_responses": 0, "eval_every": 1, "eval_size": 1, "eval_seed": 0,
}  # fmt: skip
