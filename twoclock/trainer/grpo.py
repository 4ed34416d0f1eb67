"""GRPO on verifiable rewards: sample a rollout, then K optimizer steps on it, for all members.

What GRPO means here (Shao et al. 2024, arXiv:2402.03300, section 4.1, without its KL penalty):
advantages are rewards minus their group's mean, by default over their group's standard deviation;
every token of a response carries that advantage; the loss is the mean over tokens of
``-min(r*A, clip(r, 1-low, 1+high)*A)`` with r the ratio of the token's probability under the
updated and the sampling policy. No reference policy, no length terms (answers have one length).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.trainer.policy import Shape, logits, sample
from twoclock.trainer.tasks import Task, skip_held_out, verify

GRADIENT_CHUNK, SAMPLE_CHUNK = 16, 64
"""Prompts per member handled at once: fits the caches of a CPU, changes nothing but rounding."""


@dataclass(frozen=True)
class Rollout:
    """One rollout of every member.

    Parameters
    ----------
    prompts : Tensor
        (M, P, L).
    tokens : Tensor
        (M, P, A, G).
    logp : Tensor
        Log-probability of each token under the policy that drew it (M, P, A, G), nats.
    entropy : Tensor
        Mean token entropy (M,), nats.
    rewards : Tensor
        (M, P, G).
    """

    prompts: Tensor
    tokens: Tensor
    logp: Tensor
    entropy: Tensor
    rewards: Tensor

    def take(self, index: Tensor) -> Rollout:
        """Return the prompts `index` (M, p) of each member, with their groups."""
        rows = torch.arange(index.shape[0]).unsqueeze(1)  # (M, 1)
        return Rollout(
            self.prompts[rows, index],
            self.tokens[rows, index],
            self.logp[rows, index],
            self.entropy,
            self.rewards[rows, index],
        )


def advantages(rewards: Tensor, *, normalize_std: bool) -> Tensor:
    """Return group-relative advantages ``(r - mean) / std`` along the last axis.

    Parameters
    ----------
    rewards : Tensor
        (..., G).
    normalize_std : bool
        Divide by the group's population standard deviation; groups without spread stay 0.

    Returns
    -------
    Tensor
        (..., G).

    Examples
    --------
    >>> advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), normalize_std=True).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    centred = rewards - rewards.mean(-1, keepdim=True)
    if not normalize_std:
        return centred
    std = rewards.std(-1, correction=0, keepdim=True)
    return torch.where(std > 0, centred / std.clamp(min=1e-6), 0.0)


def roll(
    theta: Tensor,
    shape: Shape,
    task: Task,
    held: Tensor,
    n_prompts: int,
    group: int,
    generators: list[torch.Generator],
) -> Rollout:
    """Sample `n_prompts` groups for every member, each from its own generator."""
    span, length = task.count - len(held), (n_prompts, task.answer_length, group)
    ranks = torch.stack([torch.randint(span, (n_prompts,), generator=g) for g in generators])
    uniforms = torch.stack([torch.rand(length, generator=g) for g in generators])  # (M, P, A, G)
    prompts, answers = task.problems(skip_held_out(ranks, held))  # (M, P, L), (M, P, A)
    tokens, logp, entropy = sample_chunks(theta, shape, prompts, uniforms)
    rewards = verify(tokens.transpose(2, 3), answers.unsqueeze(2))  # (M, P, G)
    return Rollout(prompts, tokens, logp, entropy.flatten(1).mean(1), rewards)


