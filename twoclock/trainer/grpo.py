"""GRPO on verifiable rewards: sample a rollout, and the gradient of a minibatch of it.

Group relative policy optimisation (Shao et al. 2024, arXiv:2402.03300, section 4.1): every prompt
is answered G times, a response's advantage is its reward relative to its group's, and every token
carries it. The loss and its options are in `twoclock.trainer.loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from twoclock.trainer.loss import LossRule, StepStats, merge, policy_loss, token_weights
from twoclock.trainer.policy import Shape, logits, sample
from twoclock.trainer.tasks import Task, counted, skip_held_out

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
        Log-probability of each token under the distribution that drew it (M, P, A, G), nats.
    counted : Tensor
        1 for tokens up to the end of their response, else 0, (M, P, A, G).
    entropy : Tensor
        Entropy of the distribution that drew each token (M, P, A, G), nats.
    rewards : Tensor
        (M, P, G).
    reference : Tensor or None
        Log-probability of each token under the base policy, where the loss needs it.
    """

    prompts: Tensor
    tokens: Tensor
    logp: Tensor
    counted: Tensor
    entropy: Tensor
    rewards: Tensor
    reference: Tensor | None = None

    def take(self, index: Tensor) -> Rollout:
        """Return the prompts `index` (M, p) of each member, with their groups."""
        rows = torch.arange(index.shape[0], device=index.device).unsqueeze(1)  # (M, 1)
        return self._each(lambda values: values[rows, index])

    def cut(self, part: slice) -> Rollout:
        """Return some prompts of every member, as views."""
        return self._each(lambda values: values[:, part])

    def _each(self, pick: Callable[[Tensor], Tensor]) -> Rollout:
        picked: dict[str, Any] = {
            name: None if values is None else pick(values) for name, values in vars(self).items()
        }
        return Rollout(**picked)

    def mean_entropy(self) -> Tensor:
        """Return the mean entropy per counted token (M,), nats."""
        total: Tensor = (self.entropy * self.counted).flatten(1).sum(1)
        return total / self.counted.flatten(1).sum(1)


def roll(
    theta: Tensor,
    shape: Shape,
    task: Task,
    held: Tensor,
    n_prompts: int,
    group: int,
    generators: list[torch.Generator],
    temperature: float = 1.0,
) -> Rollout:
    """Sample `n_prompts` groups for every member, each from its own generator."""
    drawn = draw_problems(task, held, n_prompts, group, generators, theta.device)
    return answered(theta, shape, task, *drawn, temperature)


def draw_problems(
    task: Task,
    held: Tensor,
    n_prompts: int,
    group: int,
    generators: list[torch.Generator],
    device: torch.device,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw problems that are not held out, and the uniforms that decide their responses.

    Returns
    -------
    prompts, answers, uniforms : Tensor
        (M, P, L), (M, P, A) and (M, P, A, G), on `device`; each member's from its own generator.
    """
    span, length = task.count - len(held), (n_prompts, task.answer_length, group)
    ranks = torch.stack([torch.randint(span, (n_prompts,), generator=g) for g in generators])
    uniforms = torch.stack([torch.rand(length, generator=g) for g in generators])
    prompts, answers = task.problems(skip_held_out(ranks, held))
    return prompts.to(device), answers.to(device), uniforms.to(device)


def answered(
    theta: Tensor,
    shape: Shape,
    task: Task,
    prompts: Tensor,
    answers: Tensor,
    uniforms: Tensor,
    temperature: float = 1.0,
) -> Rollout:
    """Sample a group per prompt (M, P, L) from given uniforms (M, P, A, G) and reward it."""
    tokens, logp, entropy = sample_chunks(theta, shape, prompts, uniforms, temperature)
    rewards = task.rewards(prompts.unsqueeze(2), answers.unsqueeze(2), tokens.transpose(2, 3))
    mask = counted(tokens, ends=task.ends, dim=2)
    return Rollout(prompts, tokens, logp, mask, entropy, rewards)


def sample_chunks(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Call `policy.sample` on at most SAMPLE_CHUNK prompts at a time and join the results."""
    with torch.no_grad():
        cuts = (torch.split(whole, SAMPLE_CHUNK, dim=1) for whole in (prompts, uniforms))
        parts = [sample(theta, shape, p, u, temperature) for p, u in zip(*cuts, strict=True)]
        tokens, logp, entropy = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    return tokens, logp, entropy


def log_probabilities(
    theta: Tensor, shape: Shape, prompts: Tensor, tokens: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return each token's log-probability (M, P, A, G) and all of them (M, P, A, G, V), nats."""
    out = logits(theta, shape, prompts, tokens)
    every = (out if temperature == 1.0 else out / temperature).log_softmax(-1)
    return every.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), every


def reference_chunks(theta: Tensor, shape: Shape, batch: Rollout, temperature: float) -> Tensor:
    """Return log-probabilities (M, P, A, G) of a rollout under other parameters, no gradient."""
    with torch.no_grad():
        pairs = zip(
            torch.split(batch.prompts, SAMPLE_CHUNK, dim=1),
            torch.split(batch.tokens, SAMPLE_CHUNK, dim=1),
            strict=True,
        )
        parts = [log_probabilities(theta, shape, p, t, temperature)[0] for p, t in pairs]
        return torch.cat(parts, dim=1)


def gradient(
    theta: Tensor,
    shape: Shape,
    batch: Rollout,
    advantage: Tensor,
    rule: LossRule,
    temperature: float = 1.0,
) -> tuple[Tensor, StepStats]:
    """Return the gradient (M, n_stored) of the loss on a minibatch, and its statistics.

    Members do not mix: the gradient of the sum of their losses is each one's own gradient. Large
    minibatches are summed over chunks of GRADIENT_CHUNK prompts.
    """
    leaf = theta.detach().requires_grad_()
    weights = token_weights(batch.counted, rule.loss_mean)
    shares = token_weights(batch.counted, "token")
    stats = []
    for start in range(0, batch.prompts.shape[1], GRADIENT_CHUNK):
        cut = slice(start, start + GRADIENT_CHUNK)
        part = batch.cut(cut)
        logp, every = log_probabilities(leaf, shape, part.prompts, part.tokens, temperature)
        entropy = -(every.exp() * every).sum(-1) if rule.entropy_coef else None
        loss, seen = policy_loss(
            logp,
            part.logp,
            advantage[:, cut],
            weights[:, cut],
            shares[:, cut],
            rule,
            reference=part.reference,
            entropy=entropy,
        )
        loss.sum().backward()  # type: ignore[no-untyped-call]
        stats.append(seen)
    assert leaf.grad is not None
    return leaf.grad, merge(stats, mean=False)
