"""The path that training takes: lengths of steps and rates, added up in the optimizer's state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from twoclock.trainer.optimizers import Optimizer


class Tracked:
    """An optimizer that adds up the lengths of its steps; it steps as the one inside does.

    Parameters
    ----------
    inner : Optimizer
        Takes the steps.
    theta : Tensor
        Parameters (M, n_stored), for the number of members only.

    Attributes
    ----------
    length, square, lr_square : Tensor
        Sums over all steps so far of the step's length, its square, and the squared rate, (M,)
        float64. A checkpoint holds them, for they are part of the state.

    Examples
    --------
    >>> from twoclock.trainer.optimizers import SGD
    >>> theta = torch.zeros(1, 2)
    >>> tracked = Tracked(SGD(theta, 0.0), theta)
    >>> for gradient in ([3.0, 4.0], [-3.0, -4.0]):
    ...     tracked.step(theta, torch.tensor([gradient]), torch.tensor([1.0]))
    >>> tracked.length.item(), tracked.square.item(), tracked.lr_square.item()
    (10.0, 50.0, 2.0)
    """

    SUMS = ("length", "square", "lr_square")

    def __init__(self, inner: Optimizer, theta: Tensor) -> None:
        self.inner, self.steps = inner, inner.steps
        zeros = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        self.length, self.square, self.lr_square = zeros, zeros.clone(), zeros.clone()

    def step(self, theta: Tensor, grad: Tensor, lr: Tensor) -> None:
        """Update `theta` (M, n_stored) in place against `grad` at the rates `lr` (M,)."""
        before = theta.clone()
        self.inner.step(theta, grad, lr)
        self.steps = self.inner.steps
        length = torch.linalg.vector_norm(before.sub_(theta).double(), dim=1)  # (M,)
        self.length = self.length + length
        self.square = self.square + length**2
        self.lr_square = self.lr_square + lr.double() ** 2

    def keep(self, rows: list[int]) -> None:
        """Keep the members `rows` only."""
        self.restore(self.state(), rows)

    def state(self) -> dict[str, Any]:
        """Return the state of the optimizer inside and the sums."""
        sums = {f"path_{name}": getattr(self, name) for name in self.SUMS}
        return {**self.inner.state(), **sums}

    def restore(self, state: dict[str, Any], rows: list[int]) -> None:
        """Take the members `rows` of a saved state, in this order."""
        self.inner.restore(state, rows)
        self.steps = self.inner.steps
        for name in self.SUMS:
            setattr(self, name, state[f"path_{name}"][rows].clone())
