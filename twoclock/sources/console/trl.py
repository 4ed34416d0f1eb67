"""TRL's and unsloth's console: dictionaries without a step, between the paints of a progress bar.

The trainer prints a row by `tqdm.write`: the bar is wiped out, the row is printed, the bar is
painted again with the step that it stands at. So each row has one such repaint. With rows and bar
in one stream in order, it is the next piece; when the rows were buffered they come later in clumps,
and the k-th row belongs to the k-th repaint. The end of an evaluation wipes out a bar of its own
below the training's: one blank after that bar, where a row makes two.

Steps found so are taken only when everything agrees: they never fall, training rows follow each
other at one distance (`logging_steps`; the first may be step 1), and one number of steps an epoch
explains the ``epoch`` of every row within its rounding and one step. ms-swift prints the step in
the row itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.sources.base import Fact, Log
from twoclock.sources.console.base import Console, Dialect, Parser
from twoclock.sources.console.lines import Line
from twoclock.sources.console.literals import Literal, read_dict
from twoclock.sources.rows import Floats, Values
from twoclock.sources.trl import as_validation, steps_between_rewards

_OWN_STEP = "global_step/max_steps"
"""Key under which ms-swift prints the step itself (``'20/1875'``)."""

_HEADER = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("per_device_train_batch_size", r"batch size per device = ([\d,]+)"),
        ("gradient_accumulation_steps", r"gradient accumulation steps = (\d+)"),
        ("world_size", r"data parallel gpus = (\d+)"),
        ("total", r"total (?:train )?batch size \([^()]*\) = ([\d,]+)"),
        ("max_steps", r"total (?:optimization )?steps = ([\d,]+)"),
    )
)
"""What the trainer (and unsloth) announce before training, by name of the argument."""

_KEYS = re.compile(r"'(?:loss|eval_loss|reward|eval_reward|num_tokens|train_runtime)': ")
_BAR = re.compile(r"\s*\d{1,3}%\|[^|]*\| *(\d+)/(\d+) \[")
_MAX_BARS = 4
_REMEDY = "give trainer_state.json from checkpoint-N instead"


@dataclass
class _Bar:
    """One progress bar without a name."""

    total: int
    repaints: list[int] = field(default_factory=list)
    follows: dict[int, int] = field(default_factory=dict)
    last: int = -1
    falls: bool = False


class _TRL(Parser):
    def __init__(self, console: Console) -> None:
        super().__init__(console)
        console.table.clocked = False
        self.bars: dict[int, _Bar] = {}
        self.epochs: list[str] = []
        self.kinds: list[str] = []
        self.blanks = 0
        self.other: int | None = None
        self.after: int | None = None
        self.own: list[str] = []
        self.header: dict[str, int] = {}

    def see(self, line: Line) -> bool:
        text = line.text
        if "%|" in text and (bar := _BAR.match(text)):
            self._paint(int(bar[1][:12]), int(bar[2][:12]))
        elif "'epoch'" in text and (found := _row(text)) is not None:
            self._add(line, found)
        elif not text.strip():
            self.blanks += len(text) > 8
            return False
        else:
            self.after = None
            return self._announced(text)
        return True

    def _announced(self, text: str) -> bool:
        """Take the sizes out of what is said before the training."""
        if " = " not in text or len(text) > 1000 or self.epochs:
            return False
        found = {name: said[1] for name, mark in _HEADER if (said := mark.search(text))}
        for name, number in found.items():
            self.header.setdefault(name, int(number.replace(",", "")))
        return bool(found)

    def _add(self, line: Line, found: Literal) -> None:
        items = found.items
        if found.end < 0:
            self.console.table.cut = line.number
        before = self.console.table.count
        self.console.add(as_validation(items), line)
        if self.console.table.count == before:
            return
        self.after = before
        self.epochs.append(items["epoch"])
        self.own.append(items.get(_OWN_STEP, ""))
        eval_ = any(key.startswith("eval_") for key in items)
        self.kinds.append("end" if "train_runtime" in items else "eval" if eval_ else "train")

    def _paint(self, at: int, total: int) -> None:
        """Take note of a paint of a bar; one after a wipe-out is the sign of a row."""
        if total not in self.bars and len(self.bars) < _MAX_BARS:
            self.bars[total] = _Bar(total)
        bar = self.bars.get(total)
        closed = self.other not in (None, total) and self.blanks == 1
        if bar is not None:
            bar.falls |= at < bar.last
            bar.last = at
            if self.blanks and not closed:
                bar.repaints.append(at)
            if self.after is not None:
                bar.follows[self.after] = at
        self.blanks, self.other, self.after = 0, total, None

    def finish(self, log: Log) -> Log:
        log = replace(log, config={**self._sizes(), **log.config})
        own = [re.fullmatch(r"(\d{1,12})/(\d{1,12})", text) for text in self.own]
        if None not in own:
            bar = _Bar(int(own[-1][2]))  # type: ignore[index] # none is missing
            return self._placed(log, bar, np.array([float(o[1]) for o in own if o]))
        why = "no progress bar in it"
        for bar in self.bars.values():
            for steps in (self._following(bar), bar.repaints):
                problem = self._problem(bar, steps)
                if problem is None:
                    placed = np.array(steps[: len(self.epochs)], float)
                    return self._placed(log, bar, placed, noted=True)
                why = problem
        msg = f"TRL console rows carry no step, and the bar does not tell it ({why}); {_REMEDY}"
        raise SourceError(msg, where=str(log.path))

    def _sizes(self) -> dict[str, int]:
        """Return what the trainer announced; the processes follow from the sizes of the batch."""
        sizes = dict(self.header)
        total = sizes.pop("total", 0)
        device = sizes.get("per_device_train_batch_size", 0)
        each = device * sizes.get("gradient_accumulation_steps", 0)
        if each and total and total % each == 0:
            sizes.setdefault("world_size", total // each)
        return sizes

    def _following(self, bar: _Bar) -> list[int]:
        """Return what the bar said next after each row; empty unless it follows every one."""
        steps = [bar.follows.get(row, -1) for row in range(len(self.epochs))]
        if steps and steps[-1] < 0 and -1 not in steps[:-1]:
            steps[-1] = bar.last  # the file ends with its row
        return [] if -1 in steps else steps

    def _problem(self, bar: _Bar, steps: list[int]) -> str | None:
        """Return what speaks against these steps, None when all agrees."""
        rows = len(self.epochs)
        if bar.falls:
            return "it falls back"
        if len(steps) < rows:
            return f"{len(steps)} repaints for {rows} rows"
        at = np.array(steps[:rows], float)
        train = at[np.array(self.kinds) == "train"]
        if len(train) < 2 or (np.diff(at) < 0).any():
            return "too few rows in order"
        distance = _distance(train)
        if not distance:
            return "rows are at uneven distances"
        if train[0] > 1 and train[0] % distance:
            return f"rows are {distance} steps apart and begin at {train[0]:g}"
        return None if _explains(at, self.epochs) else "it does not agree with 'epoch'"

    def _placed(self, log: Log, bar: _Bar, steps: Floats, *, noted: bool = False) -> Log:
        """Return the log with its steps, which are told of where the bar gave them."""
        at = np.arange(len(steps), dtype=np.int32)
        values = {**log.rows.values, "step": Values(at, steps)}
        rows = replace(log.rows, values=values, names=log.rows.names | {"step"})
        facts = dict(log.facts)
        if "end" in self.kinds and steps[-1] >= bar.total:
            facts["ended"] = Fact("completed", "log")
        config, notes = {"max_steps": bar.total, **log.config}, log.notes
        distance = _distance(steps[np.array(self.kinds) == "train"])
        if distance:
            config.setdefault("logging_steps", distance)
            between = steps_between_rewards(rows, distance)
            if between is not None:
                facts["steps_between_rewards"] = Fact(between, "derived")
        if noted:
            message = f"rows carry no step; taken from the progress bar ({distance} steps apart)"
            note = Note("steps_from_bar", message, where=str(log.path), count=len(steps))
            notes = (*notes, note)
        return replace(log, rows=rows, config=config, facts=facts, notes=notes)


def _row(text: str) -> Literal | None:
    """Return the row in a line: a dictionary with an epoch; None when there is none."""
    start = text.find("{'")
    found = read_dict(text, start) if start >= 0 else None
    return found if found is not None and "epoch" in found.items else None


def _distance(steps: Floats) -> int:
    """Return the steps from one training row to the next; 0 when they are uneven.

    Examples
    --------
    >>> _distance(np.array([1.0, 5.0, 10.0, 15.0]))
    5
    """
    gaps = np.diff(steps[1:] if len(steps) > 2 and steps[0] == 1 else steps)
    return int(gaps[0]) if len(gaps) and gaps[0] >= 1 and (gaps == gaps[0]).all() else 0


def _explains(steps: Floats, epochs: list[str]) -> bool:
    """Tell whether one number of steps an epoch explains every epoch, as it was rounded."""
    try:
        epoch = np.array([float(text) for text in epochs])
    except ValueError:
        return False
    half = _rounding(epochs, epoch)
    if not np.isfinite(epoch).all() or (np.diff(epoch) < 0).any():
        return False
    most = np.where(epoch > half, (steps + 1) / np.maximum(epoch - half, 1e-12), np.inf)
    least = np.maximum(steps - 1, 0) / (epoch + half + 1e-12)
    return bool(least.max() <= most.min())


def _rounding(epochs: list[str], epoch: Floats) -> Floats:
    """Return half of the last place of each epoch: of 2 decimals, 4 digits, or all of them."""
    decimals = max(len(text.partition(".")[2]) for text in epochs)
    if decimals <= 2:
        return np.full(len(epoch), 0.5 * 10.0**-decimals)
    digits = max(len(text.replace(".", "").lstrip("0")) for text in epochs)
    if digits > 4:
        return np.full(len(epoch), 1e-9)
    return np.asarray(0.5 * 10.0 ** (np.floor(np.log10(np.maximum(epoch, 1e-9))) - 3))


TRL = Dialect(
    "trl",
    (b"'epoch'",),
    lambda text, _: "'epoch'" in text and bool(_KEYS.search(text)) and _row(text) is not None,
    _TRL,
    signs=(b"GRPOConfig(", b"GRPOTrainer"),
    row="{'loss': ..., 'epoch': ...}",
    more=(b"%|", b"atch size", b"teps = ", b"GPUs = "),
)
