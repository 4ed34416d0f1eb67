"""Argument objects as consoles print them: ``Namespace(a=1, b='x')``, on one line or many."""

from __future__ import annotations

import re

_START = re.compile(
    r"(?:^|[\s=:])(?:Namespace|\w*GRPO\w*Config|\w*GRPO\w*Arguments|TrainingArguments)\("
)
_PART = re.compile(r"\s*([A-Za-z_]\w*)=(.*)", re.DOTALL)
_MARK = re.compile(r"[\[\](){},'\"\\]")
_LONGEST = 1 << 20


class ArgumentObject:
    """The ``name=value`` pairs of one object, read line by line; nothing is evaluated.

    Values that are objects or lists themselves are kept as text.

    Examples
    --------
    >>> found = ArgumentObject("Namespace(a=1, b='x, y', c=[1, 2], d=Other(a=5))")
    >>> found.pairs, found.closed
    ({'a': '1', 'b': "'x, y'", 'c': '[1, 2]', 'd': 'Other(a=5)'}, True)
    """

    def __init__(self, text: str) -> None:
        self.pairs: dict[str, str] = {}
        self.closed = False
        self._depth = 0
        self._quote = ""
        self._piece: list[str] = []
        self._size = 0
        start = _START.search(text)
        self.feed(text[start.end() :] if start else "")

    @staticmethod
    def begins(text: str) -> bool:
        """Tell whether an argument object begins in a line."""
        return _START.search(text) is not None

    def feed(self, text: str) -> None:
        """Read on in the next line."""
        self._size += len(text)
        self.closed = self.closed or self._size > _LONGEST
        at = 0
        while not self.closed and at < len(text):
            found = _MARK.search(text, at)
            if found is None:
                break
            if found[0] == "\\":
                self._piece.append(text[at : found.end() + 1])
                at = found.end() + 1
                continue
            self._piece.append(text[at : found.start()])
            at = found.end()
            self._mark(found[0])
        if not self.closed:
            self._piece.append(text[at:])

    def _mark(self, mark: str) -> None:
        if mark in "'\"":
            if self._quote in ("", mark):
                self._quote = "" if self._quote else mark
        elif not self._quote:
            if mark in "[({":
                self._depth += 1
            elif mark == "," and not self._depth:
                self._take()
                return
            elif mark in "])}":
                self._depth -= 1
                if self._depth < 0:
                    self._take()
                    self.closed = True
                    return
        self._piece.append(mark)

    def _take(self) -> None:
        part = _PART.fullmatch("".join(self._piece))
        self._piece = []
        if part and part[2].strip():
            self.pairs.setdefault(part[1], part[2].strip())
