"""Members that train in step: their parameters, optimizer, generators, and one rollout of work.

Members of one crew share every setting but seed, base learning rate and length. A member that ends
or breaks leaves the crew; the others do not notice, because each has its own generator and no
operation mixes members.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.errors import TrainingError
from twoclock.trainer.adam import Adam, clip_gradient
from twoclock.trainer.grpo import (
    Rollout,
    StepStats,
    advantages,
    gradient,
    merge,
    roll,
    sample_chunks,
)
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.tasks import held_out, verify


@dataclass(frozen=True)
class RolloutReport:
    """What one rollout and its K updates saw, per member.

    Parameters
    ----------
    reward, entropy, grad_norm : Tensor
        (M,): mean reward, mean token entropy of the sampling policy in nats, mean gradient norm
        before clipping.
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

    Raises
    ------
    TrainingError
        The members differ in another setting, or two are the same run.
    """

    def __init__(self, members: Sequence[TrainSettings], base: Tensor) -> None:
        check_members(members)
        first = members[0]
        self.members = list(members)
        self.common = first
        self.task, self.shape = first.make_task(), first.shape()
        self.held = held_out(self.task, first.eval_size, first.eval_seed)
        self.theta = base.repeat(len(members), 1)
        zeros = torch.zeros_like(self.theta)
        self.adam = Adam(zeros, zeros.clone(), 0, first.beta1, first.beta2, first.adam_eps)
        self.generators = [torch.Generator().manual_seed(m.seed) for m in members]
        self.bad_rollouts = [0] * len(members)
        self.rollout = 0
        self.seconds = 0.0

    @property
    def responses(self) -> int:
        """Responses each member has generated."""
        return self.rollout * self.common.batch_size

    def advance(self) -> RolloutReport:
        """Sample one rollout and take its K optimizer steps."""
        s = self.common
        start = time.perf_counter()
        batch = roll(
            self.theta, self.shape, self.task, self.held, s.prompts, s.group_size, self.generators
        )
        sampled = time.perf_counter()
        stats, norms, rate = self._update(batch)
        done = time.perf_counter()
        self.rollout += 1
        self.seconds += done - start
        norm = torch.stack(norms).mean(0)
        merged = merge(stats, [1 / len(stats)] * len(stats))
        broken = ~(merged.loss.isfinite() & norm.isfinite())
        self.bad_rollouts = [
            n + 1 if bad else 0 for n, bad in zip(self.bad_rollouts, broken.tolist(), strict=True)
        ]
        reward = batch.rewards.flatten(1).mean(1)
        return RolloutReport(
            reward, batch.entropy, norm, merged, rate, sampled - start, done - sampled
        )

    def _update(self, batch: Rollout) -> tuple[list[StepStats], list[Tensor], Tensor]:
        """Take K steps on `batch`; return their statistics, gradient norms and the last rate."""
        s = self.common
        advantage = advantages(batch.rewards, normalize_std=s.normalize_std)  # (M, P, G)
        stats, norms = [], []
        rate = torch.zeros(len(self.members))
        for epoch in range(s.epochs):
            order = torch.stack([torch.randperm(s.prompts, generator=g) for g in self.generators])
            for i, index in enumerate(order.chunk(s.minibatches, dim=1)):  # (M, P/minibatches)
                rows = torch.arange(index.shape[0]).unsqueeze(1)  # (M, 1)
                grad, seen = gradient(
                    self.theta,
                    self.shape,
                    batch.take(index),
                    advantage[rows, index],
                    s.clip_low,
                    s.clip_high,
                )
                norms.append(clip_gradient(grad, s.grad_clip))
                share = (epoch * s.minibatches + i + 1) / s.steps_per_rollout
                reached = (self.rollout + share) * s.batch_size
                rate = torch.tensor([m.lr_at(reached) for m in self.members])
                self.adam.step(self.theta, grad, rate)
                stats.append(seen)
        return stats, norms, rate

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
        uniforms = torch.rand(size, generator=generator).expand(members, -1, -1, -1)
        prompts, answers = self.task.problems(self.held)  # (n, L), (n, A)
        prompts = prompts.unsqueeze(0).expand(members, -1, -1)  # (M, n, L)
        tokens, _, _ = sample_chunks(self.theta, self.shape, prompts, uniforms)
        right = verify(tokens.squeeze(-1), answers)  # (M, n)
        seconds = time.perf_counter() - start
        self.seconds += seconds
        return [int(n) / s.eval_size for n in right.sum(1).tolist()], seconds

    def keep(self, rows: list[int]) -> None:
        """Let all members but `rows` leave."""
        self.members = [self.members[i] for i in rows]
        self.generators = [self.generators[i] for i in rows]
        self.bad_rollouts = [self.bad_rollouts[i] for i in rows]
        self.theta = self.theta[rows].clone()
        self.adam.keep(rows)


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
