"""Gradient and curvature of the expected reward, by automatic differentiation.

``J(theta) = E[R]`` over problems and the responses that the policy samples. With responses drawn at
theta_0, ``J(theta) = E_0[w(theta) * (R - c)] + const`` for the *sequence* weight

    ``w(theta) = prod over counted tokens of pi_theta / pi_theta_0``

and any baseline c that does not depend on the response, here the mean reward of the other responses
to its prompt. This is an identity in theta, so the estimate's gradient and Hessian at theta_0 have
J's own as their expectations. GRPO's token-level loss has J's gradient there, but not its Hessian:
it adds up weights of single tokens, so the products of different tokens' scores in
``E[R * (grad log pi)(grad log pi)']`` are missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from twoclock.trainer.grpo import Rollout, log_probabilities
from twoclock.trainer.policy import Shape

HESSIAN_CHUNK = 8
"""Prompts per member differentiated twice at once: bounds memory, changes nothing but rounding."""


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of the expected reward as a rollout shows them, (M, n_stored).

    Parameters
    ----------
    gradient : Tensor
        The gradient.
    product : Tensor
        The Hessian times the given direction.
    """

    gradient: Tensor
    product: Tensor


def others_mean(rewards: Tensor) -> Tensor:
    """Return for each response the mean reward of its group's others, (..., G).

    Examples
    --------
    >>> others_mean(torch.tensor([1.0, 0.0, 0.5])).tolist()
    [0.25, 0.75, 0.5]
    """
    return (rewards.sum(-1, keepdim=True) - rewards) / (rewards.shape[-1] - 1)


def sequence_logp(theta: Tensor, shape: Shape, batch: Rollout, temperature: float) -> Tensor:
    """Return the log-probability of each whole response (M, P, G), nats, with its graph."""
    logp, _ = log_probabilities(theta, shape, batch.prompts, batch.tokens, temperature)
    return torch.where(batch.counted > 0, logp, 0.0).sum(2)


def surrogate(logp: Tensor, old: Tensor, rewards: Tensor) -> Tensor:
    """Return the estimate of J per member (M,), up to a constant.

    ``mean of exp(logp - old) * (R - mean R of the others)``

    Parameters
    ----------
    logp, old : Tensor
        Log-probabilities of responses (M, P, G) under the policy and under the one that drew them.
    rewards : Tensor
        (M, P, G).
    """
    return ((logp - old).exp() * (rewards - others_mean(rewards))).flatten(1).mean(1)


def derivatives(
    theta: Tensor, shape: Shape, batch: Rollout, direction: Tensor, temperature: float = 1.0
) -> Derivatives:
    """Return gradient and Hessian-vector product of the expected reward at the sampling policy.

    The product is the gradient of ``gradient . direction`` (Pearlmutter 1994). Attention takes
    its plain form here, since the fused kernels cannot be differentiated twice.

    Parameters
    ----------
    theta : Tensor
        Parameters that drew `batch`, (M, n_stored).
    shape : Shape
        Sizes.
    batch : Rollout
        Responses and rewards.
    direction : Tensor
        (M, n_stored).
    temperature : float
        Of the sampling.
    """
    leaf = theta.detach().requires_grad_()
    gradient, product = torch.zeros_like(theta), torch.zeros_like(theta)
    n_prompts = batch.prompts.shape[1]
    with sdpa_kernel(SDPBackend.MATH):
        for start in range(0, n_prompts, HESSIAN_CHUNK):
            part = batch.cut(slice(start, start + HESSIAN_CHUNK))
            share = part.prompts.shape[1] / n_prompts
            logp = sequence_logp(leaf, shape, part, temperature)
            value = surrogate(logp, logp.detach(), part.rewards).sum() * share
            (first,) = torch.autograd.grad(value, leaf, create_graph=True)
            (second,) = torch.autograd.grad((first * direction).sum(), leaf)
            gradient += first.detach()
            product += second
    return Derivatives(gradient, product)
