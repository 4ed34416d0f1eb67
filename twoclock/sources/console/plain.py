"""Home-made trainers that print ``step 10 loss 0.3 val_acc 0.41`` or ``[step=10] loss=0.3, kl=1``.

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
_STEP = re.compile(r"(?:step|iter|iteration|rollout)\s{0,9}[=: ]\s{0,9}\d", re.IGNORECASE)
_PAIR = re.compile(
    r"([A-Za-z_][\w./@-]*)\s{0,9}[=: ]\s{0,9}"
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
    >>> read_pairs("step 3 of the recipe: bake 20 minutes")
    """
    if len(text) > _LONGEST or _STEP.search(text) is None:
        return None
    text = without_stamp(text).rstrip()
    head = _HEAD.match(text)
    if head is None:
        return None
    row = {head[1].lower(): head[2]}
    at = head.end()
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None or pair[1] in row:
            return None
        row[pair[1]] = pair[2]
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
    (b"step", b"Step", b"STEP", b"iter", b"Iter", b"rollout", b"Rollout"),
    lambda text, _: read_pairs(text) is not None,
    _Plain,
    row="step N key value",
    synchronous=None,
)
