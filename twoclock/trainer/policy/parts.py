"""What both families share: linear maps and norms over members, token vectors, drawing tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from twoclock.trainer.tasks import VOCABULARY


def linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """Map rows (M, R, inputs) by each member's own matrix and bias."""
    return torch.baddbmm(weights[f"{name}.b"], x, weights[f"{name}.w"])


def norm(x: Tensor) -> Tensor:
    """Centre and scale each row (no gain, no offset)."""
    return F.layer_norm(x, x.shape[-1:])


def head(x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return logits (M, R, V) of rows (M, R, d)."""
    return linear(norm(x), weights, "head")


def embed(weights: dict[str, Tensor], ids: Tensor) -> Tensor:
    """Return token vectors (M, P, S, d) of `ids` (M, P, S)."""
    members, rows, length = ids.shape
    hot = torch.zeros(members, rows * length, VOCABULARY, device=ids.device)
    hot.scatter_(2, ids.reshape(members, -1, 1), 1.0)  # a product beats a gather backward
    return torch.bmm(hot, weights["token"]).view(members, rows, length, -1)


def draw(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Invert `uniforms` (M, P, G) through ``softmax(logits / temperature)`` (M, P, G, V).

    Returns
    -------
    token, logp, entropy : Tensor
        Each (M, P, G); log-probability and entropy in nats, of the distribution drawn from.
    """
    logp = (logits / temperature).log_softmax(-1)
    p = logp.exp()
    below = p.cumsum(-1) <= uniforms.unsqueeze(-1)  # (M, P, G, V)
    token = below.sum(-1).clamp_(max=VOCABULARY - 1)  # (M, P, G); rounding can leave u above sum p
    chosen = logp.gather(-1, token.unsqueeze(-1)).squeeze(-1)  # (M, P, G)
    return token, chosen, -(p * logp).sum(-1)
