"""Configurations that consoles print: argument objects, command lines, tables, dictionaries."""

from __future__ import annotations

import re
from typing import Any

from twoclock.sources.console.blocks import Watch
from twoclock.sources.console.lines import Line, without_stamp
from twoclock.sources.console.objects import ArgumentObject

MARKS = (b"Namespace(", b"Config(", b"Arguments(", b" --", b" ...")
"""A line that begins a configuration holds one of these, or begins with a flag."""

MAX_NAMES = 5000
_OBJECT_LINES = 1000
_FLAG = re.compile(r"(?<!\S)--([A-Za-z][\w.-]*)(?:=(\S+)|\s+(?!--)([^\s\\]\S*))?")
_COMMAND = re.compile(r"\.py\b|python|ray job submit|torchrun|(?:^|\s)-m \w")
_OTHER = re.compile(r"vllm serve|sglang|api_server|pip install|ray start|disable with")
_ROW = re.compile(r"\s*([A-Za-z_]\w*) \.{3,} ?(\S.*)?$")
_WORDS = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def plain(text: str) -> Any:
    """Return the value that a word of a configuration means.

    Examples
    --------
    >>> plain("128"), plain("1e-6"), plain("'grpo'"), plain("None")
    (128, 1e-06, 'grpo', None)
    """
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if _NUMBER.fullmatch(text) and len(text) < 40:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text


def flags_of(text: str) -> dict[str, Any]:
    r"""Return the flags of a command line (or of one line of it).

    Examples
    --------
    >>> flags_of("  --rollout-batch-size 128 --actor.adam.lr=1e-6 --colocate \\")
    {'rollout_batch_size': 128, 'actor.adam.lr': 1e-06, 'colocate': True}
    """
    out: dict[str, Any] = {}
    for name, joined, spaced in _FLAG.findall(text):
        value = joined or spaced
        out[name.replace("-", "_")] = plain(value) if value else True
    return out


class Settings:
    """The configuration so far; the first value that is printed for a name counts.

    Parameters
    ----------
    flat : dict
        Dotted names to values.
    """

    def __init__(self) -> None:
        self.flat: dict[str, Any] = {}
        self._open: ArgumentObject | None = None
        self._worker = ""
        self._command = False
        self._lines = 0

    def see(self, line: Line, watch: Watch) -> None:
        """Look at a line before the first row."""
        text = line.text
        if self._open is not None:
            if line.worker == self._worker:
                self._open.feed(text)
            self._read(watch)
            return
        if "--" in text:
            if not _OTHER.search(text) and (self._command or _COMMAND.search(text)):
                self._put(flags_of(text))
                self._command = text.rstrip().endswith("\\")
                watch.everything = max(watch.everything, int(self._command))
            return
        self._command = self._command and text.rstrip().endswith("\\")
        if "(" in text and ArgumentObject.begins(text):
            self._worker, self._open = line.worker, ArgumentObject(text)
            self._lines = 0
            self._read(watch)
        elif " ..." in text:
            row = _ROW.match(without_stamp(text))
            if row and row[2]:
                self._put({row[1]: plain(row[2])})

    def _read(self, watch: Watch) -> None:
        """Take the values that an argument object holds so far, and wait for its next line."""
        if self._open is None:
            return
        self._lines += 1
        if self._open.closed or self._lines > _OBJECT_LINES:
            self._put({name: plain(value) for name, value in self._open.pairs.items()})
            self._open = None
        else:
            watch.everything = max(watch.everything, 1)

    def close(self) -> None:
        """Take what an object holds whose end is missing."""
        self._lines = _OBJECT_LINES
        self._read(Watch(()))

    def _put(self, found: dict[str, Any]) -> None:
        for name, value in found.items():
            if len(self.flat) < MAX_NAMES:
                self.flat.setdefault(name, value)
