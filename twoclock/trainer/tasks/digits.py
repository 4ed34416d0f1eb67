"""What tasks share whose prompt is a row of digits and whose answer has as many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from twoclock.trainer.tasks.base import EQUALS, exact_match, positional


@dataclass(frozen=True)
class DigitRow:
    """A row of digits, ``=``, and an answer of the same length that follows from `answers`.

    Parameters
    ----------
    digits : int
        Digits of the prompt and of the answer.
    symbols : int
        Digits are 0 .. symbols-1.
    """

    digits: int
    symbols: int = 10
    ends: ClassVar[bool] = False

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

    def answers(self, digits: Tensor) -> Tensor:
        """Return the right answers (..., n) to the rows `digits` (..., n)."""
        raise NotImplementedError

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., n+1) and right answers (..., n) of problem `ids`."""
        digits = positional(ids, self.digits, self.symbols)  # (..., n)
        equals = torch.full_like(digits[..., :1], EQUALS)  # (..., 1)
        return torch.cat([digits, equals], dim=-1), self.answers(digits)

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:  # noqa: ARG002 - Task
        """Return 1 where a response (..., n) is the answer."""
        return exact_match(answers, responses)
