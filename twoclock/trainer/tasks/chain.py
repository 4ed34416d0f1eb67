"""Modular chains: every answer token follows from the one before it and the next prompt token."""

from __future__ import annotations

from torch import Tensor

from twoclock.trainer.tasks.digits import DigitRow


class Chain(DigitRow):
    """Running sums modulo `symbols`: ``y_t = (y_(t-1) + x_t) mod symbols``, ``y_0 = 0``.

    A wrong token makes all later ones wrong unless the policy errs back, so the reward is lost
    early in the answer: the opposite of sorting, where tokens can be right independently.

    Examples
    --------
    >>> import torch
    >>> prompts, answers = Chain(4).problems(torch.tensor([7281]))
    >>> prompts.tolist(), answers.tolist()
    ([[7, 2, 8, 1, 10]], [[7, 9, 7, 8]])
    """

    def answers(self, digits: Tensor) -> Tensor:
        """Return the running sums."""
        return digits.cumsum(-1) % self.symbols
