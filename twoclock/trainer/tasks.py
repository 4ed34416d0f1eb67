"""Tasks with verifiable answers: prompts of digits, one right answer each, exact-match reward.

A problem is an integer id; everything about it follows from the id, so no data set is stored. Some
ids are held out for validation and never trained on. Every answer of a task has the same number of
tokens, so there is no end token and no padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclock.errors import SettingsError

VOCABULARY = 12
"""Number of tokens: the digits 0..9, ``=`` (10) and ``+`` (11)."""

EQUALS, PLUS = 10, 11
DIGITS = 10


@dataclass(frozen=True)
class Sorting:
    """Sort `digits` digits in ascending order: ``3 1 2 =`` is answered by ``1 2 3``.

    Parameters
    ----------
    digits : int
        Digits to sort.

    Examples
    --------
    >>> prompts, answers = Sorting(3).problems(torch.tensor([312]))
    >>> prompts.tolist(), answers.tolist()
    ([[3, 1, 2, 10]], [[1, 2, 3]])
    """

    digits: int

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
        """Number of distinct problems; ids are 0 .. count-1."""
        return int(DIGITS**self.digits)

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., digits+1) and right answers (..., digits) of problem `ids`."""
        digits = _digits(ids, self.digits)  # (..., n)
        equals = torch.full_like(digits[..., :1], EQUALS)  # (..., 1)
        return torch.cat([digits, equals], dim=-1), digits.sort(dim=-1).values


@dataclass(frozen=True)
class Addition:
    """Add two numbers of `digits` digits; the sum is written with its lowest digit first.

    Lowest first, because a carry is then known before the digit that needs it.

    Parameters
    ----------
    digits : int
        Digits of each number; the answer has one more.

    Examples
    --------
    >>> prompts, answers = Addition(2).problems(torch.tensor([4567]))
    >>> prompts.tolist(), answers.tolist()
    ([[4, 5, 11, 6, 7, 10]], [[2, 1, 1]])
    """

    digits: int

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
        """Number of distinct problems; ids are 0 .. count-1."""
        return int(DIGITS ** (2 * self.digits))

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., 2*digits+2) and right answers (..., digits+1) of problem `ids`."""
        scale = DIGITS**self.digits
        first, second = ids // scale, ids % scale  # (...)
        mark = torch.full_like(first, PLUS).unsqueeze(-1)  # (..., 1)
        left, right = _digits(first, self.digits), _digits(second, self.digits)  # (..., n)
        prompts = torch.cat([left, mark, right, torch.full_like(mark, EQUALS)], dim=-1)
        answers = _digits(first + second, self.answer_length).flip(-1)  # (..., n+1)
        return prompts, answers


Task = Sorting | Addition

TASKS: dict[str, type[Sorting] | type[Addition]] = {"sorting": Sorting, "addition": Addition}
"""Tasks by the name used in settings."""


def make_task(name: str, digits: int) -> Task:
    """Return the task called `name`.

    Examples
    --------
    >>> make_task("addition", 2).answer_length
    3
    """
    if name not in TASKS:
        msg = f"task == {name!r}, must be one of {', '.join(sorted(TASKS))}"
        raise SettingsError(msg)
    return TASKS[name](digits)


def verify(responses: Tensor, answers: Tensor) -> Tensor:
    """Reward 1 where the whole response equals the right answer, else 0.

    Parameters
    ----------
    responses, answers : Tensor
        Tokens (..., A), compared along the last axis.

    Returns
    -------
    Tensor
        Rewards (...), float32.

    Examples
    --------
    >>> verify(torch.tensor([[1, 2], [1, 3]]), torch.tensor([1, 2])).tolist()
    [1.0, 0.0]
    """
    return (responses == answers).all(dim=-1).float()


def held_out(task: Task, n: int, seed: int) -> Tensor:
    """Draw the ids of the validation problems, without repeats.

    Parameters
    ----------
    task : Task
        The task.
    n : int
        Number of problems; at most half of the task's.
    seed : int
        Seed of the draw.

    Returns
    -------
    Tensor
        Sorted ids (n,), int64.
    """
    if n > task.count // 2:
        msg = f"eval_size == {n}, must be <= {task.count // 2} (half of the task's problems)"
        raise SettingsError(msg)
    generator = torch.Generator().manual_seed(seed)
    ids: set[int] = set()
    while len(ids) < n:
        ids.add(int(torch.randint(task.count, (), generator=generator)))
    return torch.tensor(sorted(ids))  # (n,)


def skip_held_out(ranks: Tensor, held: Tensor) -> Tensor:
    """Map 0 .. count-n-1 one to one onto the ids that are not held out.

    Parameters
    ----------
    ranks : Tensor
        Any shape, int64.
    held : Tensor
        Sorted held-out ids (n,).

    Returns
    -------
    Tensor
        Ids, the shape of `ranks`.

    Examples
    --------
    >>> skip_held_out(torch.arange(4), torch.tensor([1, 2])).tolist()
    [0, 3, 4, 5]
    """
    gaps = held - torch.arange(len(held))  # (n,): ids below the i-th held-out one that are kept
    return ranks + torch.searchsorted(gaps, ranks, right=True)


def _digits(numbers: Tensor, n: int) -> Tensor:
    """Return the n decimal digits (..., n) of `numbers` (...), highest first."""
    scales = DIGITS ** torch.arange(n - 1, -1, -1)  # (n,)
    return numbers.unsqueeze(-1) // scales % DIGITS