def sample_chunks(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Call `policy.sample` on at most SAMPLE_CHUNK prompts at a time and join the results."""
    with torch.no_grad():
        cuts = (torch.split(whole, SAMPLE_CHUNK, dim=1) for whole in (prompts, uniforms))
        parts = [sample(theta, shape, p, u) for p, u in zip(*cuts, strict=True)]
        tokens, logp, entropy = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    return tokens, logp, entropy


@dataclass(frozen=True)
class StepStats:
    """What one optimizer step saw, per member (M,).

    Parameters
    ----------
    loss : Tensor
        Policy loss.
    clip_fraction : Tensor
        Share of tokens whose gradient the clip removed.
    kl_old : Tensor
        Mean of ``(r - 1) - log r``, an estimate of the KL to the sampling policy, nats per token
        (Schulman 2020, "Approximating KL divergence", k3).
    ratio_mean, ratio_max : Tensor
        Importance ratios.
    """

    loss: Tensor
    clip_fraction: Tensor
    kl_old: Tensor
    ratio_mean: Tensor
    ratio_max: Tensor


def policy_loss(
    logp: Tensor, old: Tensor, advantage: Tensor, clip_low: float | None, clip_high: float | None
) -> tuple[Tensor, StepStats]:
    """Return the mean token loss per member and its statistics.

    Parameters
    ----------
    logp, old : Tensor
        Log-probabilities under the updated and the sampling policy (M, P, A, G), nats.
    advantage : Tensor
        (M, P, G).
    clip_low, clip_high : float or None
        Clip of the ratio; None: no such clip.

    Returns
    -------
    loss : Tensor
        (M,).
    stats : StepStats
        Detached.

    Examples
    --------
    >>> one = torch.zeros(1, 1, 1, 2)
    >>> policy_loss(one + 0.5, one, torch.tensor([[[1.0, -1.0]]]), 0.2, 0.2)[1].clip_fraction
    tensor([0.5000])
    """
    log_ratio = logp - old  # (M, P, A, G)
    ratio = log_ratio.exp()
    signed = advantage.unsqueeze(2)  # (M, P, 1, G)
    free = ratio * signed
    low = None if clip_low is None else 1 - clip_low
    high = None if clip_high is None else 1 + clip_high
    kept = free
    if low is not None or high is not None:
        kept = torch.minimum(free, ratio.clamp(low, high) * signed)
    loss = -kept.flatten(1).mean(1)  # (M,)
    with torch.no_grad():
        stats = StepStats(
            loss.detach(),
            (kept < free).float().flatten(1).mean(1),
            (ratio - 1 - log_ratio).flatten(1).mean(1),
            ratio.flatten(1).mean(1),
            ratio.flatten(1).amax(1),
        )
    return loss, stats


def gradient(
    theta: Tensor,
    shape: Shape,
    batch: Rollout,
    advantage: Tensor,
    clip_low: float | None,
    clip_high: float | None,
) -> tuple[Tensor, StepStats]:
    """Return the gradient (M, n_stored) of the policy loss on `batch` and its statistics.

    Members do not mix: the gradient of the sum of their losses is each one's own gradient. Large
    batches are summed over chunks of GRADIENT_CHUNK prompts.
    """
    leaf = theta.detach().requires_grad_()
    n_prompts = batch.prompts.shape[1]
    shares, stats = [], []
    for start in range(0, n_prompts, GRADIENT_CHUNK):
        cut = slice(start, start + GRADIENT_CHUNK)
        tokens = batch.tokens[:, cut]  # (M, p, A, G)
        out = logits(leaf, shape, batch.prompts[:, cut], tokens)  # (M, p, A, G, V)
        logp = out.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)  # (M, p, A, G)
        loss, seen = policy_loss(logp, batch.logp[:, cut], advantage[:, cut], clip_low, clip_high)
        shares.append(tokens.shape[1] / n_prompts)
        (loss * shares[-1]).sum().backward()  # type: ignore[no-untyped-call]
        stats.append(seen)
    assert leaf.grad is not None
    return leaf.grad, merge(stats, shares)


def merge(stats: list[StepStats], shares: list[float]) -> StepStats:
    """Average statistics with weights `shares` (the largest ratio: the maximum)."""

    def mean(name: str) -> Tensor:
        parts = [share * getattr(s, name) for s, share in zip(stats, shares, strict=True)]
        return torch.stack(parts).sum(0)

    largest = torch.stack([s.ratio_max for s in stats]).amax(0)
    return StepStats(
        mean("loss"), mean("clip_fraction"), mean("kl_old"), mean("ratio_mean"), largest
    )
