"""verl's console: ``step:12 - actor/entropy:0.41 - ...``, one line a step.

A step is one rollout and counts from the very start, also in a resumed log that begins later.
Values of a validation ride on the training row of the same step.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from twoclock.frameworks.overrides import parse_overrides
from twoclock.notes import Note
from twoclock.sources.base import Log
from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line
from twoclock.sources.console.literals import read_dict
from twoclock.sources.console.printed import Printed

_STEP = re.compile(r"(?:^|[\s\]|])step:(\d+)((?: - [^\s:]+:.*)?)$")
_CONFIG = r"\s*\{'(?:actor_rollout_ref|algorithm|data|critic|ray_kwargs)'"
_RESUMED = re.compile(r"Setting global step to (\d+)|Load from checkpoint folder|Resuming from ")
_PLANNED = re.compile(r"Total training steps: (\d+)")
_ROUNDED = re.compile(r"\d+\.\d{3}")
_INITIAL = "Initial validation metrics:"
_QUOTED = re.compile(r"\(?(['\"])(.*)\1\)?")
_MAX_INITIAL = 2000


class _Verl(Parser):
    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.printed = Printed(_CONFIG)
        self.overrides: dict[str, Any] = {}
        self.rounded_lr = 0
        self.decimals: dict[str, int] = {}
        self.initial: list[str] = []
        self.initial_at: Line | None = None
        self.open = False
        self.continued = False
        self.start = 0

    def see(self, line: Line) -> bool:
        console, text = self.console, line.text
        if self.open and self._see_initial(line):
            return True
        if self.printed.see(line, console.watch):
            return True
        step = _STEP.search(text) if "step:" in text else None
        if step:
            self.printed.stop()
            self._add_row(line, int(step[1][:18]), step[2])
        elif resumed := _RESUMED.search(text):
            self.start = int(resumed[1][:18]) if resumed[1] else self.start
            console.resume()
        elif planned := _PLANNED.search(text):
            console.planned = int(planned[1][:18])
        elif self._is_command(text):
            self.overrides.update(parse_overrides([text]))
        elif "Final validation metrics" in text:
            console.ending.complete()
        elif _INITIAL in text and not self.initial:
            self.initial, self.initial_at, self.open = [text.strip()], line, True
            console.watch.everything = max(console.watch.everything, 1)
        else:
            return False
        return True

    def _is_command(self, text: str) -> bool:
        """Tell whether a line belongs to a launch command with overrides."""
        begins = "main_ppo" in text or text.lstrip().startswith(("data.", "actor_rollout_ref."))
        found = begins or self.continued
        self.continued = found and text.rstrip().endswith("\\")
        if self.continued:
            self.console.watch.everything = max(self.console.watch.everything, 1)
        return found

    def _see_initial(self, line: Line) -> bool:
        """Take in a line of the first validation, which is printed as one text in pieces."""
        first = self.initial_at
        if first is None or len(self.initial) > _MAX_INITIAL:
            self.open = False
            return False
        self.console.watch.everything = max(self.console.watch.everything, 1)
        if line.worker != first.worker:
            return False
        text = line.text.strip()
        self.open = text[:1] in ("'", '"')
        if self.open:
            self.initial.append(text)
        return self.open

    def _first_validation(self, step: int) -> None:
        """Add the validation before training where no row of its own follows."""
        line, self.initial_at, self.open = self.initial_at, None, False
        if line is None or step <= self.start:
            return
        text = "".join(_unquoted(part) for part in self.initial)
        at = text.find("{")
        found = read_dict(text, at).items if at >= 0 else {}
        if found:
            self.console.add({"step": self.start, **found}, line, self.start)

    def _add_row(self, line: Line, step: int, rest: str) -> None:
        self._first_validation(step)
        row: dict[str, Any] = {"step": step}
        items = [item.partition(":") for item in rest.split(" - ") if ":" in item]
        if not line.ended and items and self._is_cut(*items[-1]):
            items.pop()
            self.console.table.cut = line.number
        for key, _, text in items:
            value = text.strip()
            if key.endswith("/lr") and _ROUNDED.fullmatch(value):
                self.rounded_lr += 1
                continue
            row[key] = value
            if not line.ended or len(self.decimals) < 1000:
                self.decimals[key] = min(_decimals(value), self.decimals.get(key, 99))
        self.console.add(row, line, step)

    def _is_cut(self, key: str, _: str, text: str) -> bool:
        """Tell whether a value at the end of a file without a line end has lost digits."""
        text = text.strip()
        return not text or text[-1] in ".-+e" or _decimals(text) < self.decimals.get(key, 0)

    def finish(self, log: Log) -> Log:
        config = {**self.overrides, **self.printed.flat}
        if self.console.planned is not None:
            config["trainer.total_training_steps"] = self.console.planned
        notes = log.notes
        if self.rounded_lr:
            message = "the console rounds lr to 3 decimals: unknown, not 0"
            note = Note("rounded_lr", message, where=str(log.path), count=self.rounded_lr)
            notes = (*notes, note)
        return replace(log, config=config, notes=notes)


def _unquoted(part: str) -> str:
    """Return a piece of a long text, which pprint breaks into quoted ones within brackets."""
    quoted = _QUOTED.fullmatch(part)
    return quoted[2] if quoted else part


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _tells(text: str, before: str) -> bool:
    del before  # a row is one line
    return " - " in text and _STEP.search(text) is not None


VERL = Dialect(
    "verl",
    (b"step:",),
    _tells,
    _Verl,
    signs=(b"'actor_rollout_ref'", b"verl.trainer.main_ppo"),
    row="step:N - key:value",
    more=(
        b"Setting global step", b"Load from checkpoint", b"Resuming from", b"Total training steps",
        b"main_ppo", b"data.", b"actor_rollout_ref.", b"validation metrics", b"{'",
    ),
    columns={"step": ("step",)},
)  # fmt: skip
