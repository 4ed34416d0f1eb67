"""Bracket completion: close what the prompt left open; any completion that balances is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from twoclock.errors import SettingsError
from twoclock.trainer.tasks.base import END, EQUALS

SLACK = 2
"""Tokens an answer may have beyond the shortest one of the deepest prompt."""


@dataclass(frozen=True)
class Brackets:
    """Complete a prefix of a balanced word: ``( [ ] { =`` is answered by ``} ) =``.

    Type t opens with token 2t and closes with 2t+1. The answer ends with the end token; every
    answer that leaves nothing open is right, also one that opens and closes more. So answers
    differ in length, and a problem has several right ones.

    Parameters
    ----------
    digits : int
        Brackets in the prompt, n; at most ``ceil(n/2)`` of them are open at its end or before.
    symbols : int
        Twice the number of bracket types.

    Raises
    ------
    SettingsError
        `symbols` is odd.

    Examples
    --------
    >>> task = Brackets(4, symbols=4)
    >>> prompts, answers = task.problems(torch.tensor([0, 8]))
    >>> prompts.tolist()
    [[0, 0, 1, 0, 10], [0, 1, 0, 1, 10]]
    >>> answers.tolist()
    [[1, 1, 10, 10, 10], [10, 10, 10, 10, 10]]
    >>> longer = torch.tensor([1, 1, 2, 3, 10])
    >>> task.rewards(prompts[0], answers[0], longer).item()
    1.0
    """

    digits: int
    symbols: int = 10
    ends = True

    def __post_init__(self) -> None:
        if self.symbols % 2:
            msg = f"symbols == {self.symbols}, must be even for brackets: two tokens a type"
            raise SettingsError(msg)

    @property
    def depth(self) -> int:
        """Most brackets open at once in a prompt."""
        return -(-self.digits // 2)

    @property
    def prompt_length(self) -> int:
        """Tokens of a prompt."""
        return self.digits + 1

    @property
    def answer_length(self) -> int:
        """Most tokens of an answer, the end token included."""
        return self.depth + SLACK + 1

    @property
    def count(self) -> int:
        """Number of distinct problems."""
        return int(self._words[self.digits, 0])

    @property
    def tokens(self) -> int:
        """Tokens that noise draws from."""
        return self.symbols

    @cached_property
    def _words(self) -> Tensor:
        """Words of r more brackets when d are open: (n+1, depth+2), row r, column d."""
        kinds = self.symbols // 2
        table = torch.zeros(self.digits + 1, self.depth + 2, dtype=torch.int64)
        table[0, : self.depth + 1] = 1
        for r in range(1, self.digits + 1):
            for d in range(self.depth + 1):
                closing = table[r - 1, d - 1] if d else 0
                table[r, d] = kinds * table[r - 1, d + 1] + closing
        return table

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., digits+1) and shortest answers (..., A), filled up with `END`.

        The id is the prompt's rank among all prefixes: at each place the words that open type 0
        come first, then type 1 and so on, then those that close.
        """
        kinds, rank = self.symbols // 2, ids.clone()
        stack, depth = torch.zeros_like(ids), torch.zeros_like(ids)
        prompt = []
        for left in range(self.digits - 1, -1, -1):
            each = self._words[left][depth + 1]  # words that open one given type here
            opens = rank < kinds * each
            kind = torch.where(opens, rank // each.clamp(min=1), self._top(stack))
            rank = torch.where(opens, rank - kind * each, rank - kinds * each)
            prompt.append(2 * kind + (~opens).long())
            stack = torch.where(opens, self._push(stack, kind), self._pop(stack))
            depth = depth + torch.where(opens, 1, -1)
        answer = []
        for _ in range(self.answer_length):
            answer.append(torch.where(stack > 0, 2 * self._top(stack) + 1, END))
            stack = self._pop(stack)
        return (
            torch.stack([*prompt, torch.full_like(ids, EQUALS)], dim=-1),
            torch.stack(answer, dim=-1),
        )

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:  # noqa: ARG002 - Task
        """Return 1 where a response (..., A) closes all that its prompt left open, and ends."""
        stack = torch.zeros(prompts.shape[:-1], dtype=torch.int64, device=prompts.device)
        for token in prompts[..., :-1].unbind(-1):
            stack = torch.where(token % 2 == 0, self._push(stack, token // 2), self._pop(stack))
        stack = stack + torch.zeros_like(responses[..., 0])
        right = torch.zeros_like(stack, dtype=torch.bool)
        alive = torch.ones_like(right)
        for token in responses.unbind(-1):
            opens = (token % 2 == 0) & (token < self.symbols)
            closes = (token == 2 * self._top(stack) + 1) & (stack > 0)
            right = right | (alive & (token == END) & (stack == 0))
            alive = alive & (opens | closes)
            stack = torch.where(opens, self._push(stack, token // 2), self._pop(stack))
        return right.float()

    def _push(self, stack: Tensor, kind: Tensor) -> Tensor:
        """Put `kind` on stacks held as numbers to the base kinds+1, the top lowest."""
        return stack * (self.symbols // 2 + 1) + kind + 1

    def _pop(self, stack: Tensor) -> Tensor:
        return stack // (self.symbols // 2 + 1)

    def _top(self, stack: Tensor) -> Tensor:
        """Return the type on top, -1 where nothing is open."""
        return stack % (self.symbols // 2 + 1) - 1
