"""Sorting: the answer is the prompt's digits in ascending order."""

from __future__ import annotations

from torch import Tensor

from twoclock.trainer.tasks.digits import DigitRow


class Sorting(DigitRow):
    """Sort digits in ascending order: ``3 1 2 =`` is answered by ``1 2 3``.

    Examples
    --------
    >>> import torch
    >>> prompts, answers = Sorting(3).problems(torch.tensor([312]))
    >>> prompts.tolist(), answers.tolist()
    ([[3, 1, 2, 10]], [[1, 2, 3]])
    """

    def answers(self, digits: Tensor) -> Tensor:
        """Return the rows in ascending order."""
        return digits.sort(dim=-1).values
