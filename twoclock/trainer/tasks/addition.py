"""Addition: the answer is a sum, lowest digit first, so that every carry is known in time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.trainer.tasks.base import EQUALS, PLUS, exact_match, positional


@dataclass(frozen=True)
class Addition:
    """Add two numbers of `digits` digits; the sum is written with its lowest digit first.

    Parameters
    ----------
    digits : int
        Digits of each number; the answer has one more.
    symbols : int
        Radix of the numbers.

    Examples
    --------
    >>> prompts, answers = Addition(2).problems(torch.tensor([4567]))
    >>> prompts.tolist(), answers.tolist()
    ([[4, 5, 11, 6, 7, 10]], [[2, 1, 1]])
    """

    digits: int
    symbols: int = 10
    ends = False

    @property
    def prompt_length(self) -> int:
        """Tokens of a prompt."""
        return 2 * self.digits + 2

    @property
    def answer_length(self) -> int:
        """Tokens of an answer."""
        return self.digits + 1

    @property
    def count(self) -> int:
        """Number of distinct problems."""
        return int(self.symbols ** (2 * self.digits))

    @property
    def tokens(self) -> int:
        """Tokens that noise draws from."""
        return self.symbols

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., 2*digits+2) and right answers (..., digits+1) of problem `ids`."""
        scale = self.symbols**self.digits
        first, second = ids // scale, ids % scale  # (...)
        mark = torch.full_like(first, PLUS).unsqueeze(-1)  # (..., 1)
        left, right = (positional(n, self.digits, self.symbols) for n in (first, second))
        prompts = torch.cat([left, mark, right, torch.full_like(mark, EQUALS)], dim=-1)
        total = positional(first + second, self.answer_length, self.symbols)  # (..., n+1)
        return prompts, total.flip(-1)

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:  # noqa: ARG002 - Task
        """Return 1 where a response (..., digits+1) is the answer."""
        return exact_match(answers, responses)
