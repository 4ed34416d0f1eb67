"""What every task has: a vocabulary, problems by number, and the share that is held out."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from twoclock.errors import SettingsError

VOCABULARY = 12
"""Number of tokens: the symbols 0..9, ``=`` (10) and ``+`` (11)."""

EQUALS, PLUS = 10, 11
SYMBOLS = 10

END = EQUALS
"""Token that ends an answer, in tasks whose answers have different lengths."""


class Task(Protocol):
    """Problems with verifiable answers.

    A problem is an integer id; everything about it follows from the id, so no data set is stored,
    and two ids are two different prompts. `answer_length` is the most tokens an answer can have;
    where `ends` holds, a shorter one is closed by `END` and what follows does not count.
    """

    @property
    def prompt_length(self) -> int:
        """Tokens of a prompt, L."""

    @property
    def answer_length(self) -> int:
        """Most tokens of an answer, A, the end token included."""

    @property
    def count(self) -> int:
        """Number of distinct problems; ids are 0 .. count-1."""

    @property
    def ends(self) -> bool:
        """Whether answers are closed by the end token."""

    @property
    def tokens(self) -> int:
        """Noise in the base policy's data draws from the tokens 0 .. tokens-1."""

    def problems(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return prompts (..., L) and one right answer each (..., A) of the problems `ids`."""

    def rewards(self, prompts: Tensor, answers: Tensor, responses: Tensor) -> Tensor:
        """Return 1 for right responses (..., A), else 0; prompts and answers broadcast."""


def exact_match(answers: Tensor, responses: Tensor) -> Tensor:
    """Reward 1 where the whole response equals the answer, else 0: (..., A) to (...), float32.

    Examples
    --------
    >>> exact_match(torch.tensor([1, 2]), torch.tensor([[1, 2], [1, 3]])).tolist()
    [1.0, 0.0]
    """
    return (responses == answers).all(dim=-1).float()


def counted(responses: Tensor, *, ends: bool, dim: int = -1) -> Tensor:
    """Return 1 for the tokens of a response up to its first end token, else 0.

    Parameters
    ----------
    responses : Tensor
        Tokens, along `dim`.
    ends : bool
        Whether the task has an end token; without one every token counts.
    dim : int
        Axis of the tokens.

    Returns
    -------
    Tensor
        float32, the shape of `responses`.

    Examples
    --------
    >>> counted(torch.tensor([3, END, 5, END]), ends=True).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    if not ends:
        return torch.ones_like(responses, dtype=torch.float32)
    end = (responses == END).long()
    return (end.cumsum(dim) - end == 0).float()


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


def positional(numbers: Tensor, n: int, radix: int) -> Tensor:
    """Return the n places (..., n) of `numbers` (...) to the base `radix`, highest first.

    Examples
    --------
    >>> positional(torch.tensor([45]), 3, 10).tolist()
    [[0, 4, 5]]
    """
    scales = radix ** torch.arange(n - 1, -1, -1)  # (n,)
    return numbers.unsqueeze(-1) // scales % radix
