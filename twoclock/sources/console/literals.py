"""Python dictionaries as text: read key by key, never evaluated, of a cut one what is complete."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"\s*(?:(['\"])((?:(?!\1)[^\\]|\\.)*)\1"
    r"|([{}\[\](),:])"
    r"|([^\s{}\[\](),:'\"]+(?:\((?:[^()'\"]|'[^']*'|\"[^\"]*\"|\([^()]*\))*\))?))",
    re.DOTALL,
)
_PLAIN_ITEM = re.compile(
    r"(['\"])([^'\"\\]+)\1: ?"
    r"(?:(['\"])([^'\"\\]*)\3|([^'\"{}\[\](),:\s]+(?:\([^()'\"]*\))?))(?:,\s*|(?=\}))"
)
_MAX_DEPTH = 20
_LONGEST = 1000
"""A value of several words is kept up to here: it is no number anyway."""


class Literal(NamedTuple):
    """A dictionary that was read.

    Parameters
    ----------
    items : dict of str to str
        Values as they are written, by key; nested keys are joined by slashes.
    end : int
        Where the text goes on behind it; -1: the closing brace is missing.
    """

    items: dict[str, str]
    end: int


def read_dict(text: str, start: int = 0) -> Literal:
    """Return the dictionary whose opening brace stands at `start`.

    A value counts when something follows it, so that a number that was cut is not believed. Lists
    and tuples are kept as text, which is no number.

    Examples
    --------
    >>> read_dict("{'a': np.float64(0.5), 'b': {'c': '0.0012', 'd': nan}, 'e': [1, 2]} x").items
    {'a': 'np.float64(0.5)', 'b/c': '0.0012', 'b/d': 'nan', 'e': '[1,2]'}
    >>> read_dict("{'a': 1, 'b': tensor(0.4, device='cuda:0'), 'c': 0.12")
    Literal(items={'a': '1', 'b': "tensor(0.4, device='cuda:0')"}, end=-1)
    """
    return _read_plain(text, start) or _Scan(text, start).run()


def _read_plain(text: str, start: int) -> Literal | None:
    """Return a whole dictionary of numbers, words and short calls, None for any other."""
    items: dict[str, str] = {}
    at = start + 1
    while found := _PLAIN_ITEM.match(text, at):
        _, key, quote, quoted, word = found.groups()
        items[key] = quoted if quote else word
        at = found.end()
    return Literal(items, at + 1) if items and text.startswith("}", at) else None


class _Scan:
    """A walk over the tokens of one dictionary."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.at = start
        self.items: dict[str, str] = {}
        self.path: list[str] = []
        self.depth = 0
        self.key: str | None = None
        self.value: str | None = None
        self.word: str | None = None
        self.inside: list[str] = []
        self.lists = 0

    def run(self) -> Literal:
        """Return what the tokens say, up to the closing brace, the end or the damage."""
        while True:
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                return Literal(self.items, -1)
            self.at = token.end()
            mark = token[3]
            if self.lists:
                self._in_list(token)
            elif mark is None:
                self._put_word(token[2] if token[1] else token[4], quoted=bool(token[1]))
            elif self._put_mark(mark):
                return Literal(self.items, self.at)
            if self.depth > _MAX_DEPTH:
                return Literal(self.items, -1)

    def _put_word(self, word: str, *, quoted: bool) -> None:
        if self.key is None:
            self.word = word
        elif self.value is None:
            self.value = word
        elif len(self.value) < _LONGEST:
            self.value += word if quoted else f" {word}"

    def _put_mark(self, mark: str) -> bool:
        """Take a bracket, comma or colon; tell whether the dictionary is over."""
        if mark == ":":
            if self.key is None:
                self.key, self.word = self.word, None
            elif self.value is not None and len(self.value) < _LONGEST:
                self.value += ":"
        elif mark == "{":
            if self.depth:
                self.path.append(self.key or "")
            self.depth += 1
            self.key = self.value = self.word = None
        elif mark in ",}":
            self._commit()
            if mark == "}":
                self.depth -= 1
                if self.depth <= 0:
                    return True
                self.path.pop()
        elif mark in "[(":
            self.lists, self.inside = 1, [mark]
        return False

    def _in_list(self, token: re.Match[str]) -> None:
        mark = token[3]
        if len(self.inside) < 100:
            self.inside.append(mark or (repr(token[2]) if token[1] else token[4]))
        if mark is not None and mark in "[({":
            self.lists += 1
        elif mark is not None and mark in "])}":
            self.lists -= 1
            if not self.lists:
                self.value = (self.value or "") + "".join(self.inside)

    def _commit(self) -> None:
        if self.key is not None and self.value is not None:
            self.items["/".join([*self.path, self.key])] = self.value
        self.key = self.value = self.word = None
