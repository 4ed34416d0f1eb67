"""Configurations that are pretty-printed as dictionaries, between the lines of other workers."""

from __future__ import annotations

import re
from typing import Any

from twoclock.sources.console.blocks import Watch
from twoclock.sources.console.lines import Line
from twoclock.sources.console.settings import MAX_NAMES, plain

_MAX_LINES = 20_000
_DEPTH = 40
_TOKEN = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([{}\[\]:,])|([^\s{}\[\]:,'\"]+)")


class Printed:
    """A dictionary printed over many lines, between the lines of other workers.

    Parameters
    ----------
    start : str
        Pattern of its first line.
    """

    _LINE = re.compile(r"\s*(?:[{}\[\]'\"]|\d|None|True|False)")

    def __init__(self, start: str) -> None:
        self._start = re.compile(start)
        self.lines: list[str] = []
        self._printer: str | None = None
        self._depth = 0

    def see(self, line: Line, watch: Watch) -> bool:
        """Look at a line; tell whether it belongs to the dictionary."""
        text = line.text
        if self._printer is None:
            if self.lines or not self._start.match(text):
                return False
            self._printer = line.worker
        elif line.worker != self._printer or not self._LINE.match(text):
            watch.everything = max(watch.everything, 1)
            return False
        self.lines.append(text)
        self._depth += text.count("{") - text.count("}")
        if self._depth <= 0 or len(self.lines) > _MAX_LINES:
            self.stop()
        watch.everything = max(watch.everything, int(self._printer is not None))
        return True

    def stop(self) -> None:
        """Take note that no more of it will come."""
        self._printer = None

    @property
    def text(self) -> str:
        """All its lines."""
        return "\n".join(self.lines)

    @property
    def flat(self) -> dict[str, Any]:
        """Dotted names to values."""
        return parse_printed(self.text)


def parse_printed(text: str) -> dict[str, Any]:
    """Return what a pretty-printed dictionary says, tolerating damage; nothing is evaluated.

    Examples
    --------
    >>> parse_printed("{'data': {'train_batch_size': 32, 'files': ['a', 'b']}, 'x': None}")
    {'data.train_batch_size': 32, 'data.files': ['a', 'b'], 'x': None}
    """
    reading = _Reading()
    for single, double, mark, word in _TOKEN.findall(text):
        if mark:
            reading.mark(mark)
        else:
            reading.word(plain(word) if word else single or double)
    return reading.out


class _Reading:
    """Where the tokens of a printed dictionary have led so far."""

    def __init__(self) -> None:
        self.out: dict[str, Any] = {}
        self.path: list[str] = []
        self.key: str | None = None
        self.items: list[Any] | None = None
        self.pending: str | None = None

    def mark(self, mark: str) -> None:
        """Take a bracket, colon or comma."""
        if mark == ":" and self.pending is not None:
            self.key, self.pending = self.pending, None
        elif mark == "[":
            self.items = []
        elif mark == "]":
            self._put(self.items or [])
            self.items = None
        elif self.items is None and mark == "{":
            if self.key is not None:
                self.path.append(self.key)
            self.key = None
        elif self.items is None and mark == "}" and self.path:
            self.path.pop()

    def word(self, value: Any) -> None:
        """Take a text, number or name."""
        if self.items is not None:
            self.items.append(value)
        elif self.key is not None:
            self._put(value)
        else:
            self.pending = str(value)

    def _put(self, value: Any) -> None:
        if self.key is not None and len(self.path) < _DEPTH and len(self.out) < MAX_NAMES:
            self.out[".".join([*self.path, self.key])] = value
        self.key = None
