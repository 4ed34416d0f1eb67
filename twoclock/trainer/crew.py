"""Members that train in step: their parameters, optimizer, generators, and one rollout of work.

Members of one crew share every setting but seed, base learning rate and length. A member that ends
or breaks leaves the crew; the others do not notice, because each has its own generator and no
operation mixes members.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from twoclock.errors import TrainingError
from twoclock.trainer.grpo import Rollout, gradient, reference_chunks, roll, sample_chunks
from twoclock.trainer.loss import StepStats, add_up, advantages, merge
from twoclock.trainer.optimizers import SGD, Adam, Optimizer, clip_gradient
from twoclock.trainer.probes.path import Tracked
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.tasks import held_out


@dataclass(frozen=True)
class RolloutReport:
    """What one rollout and its K updates saw, per member.

    Parameters
    ----------
    reward, entropy, grad_norm : Tensor
        (M,): mean reward, mean token entropy of the sampling policy in nats, mean gradient norm
        before clipping.
    tokens : Tensor
        Counted response tokens of this rollout (M,).
    stats : StepStats
        Averages over the K steps (the largest ratio: the maximum).
    lr : Tensor
        Rate of the last step (M,).
    rollout_seconds, update_seconds : float
        Wall time of sampling and of the updates, of all members together.
    """

    reward: Tensor
    entropy: Tensor
    grad_norm: Tensor
    tokens: Tensor
    stats: StepStats
    lr: Tensor
    rollout_seconds: float
    update_seconds: float


class Crew:
    """Members in step.

    Parameters
    ----------
    members : sequence of TrainSettings
        Equal in all but `seed`, `base_lr` and `responses`.
    base : Tensor
        Parameters of the base policy (1, n_stored).
    device : str
        Where parameters live and are computed on, "cpu" or "cuda". Random numbers are always drawn
        on the CPU, so that every device sees the same problems and uniforms.

    Raises
    ------
    TrainingError
        The members differ in another setting, two are the same run, or there is no such device.
    """

    def __init__(self, members: Sequence[TrainSettings], base: Tensor, device: str = "cpu") -> None:
        check_members(members)
        self.device = find_device(device)
        first = members[0]
        self.members = list(members)
        self.common = first
        self.task, self.shape = first.make_task(), first.shape()
        self.held = held_out(self.task, first.eval_size, first.eval_seed)
        self.base = base.to(self.device)
        self.theta = self.base.repeat(len(members), 1)
        self.optimizer = make_optimizer(first, self.theta)
        self.generators = [torch.Generator().manual_seed(m.seed) for m in members]
        self.bad_rollouts = [0] * len(members)
        self.tokens = [0] * len(members)
        self.rollout = 0
        self.seconds = 0.0

    @property
    def responses(self) -> int:
        """Responses each member has generated."""
        return self.rollout * self.common.batch_size

    def advance(self) -> RolloutReport:
        """Sample one rollout and take its K optimizer steps."""
        start = time.perf_counter()
        batch = self.sample()
        self._wait()
        sampled = time.perf_counter()
        stats, norms, rate = self.update(batch)
        self._wait()
        done = time.perf_counter()
        self.rollout += 1
        self.seconds += done - start
        norm = add_up(norms) / len(norms)
        merged = merge(stats, mean=True)
        broken = ~(merged.loss.isfinite() & norm.isfinite())
        self.bad_rollouts = [
            n + 1 if bad else 0 for n, bad in zip(self.bad_rollouts, broken.tolist(), strict=True)
        ]
        tokens = batch.counted.flatten(1).sum(1)  # (M,)
        self.tokens = [n + int(new) for n, new in zip(self.tokens, tokens.tolist(), strict=True)]
        reward = batch.rewards.flatten(1).mean(1)
        return RolloutReport(
            reward,
            batch.mean_entropy(),
            norm,
            tokens,
            merged,
            rate,
            sampled - start,
            done - sampled,
        )

    def sample(self) -> Rollout:
        """Sample one rollout of every member."""
        s = self.common
        batch = roll(
            self.theta,
            self.shape,
            self.task,
            self.held,
            s.prompts,
            s.group_size,
            self.generators,
            s.temperature,
        )
        if s.kl_coef == 0:
            return batch
        base = self.base.expand(len(self.members), -1)
        return replace(batch, reference=reference_chunks(base, self.shape, batch, s.temperature))

    def update(self, batch: Rollout) -> tuple[list[StepStats], list[Tensor], Tensor]:
        """Take K steps on `batch`; return their statistics, gradient norms and the last rate."""
        s, rule = self.common, self.common.loss_rule()
        advantage = advantages(batch.rewards, normalize_std=s.normalize_std)  # (M, P, G)
        stats, norms = [], []
        rate = torch.zeros(len(self.members))
        rows = torch.arange(len(self.members), device=self.device).unsqueeze(1)  # (M, 1)
        for epoch in range(s.epochs):
            order = torch.stack([torch.randperm(s.prompts, generator=g) for g in self.generators])
            parts = order.to(self.device).chunk(s.minibatches, dim=1)
            for i, index in enumerate(parts):  # (M, P/minibatches)
                part, signed = batch.take(index), advantage[rows, index]
                grad, seen = gradient(self.theta, self.shape, part, signed, rule, s.temperature)
                norms.append(clip_gradient(grad, s.grad_clip))
                share = (epoch * s.minibatches + i + 1) / s.steps_per_rollout
                reached = (self.rollout + share) * s.batch_size
                rate = torch.tensor([m.lr_at(reached) for m in self.members], device=self.device)
                self.optimizer.step(self.theta, grad, rate)
                stats.append(seen)
        return stats, norms, rate

    def _wait(self) -> None:
        """Wait for the device, so that times are those of the work and not of queueing it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def validate(self) -> tuple[list[float], float]:
        """Return each member's accuracy on the held-out problems, and the seconds it took.

        One answer per problem is sampled at temperature 1, as in training, always from the same
        uniforms, so that differences between validations are not blurred by new draws. Greedy
        decoding would hide what is being learnt: the base policy's noise.
        """
        start = time.perf_counter()
        s, members = self.common, len(self.members)
        generator = torch.Generator().manual_seed(s.eval_seed + 1)
        size = (1, s.eval_size, self.task.answer_length, 1)
        uniforms = torch.rand(size, generator=generator).to(self.device)
        prompts, answers = (part.to(self.device) for part in self.task.problems(self.held))
        prompts = prompts.unsqueeze(0).expand(members, -1, -1)  # (M, n, L)
        uniforms = uniforms.expand(members, -1, -1, -1)
        tokens, _, _ = sample_chunks(self.theta, self.shape, prompts, uniforms)
        right = self.task.rewards(prompts, answers, tokens.squeeze(-1))  # (M, n)
        counts = [int(n) for n in right.sum(1).tolist()]
        seconds = time.perf_counter() - start
        self.seconds += seconds
        return [n / s.eval_size for n in counts], seconds

    def keep(self, rows: list[int]) -> None:
        """Let all members but `rows` leave."""
        self.members = [self.members[i] for i in rows]
        self.generators = [self.generators[i] for i in rows]
        self.bad_rollouts = [self.bad_rollouts[i] for i in rows]
        self.tokens = [self.tokens[i] for i in rows]
        self.theta = self.theta[rows].clone()
        self.optimizer.keep(rows)


