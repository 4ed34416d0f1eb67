"""Modular chains: every answer token follows from the one before it and the next prompt token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.trainer.tasks.base import EQUALS, exact_match, positional


@dataclass(frozen=True)
class Chain:
    """Running sums modulo `symbols`: ``y_t = (y_(t-1) + x_t) mod symbols``, ``y_0 = 0``.

    A wrong token makes all later ones wrong unless the policy errs back, so the reward is lost
    early in the answer: the opposite of sorting, where tokens can be right independently.

    Parameters
    ----------
    digits : int
        Terms of the chain.
    symbols : int
        The modulus; terms are 0 .. symbols-1.

    Examples
    --------
    >>> prompts, answers = Chain(4).problems(torch.tensor([7281]))
    >>> prompts.tolist(), answers.tolist()
    ([[7, 2, 8, 1, 10]], [[7, 9, 7, 8]])
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
        terms = positional(ids, self.digits, self.symbols)  # (..., n)
        equals = torch.full_like(terms[..., :1], EQUALS)  # (..., 1)
        return torch.cat([terms, equals], dim=-1), terms.cumsum(-1) % self.symbols

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:  # noqa: ARG002 - Task
        """Return 1 where a response (..., digits) is the answer."""
        return exact_match(answers, responses)
