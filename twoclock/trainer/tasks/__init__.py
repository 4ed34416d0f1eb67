"""Tasks with verifiable answers, one module each: adding a task is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable

from twoclock.errors import SettingsError
from twoclock.trainer.tasks.addition import Addition
from twoclock.trainer.tasks.base import (
    SYMBOLS,
    VOCABULARY,
    Task,
    counted,
    held_out,
    skip_held_out,
)
from twoclock.trainer.tasks.brackets import Brackets
from twoclock.trainer.tasks.chain import Chain
from twoclock.trainer.tasks.sorting import Sorting

__all__ = [
    "SYMBOLS", "TASKS", "VOCABULARY", "Task", "counted", "held_out", "make_task", "skip_held_out",
]  # fmt: skip

TASKS: dict[str, Callable[[int, int], Task]] = {
    "sorting": Sorting,
    "addition": Addition,
    "chain": Chain,
    "brackets": Brackets,
}
"""Tasks by the name used in settings; each is made from `digits` (its length) and `symbols`."""


def make_task(name: str, digits: int, symbols: int = SYMBOLS) -> Task:
    """Return the task called `name`.

    Raises
    ------
    SettingsError
        There is no such task, or it cannot have these symbols.

    Examples
    --------
    >>> make_task("addition", 2).answer_length
    3
    """
    if name not in TASKS:
        msg = f"task == {name!r}, must be one of {', '.join(sorted(TASKS))}"
        raise SettingsError(msg)
    return TASKS[name](digits, symbols)