def make_optimizer(settings: TrainSettings, theta: Tensor) -> Optimizer:
    """Return a fresh optimizer for the parameters `theta` (M, n_stored)."""
    optimizer: Optimizer
    if settings.optimizer == "sgd":
        optimizer = SGD(theta, settings.momentum)
    else:
        optimizer = Adam(theta, settings.beta1, settings.beta2, settings.adam_eps)
    return Tracked(optimizer, theta) if settings.probe_every else optimizer


def find_device(name: str) -> torch.device:
    """Return the device called `name`, or raise TrainingError when it cannot be used here.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
    except RuntimeError as err:
        msg = f"device == {name!r}: no such device; use cpu or cuda"
        raise TrainingError(msg) from err
    if device.type not in ("cpu", "cuda"):
        msg = f"device == {name!r}, must be cpu or cuda"
        raise TrainingError(msg)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        msg = f"device == {name!r}: torch {torch.__version__} sees no such GPU; use --device cpu"
        raise TrainingError(msg)
    return device


def check_members(members: Sequence[TrainSettings]) -> None:
    """Raise TrainingError unless the settings can train together."""
    if not members:
        msg = "no members: give at least one TrainSettings"
        raise TrainingError(msg)
    first = members[0].common()
    for member in members:
        for name, value in member.common().items():
            if value != first[name]:
                msg = f"members must share {name}: {value!r} != {first[name]!r}"
                raise TrainingError(msg)
    if len({m.run_id for m in members}) < len(members):
        msg = "two members are the same run: give each its own seed or base_lr"
        raise TrainingError(msg)
