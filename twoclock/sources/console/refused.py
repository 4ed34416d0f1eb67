"""Consoles that cannot be read, so that the refusal names what can."""

from __future__ import annotations

from twoclock.sources.console.base import Dialect, Parser
from twoclock.sources.console.lines import Line


class _Nothing(Parser):
    def see(self, line: Line) -> bool:
        del line  # no line of it can be used
        return False


OPEN_INSTRUCT = Dialect(
    "open-instruct",
    (),
    lambda text, before: False,  # noqa: ARG005 - no line is a row
    _Nothing,
    signs=(b"open_instruct/grpo_fast", b"open_instruct.grpo_fast", b"grpo_fast.py"),
    remedy="open-instruct prints rounded values without the groups of their keys; "
    "give its wandb folder instead",
)
