"""Home-made trainers that print ``step 10 loss 0.3 val_acc 0.41`` or ``[step=10] loss=0.3, kl=1``.

Trainers that are built like minimind count within an epoch, ``Epoch:[2/3](50/900), Reward: 0.1``,
and name what they print in several words.

Read with care: a line counts only when it is a step and pairs of a name and a number from one end
to the other (behind the prefix of a logger), and only three such lines with one key in common make
a log. Which framework or unit is behind the numbers is for the user to say.
"""

from __future__ import annotations

import re

from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line, without_stamp

_HEAD = re.compile(
    r"[\s\[(]*(step|global_step|iteration|iter|rollout)\s{0,9}[=: ]\s{0,9}(\d{1,15})"
    r"(?:\s*/\s*\d+)?[\])]?(?:\s*[-|:,;]+\s*|\s+)",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"\s*Epoch:?\s?\[(\d{1,9})/\d{1,9}\]\s?\((\d{1,12})/(\d{1,12})\)\s*[,:|-]\s*", re.IGNORECASE
)
_STEP = re.compile(
    r"(?:step|iter|iteration|rollout)\s{0,9}[=: ]\s{0,9}\d|Epoch:?\s?\[\d", re.IGNORECASE
)
_PAIR = re.compile(
    r"([A-Za-z_][\w./@-]*(?: [A-Za-z_][\w./@-]*){0,3}(?=\s{0,9}[=:])|[A-Za-z_][\w./@-]*)"
    r"\s{0,9}[=: ]\s{0,9}"
    r"([+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|inf)%?)(\s*[|,;]\s*|\s+|$)",
    re.IGNORECASE,
)
_LONGEST = 5000
LEAST = 3
"""Lines that it takes to make a log."""


def read_pairs(text: str) -> dict[str, str] | None:
    """Return the step and the values of a line, None when anything else stands in it.

    Examples
    --------
    >>> read_pairs("[step=10] loss=0.3, val_acc=0.4")
    {'step': '10', 'loss': '0.3', 'val_acc': '0.4'}
    >>> read_pairs("step 10 loss 0.3 val_acc 0.41 ")
    {'step': '10', 'loss': '0.3', 'val_acc': '0.41'}
    >>> read_pairs("Epoch:[2/3](5/90), Reward: -2.3, Actor Loss: 0.1, Avg Response Len: 27.5")
    {'step': '95', 'epoch': '2', 'Reward': '-2.3', 'Actor_Loss': '0.1', 'Avg_Response_Len': '27.5'}
    >>> read_pairs("step 3 of the recipe: bake 20 minutes")
    """
    if len(text) > _LONGEST or _STEP.search(text) is None:
        return None
    text = without_stamp(text).rstrip()
    head = _HEAD.match(text)
    epoch = _EPOCH.match(text) if head is None else None
    if head is not None:
        row, at = {head[1].lower(): head[2]}, head.end()
    elif epoch is not None:
        step = (int(epoch[1]) - 1) * int(epoch[3]) + int(epoch[2])
        row, at = {"step": str(max(step, 0)), "epoch": epoch[1]}, epoch.end()
    else:
        return None
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None or pair[1].replace(" ", "_") in row:
            return None
        row[pair[1].replace(" ", "_")] = pair[2]
        at = pair.end()
    return row if len(row) > 1 else None


class _Plain(Parser):
    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.widths: dict[str, int] = {}

    def see(self, line: Line) -> bool:
        row = read_pairs(line.text)
        if row is None:
            return False
        if not line.ended:
            self._uncut(row, line)
        for key, value in row.items():
            if len(self.widths) < 1000:
                decimals = len(value.partition(".")[2])
                self.widths[key] = min(decimals, self.widths.get(key, decimals))
        step = int(next(iter(row.values())))
        if len(row) > 1:
            self.console.add(row, line, step)
        return True

    def _uncut(self, row: dict[str, str], line: Line) -> None:
        """Leave out the last value of a cut line, when it may have lost digits."""
        key, value = list(row.items())[-1]
        if len(value.partition(".")[2]) < self.widths.get(key, 99) or value[-1] in "eE+-.":
            del row[key]
            self.console.table.cut = line.number


PLAIN = Dialect(
    None,
    (b"step", b"Step", b"STEP", b"iter", b"Iter", b"rollout", b"Rollout", b"Epoch:[", b"Epoch: ["),
    lambda text, _: read_pairs(text) is not None,
    _Plain,
    row="step N key value",
)
