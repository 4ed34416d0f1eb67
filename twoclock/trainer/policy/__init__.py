"""Policies whose parameters carry a leading member axis, so that members run as one batch.

`shape` says which parameters there are; `transformer` and `recurrent` are the two families behind
`logits` and `sample`.
"""

from __future__ import annotations

from torch import Tensor

from twoclock.trainer.policy import recurrent, transformer
from twoclock.trainer.policy.shape import FAMILIES, Shape, initial, unpack

__all__ = ["FAMILIES", "Shape", "initial", "logits", "sample", "unpack"]


def logits(theta: Tensor, shape: Shape, prompts: Tensor, tokens: Tensor) -> Tensor:
    """Return next-token logits at every answer position.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored).
    shape : Shape
        Sizes and family.
    prompts : Tensor
        (M, P, L), int64.
    tokens : Tensor
        Answer tokens (M, P, A, G), int64; the last one is predicted, never read.

    Returns
    -------
    Tensor
        (M, P, A, G, V), not divided by a temperature.
    """
    if shape.family == "recurrent":
        return recurrent.logits(theta, shape, prompts, tokens)
    return transformer.logits(theta, shape, prompts, tokens)


def sample(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample answers.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored).
    shape : Shape
        Sizes and family.
    prompts : Tensor
        (M, P, L), int64.
    uniforms : Tensor
        One number in [0, 1) per token to draw, (M, P, A, G): tokens are inverted from their
        cumulative probabilities, so that the caller's generators decide everything.
    temperature : float
        Logits are divided by it.

    Returns
    -------
    tokens, logp, entropy : Tensor
        Each (M, P, A, G); log-probabilities and entropies of the distribution drawn from, nats.
    """
    if shape.family == "recurrent":
        return recurrent.sample(theta, shape, prompts, uniforms, temperature)
    return transformer.sample(theta, shape, prompts, uniforms, temperature)
