"""Sorting: the answer is the prompt's digits in ascending order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.trainer.tasks.base import EQUALS, exact_match, positional


@dataclass(frozen=True)
class Sorting:
    """Sort `digits` digits in ascending order: ``3 1 2 =`` is answered by ``1 2 3``.

    Parameters
    ----------
    digits : int
        Digits to sort.
    symbols : int
        Digits are 0 .. symbols-1.

    Examples
    --------
    >>> prompts, answers = Sorting(3).problems(torch.tensor([312]))
    >>> prompts.tolist(), answers.tolist()
    ([[3, 1, 2, 10]], [[1, 2, 3]])
    """

    digits: int
    symbols: int = 10
    ends = False

    @property
    def prompt_length(self) -> int:
        """Tokens of a prompt."""
        return self.digits + 1

    @property
    def answer_length(self) -> int:
        """Tokens of an answer."""
        return self.digits

    @property
    def count(self) -> int:
        """Number of distinct problems."""
        return int(self.symbols**self.digits)

    @property
    def tokens(self) -> int:
        """Tokens that noise draws from."""
        return self.symbols

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., digits+1) and right answers (..., digits) of problem `ids`."""
        digits = positional(ids, self.digits, self.symbols)  # (..., n)
        equals = torch.full_like(digits[..., :1], EQUALS)  # (..., 1)
        return torch.cat([digits, equals], dim=-1), digits.sort(dim=-1).values

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:  # noqa: ARG002 - Task
        """Return 1 where a response (..., digits) is the answer."""
        return exact_match(answers, responses)
