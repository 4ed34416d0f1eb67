"""Consoles of prime-rl: ``Step 3 | Time: 71.2s | Reward: 0.41 | Seq. Length: 345.6 tokens/sample``.

The orchestrator prints the reward, the trainer the loss; both count from 0. The bar above a row of
the orchestrator counts the responses of its batch. Evaluations are announced, not printed as rows.
"""

from __future__ import annotations

import re

from twoclock.sources.base import Fact
from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line, without_stamp

_ROW = re.compile(r"Step (\d{1,15}) \| Time: [\d.]+s \|(?= .*\b(?:Reward|Mismatch KL): )")
_ITEM = re.compile(r"([A-Z][\w. ]{0,40}): ([+-]?(?:\d[\d.]*(?:e[+-]?\d+)?|nan|inf))(?=\s|$)", re.I)
_KEYS = {
    "Reward": "reward/mean", "Val. Reward": "val_reward/mean", "Seq. Length": "seq_len/mean",
    "Loss": "loss/mean", "Entropy": "entropy/mean", "Mismatch KL": "mismatch_kl/mean",
    "Grad. Norm": "optim/grad_norm", "LR": "optim/lr",
}  # fmt: skip
_BAR = re.compile(r"Generating rollouts \(train\): .{0,300}\| (\d{1,12})/(\d{1,12}) \[")


class _Prime(Parser):
    """One line a step."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bar = 0
        self.batches: set[int] = set()

    def see(self, line: Line) -> bool:
        bar = _BAR.search(line.text)
        if bar:
            self.bar = int(bar[1]) if bar[1] == bar[2] else 0
            return True
        text = without_stamp(line.text)
        found = _ROW.match(text)
        if found is None:
            return False
        row: dict[str, str] = {}
        *parts, last = text[found.end() :].split("|")
        for part in [*parts, last] if line.ended else parts:
            item = _ITEM.match(part.strip())
            if item is not None and item[1] in _KEYS:
                row[_KEYS[item[1]]] = item[2]
        if not line.ended:
            self.console.table.cut = line.number
        if row:
            step = int(found[1])
            self.console.add({"step": step, **row}, line, step)
            self.batches.add(self.bar)
        self.bar = 0
        return True

    def close(self) -> None:
        if len(self.batches) == 1 and (batch := self.batches.pop()):
            self.console.facts["batch_size"] = Fact(batch, "log")


PRIME = Dialect(
    "prime-rl",
    (b"Step ",),
    lambda text, _: _ROW.match(without_stamp(text)) is not None,
    _Prime,
    signs=(b"Starting orchestrator step", b"Generating rollouts (train)"),
    row="Step N | Time: Ts | Reward: value",
    more=(b"Generating rollouts (train)",),
    columns={"step": ("step",)},
)
