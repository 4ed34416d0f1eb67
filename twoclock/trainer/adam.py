"""Adam on the stored parameters of all members at once (Kingma and Ba 2015, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Adam:
    """Moments of every member; members step together, each at its own learning rate.

    Parameters
    ----------
    mean, square : Tensor
        First and second moments (M, n_stored).
    steps : int
        Steps taken.
    beta1, beta2, eps : float
        Decay rates and epsilon.
    """

    mean: Tensor
    square: Tensor
    steps: int
    beta1: float
    beta2: float
    eps: float

    def step(self, theta: Tensor, grad: Tensor, lr: Tensor) -> None:
        """Update `theta` (M, n_stored) in place against `grad` at the rates `lr` (M,)."""
        self.steps += 1
        self.mean.lerp_(grad, 1 - self.beta1)
        self.square.mul_(self.beta2).addcmul_(grad, grad, value=1 - self.beta2)
        correct = (1 - self.beta2**self.steps) ** 0.5
        scale = self.square.sqrt().div_(correct).add_(self.eps)  # (M, n_stored)
        rate = lr / (1 - self.beta1**self.steps)  # (M,)
        theta.sub_((self.mean / scale).mul_(rate.unsqueeze(1)))

    def keep(self, rows: list[int]) -> None:
        """Keep the members `rows` only."""
        self.mean, self.square = self.mean[rows].clone(), self.square[rows].clone()


def clip_gradient(grad: Tensor, limit: float | None) -> Tensor:
    """Scale each member's gradient to norm `limit` at most, in place; return norms before (M,).

    Examples
    --------
    >>> g = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_gradient(g, 1.0).tolist()[0], [round(x, 3) for x in g[0].tolist()]
    (5.0, [0.6, 0.8])
    """
    norm: Tensor = torch.linalg.vector_norm(grad, dim=1)  # (M,)
    if limit is not None:
        grad.mul_((limit / norm.clamp(min=1e-12)).clamp(max=1.0).unsqueeze(1))
    return norm
