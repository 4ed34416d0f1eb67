"""Consoles whose rows are tables or lists below a step: AReaL, NeMo-RL, torchtune."""

from __future__ import annotations

import re
from typing import Any

from twoclock.sources.cells import text_number
from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line
from twoclock.sources.console.printed import Printed


class _Block(Parser):
    """Values that are collected below a heading, until the next one."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.row: dict[str, Any] = {}
        self.line: Line | None = None

    def flush(self, **clock: int) -> None:
        """Add the row that was collected, at its step."""
        row, line = self.row, self.line
        self.row, self.line = {}, None
        if row and line is not None:
            self.console.add({**clock, **row}, line, next(iter(clock.values())))

    def put(self, key: str, value: str, line: Line) -> None:
        """Collect a value."""
        self.row[key] = value
        self.line = self.line or line


_AREAL = re.compile(r"Train step (\d+)/(\d+) done")
_AREAL_STATS = re.compile(r"Stats \(\d+/\d+\):")
_BAR = "│"


class _AReaL(_Block):
    """A box of keys and values below ``Train step 3/100 done.``.

    The trainer's own counter is 0-based, and so is the step here; its other sinks count on when one
    step has several boxes.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.step: int | None = None

    def see(self, line: Line) -> bool:
        text = line.text
        head = _AREAL.search(text)
        if head:
            self.close()
            self.step = int(head[1][:18]) - 1
            self.console.planned = int(head[2][:18]) - 1
            return True
        if _AREAL_STATS.search(text):
            self.close()
            return True
        if self.step is None or not text.lstrip().startswith(_BAR):
            if "Training completes!" in text:
                self.close()
                self.console.ending.complete()
            return False
        cells = [cell.strip() for cell in text.split(_BAR)]
        cells = cells[1:-1] if line.ended or text.rstrip().endswith(_BAR) else cells[1:-2]
        for key, value in zip(cells[::2], cells[1::2], strict=False):
            if key and isinstance(text_number(value), float):
                self.put(key, value, line)
        return True

    def close(self) -> None:
        if self.step is not None:
            self.flush(step=self.step)


AREAL = Dialect(
    "areal",
    (b"Train step ",),
    lambda text, _: _AREAL.search(text) is not None,
    _AReaL,
    signs=(b"areal.launcher", b"areal/launcher", b"areal.utils", b"[StatsLogger"),
    row="Train step N/M done",
    more=(_BAR.encode(), b"Stats (", b"Training completes!"),
    columns={"step": ("step",)},
)

_NEMO = re.compile(r"(?<!=)=+ (Step|Epoch) (\d+)/(\d+) =")
_NEMO_VALUE = re.compile(
    r"\s*[•*-] (Loss|Avg Reward|Avg Total Reward|Avg Filtered Reward|Accuracy"
    r"|Mean Generation Length|Generation KL Error): ([^\s%]+)\s*$"
)
_NEMO_KEYS = {
    "Loss": "train/loss", "Avg Reward": "train/reward", "Avg Total Reward": "train/reward",
    "Avg Filtered Reward": "train/filtered_reward", "Generation KL Error": "train/gen_kl_error",
    "Mean Generation Length": "train/mean_gen_tokens_per_sample",
    "Accuracy": "validation/accuracy",
}  # fmt: skip
_NEMO_DECIMALS = 4
_NEMO_CONFIG = r"\s*\{'(?:checkpointing|cluster|data|env|grpo|logger|loss_fn|policy)'"


class _NeMo(_Block):
    """Bullets below ``Step 3/100``, which counts from 1 within each epoch."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.step = 0
        self.before = 0
        self.inner = 0
        self.epoch = 0
        self.printed = Printed(_NEMO_CONFIG)

    def see(self, line: Line) -> bool:
        if self.printed.see(line, self.console.watch):
            return True
        head = _NEMO.search(line.text)
        if head:
            self.close()
            self._count(head[1], int(head[2][:18]), int(head[3][:18]))
            return True
        value = _NEMO_VALUE.match(line.text)
        if value is None:
            return False
        whole = len(value[2].partition(".")[2]) >= _NEMO_DECIMALS or value[2] in ("nan", "inf")
        if line.ended or whole:
            key = _NEMO_KEYS[value[1]]
            if key == "validation/accuracy":  # it may stand before or after the training's
                self.console.add({"step": self.step, key: value[2]}, line, self.step)
            else:
                self.put(key, value[2], line)
        return True

    def _count(self, what: str, number: int, of: int) -> None:
        if what == "Epoch":
            if number > self.epoch:
                self.before += self.inner
            self.epoch, self.inner = number, 0
            return
        if not self.inner and not self.before and self.epoch > 1:
            self.before = (self.epoch - 1) * of  # a resumed run: earlier epochs were whole
        self.inner = number
        self.step = self.before + number

    def close(self) -> None:
        self.flush(step=self.step)
        if self.printed.lines:
            for name, value in self.printed.flat.items():
                self.console.settings.flat.setdefault(name, value)


NEMO = Dialect(
    "nemo-rl",
    ("• Avg Reward:".encode(), "• Avg Total Reward:".encode()),
    lambda text, _: (found := _NEMO_VALUE.match(text)) is not None and "Reward" in found[1],
    _NeMo,
    signs=(b"run_grpo_math.py", b"run_grpo.py", b"nemo_rl.", b"nemo_rl/"),
    row="Avg Reward: value",
    more=("• ".encode(), b"= Step ", b"= Epoch ", b"{'"),
    columns={"step": ("step",)},
)

_TUNE = re.compile(r"(?:^|\s)Step (\d+) \| ")
_TUNE_ITEM = re.compile(r"([^\s:|]+):(tensor\([^()]*\)|(?!tensor\()\S+)(\s+|$)")


def _tune(text: str) -> tuple[int, dict[str, str], bool] | None:
    """Return step, values and whether something follows the last value; None for other lines.

    Examples
    --------
    >>> _tune("Step 3 | rewards:0.41 loss:tensor(0.1, device='cuda:0') ")
    (3, {'rewards': '0.41', 'loss': "tensor(0.1, device='cuda:0')"}, True)
    """
    found = _TUNE.search(text)
    if found is None:
        return None
    row: dict[str, str] = {}
    at, follows = found.end(), ""
    while item := _TUNE_ITEM.match(text, at):
        row[item[1]], follows, at = item[2], item[3], item.end()
    return (int(found[1][:18]), row, bool(follows)) if row else None


class _Torchtune(Parser):
    """One line a step: ``Step 3 | rewards:0.41 successes:0.38``."""

    def see(self, line: Line) -> bool:
        found = _tune(line.text)
        if found is None:
            return False
        step, row, follows = found
        if not line.ended and not follows:
            row.popitem()
            self.console.table.cut = line.number
        if row:
            self.console.add({"step": step, **row}, line, step)
        return True


TORCHTUNE = Dialect(
    "torchtune",
    (b"Step ",),
    lambda text, _: "rewards:" in text and _tune(text) is not None,
    _Torchtune,
    signs=(b"grpo_full_finetune_distributed", b"async_grpo_full_finetune"),
    row="Step N | key:value",
    columns={"step": ("step",)},
)
