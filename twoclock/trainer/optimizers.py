"""Optimizers on the stored parameters of all members at once, each member at its own rate."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """Members step together; `steps` counts them."""

    steps: int

    def step(self, theta: Tensor, grad: Tensor, lr: Tensor) -> None:
        """Update `theta` (M, n_stored) in place against `grad` at the rates `lr` (M,)."""

    def keep(self, rows: list[int]) -> None:
        """Keep the members `rows` only."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold: member-first tensors, and `steps`."""

    def restore(self, state: dict[str, Any], rows: list[int]) -> None:
        """Take the members `rows` of a saved state, in this order."""


class Adam:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1).

    ``m = beta1*m + (1-beta1)*g``, ``v = beta2*v + (1-beta2)*g**2``,
    ``theta -= lr * (m / (1-beta1**t)) / (sqrt(v / (1-beta2**t)) + eps)``.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored), for their size only.
    beta1, beta2, eps : float
        Decay rates and epsilon.

    Examples
    --------
    >>> theta = torch.zeros(1, 2)
    >>> Adam(theta, 0.9, 0.999, 0.0).step(theta, torch.tensor([[3.0, -5.0]]), torch.tensor([0.1]))
    >>> [round(x, 6) for x in theta[0].tolist()]  # the first step has the length of the rate
    [-0.1, 0.1]
    """

    def __init__(self, theta: Tensor, beta1: float, beta2: float, eps: float) -> None:
        self.beta1, self.beta2, self.eps, self.steps = beta1, beta2, eps, 0
        self.mean, self.square = torch.zeros_like(theta), torch.zeros_like(theta)
        self._scratch = torch.empty_like(theta)

    def step(self, theta: Tensor, grad: Tensor, lr: Tensor) -> None:
        """Update `theta` (M, n_stored) in place against `grad` at the rates `lr` (M,)."""
        self.steps += 1
        self.mean.lerp_(grad, 1 - self.beta1)
        self.square.mul_(self.beta2).addcmul_(grad, grad, value=1 - self.beta2)
        correct = (1 - self.beta2**self.steps) ** 0.5
        step = torch.sqrt(self.square, out=self._scratch).div_(correct).add_(self.eps)
        torch.div(self.mean, step, out=step)  # (M, n_stored)
        rate = lr / (1 - self.beta1**self.steps)  # (M,)
        theta.sub_(step.mul_(rate.unsqueeze(1)))

    def keep(self, rows: list[int]) -> None:
        """Keep the members `rows` only."""
        self.restore(self.state(), rows)

    def state(self) -> dict[str, Any]:
        """Return the moments (M, n_stored) and the number of steps."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def restore(self, state: dict[str, Any], rows: list[int]) -> None:
        """Take the members `rows` of a saved state."""
        self.mean, self.square = state["mean"][rows].clone(), state["square"][rows].clone()
        self.steps, self._scratch = int(state["steps"]), torch.empty_like(self.mean)


class SGD:
    """Gradient descent with heavy-ball momentum (Polyak 1964; Sutskever et al. 2013, eq. 1).

    ``v = momentum*v + g``, ``theta -= lr * v``.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored), for their size only.
    momentum : float
        0: plain gradient descent.

    Examples
    --------
    >>> theta, sgd = torch.zeros(1, 1), SGD(torch.zeros(1, 1), 0.5)
    >>> for _ in range(2):
    ...     sgd.step(theta, torch.ones(1, 1), torch.tensor([0.1]))
    >>> round(theta.item(), 6)  # 0.1 + 0.1 * (0.5 + 1)
    -0.25
    """

    def __init__(self, theta: Tensor, momentum: float) -> None:
        self.momentum, self.steps = momentum, 0
        self.velocity = torch.zeros_like(theta)

    def step(self, theta: Tensor, grad: Tensor, lr: Tensor) -> None:
        """Update `theta` (M, n_stored) in place against `grad` at the rates `lr` (M,)."""
        self.steps += 1
        self.velocity.mul_(self.momentum).add_(grad)
        theta.sub_(self.velocity * lr.unsqueeze(1))

    def keep(self, rows: list[int]) -> None:
        """Keep the members `rows` only."""
        self.restore(self.state(), rows)

    def state(self) -> dict[str, Any]:
        """Return the velocities (M, n_stored) and the number of steps."""
        return {"velocity": self.velocity, "steps": self.steps}

    def restore(self, state: dict[str, Any], rows: list[int]) -> None:
        """Take the members `rows` of a saved state."""
        self.velocity, self.steps = state["velocity"][rows].clone(), int(state["steps"])


def clip_gradient(grad: Tensor, limit: float | None) -> Tensor:
    """Scale each member's gradient to norm `limit` at most, in place; return norms before (M,).

    ``g *= min(1, limit / norm(g))`` (Pascanu et al. 2013, arXiv:1211.5063, algorithm 1).

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
