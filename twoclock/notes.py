"""Named remarks: what was repaired, doubted or refused, so that nothing happens silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


def printable(text: str) -> str:
    r"""Return `text` on one line: control characters and broken bytes of file names as escapes.

    Examples
    --------
    >>> print(printable("a\nb\x1b[2J"), printable("学习 ü"), printable("\udcff"))
    a\nb\x1b[2J 学习 ü \udcff
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


NAMED = 8
"""Files with one and the same trouble that are named one by one; the others are counted."""


@dataclass(frozen=True)
class Note:
    """One warning: a slug that never changes, and a sentence for people.

    Parameters
    ----------
    code : str
        Slug (``"confounded_with_B"``), stable over versions.
    message : str
        One line: what, where, how many, what to do.
    runs : tuple of str
        The run_ids that it is about; empty when it is about all.
    where : str
        File, with a line where one is known.
    count : int
        How often the same thing happened there.

    Examples
    --------
    >>> Note("cut_line", "last line is cut", runs=("a",), where="a.jsonl line 3").to_dict()["code"]
    'cut_line'
    """

    code: str
    message: str
    runs: tuple[str, ...] = ()
    where: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        """Make texts that hold names from files safe to print."""
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "where", printable(self.where))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the ``warnings`` list."""
        return {
            "code": self.code,
            "message": self.message,
            "runs": list(self.runs),
            "where": self.where,
            "count": self.count,
        }


@dataclass(frozen=True)
class Refusal:
    """A file or run that was not used, and why.

    Parameters
    ----------
    path : str
        The file or folder.
    reason : str
        One line with the remedy.
    facts : tuple of str
        `runs` columns whose absence is the reason (``("batch_size",)``); empty otherwise.
    candidates : mapping of str to tuple of str
        For a missing fact, the keys of the log that may hold it.
    known : mapping
        `runs` columns that the log does tell.

    Examples
    --------
    >>> Refusal("a.json", "batch size is not logged; give --batch-size", ("batch_size",)).to_dict()
    {'path': 'a.json', 'reason': 'batch size is not logged; give --batch-size'}
    """

    path: str
    reason: str
    facts: tuple[str, ...] = ()
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    known: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Make the reason, which may quote a file, safe to print; the path stays what it is."""
        object.__setattr__(self, "reason", printable(self.reason))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of ``runs.refused``."""
        return {"path": printable(self.path), "reason": self.reason}


def refusal_lines(refused: Iterable[Refusal]) -> list[str]:
    """Return a line for each reason, with the files that it is about.

    Examples
    --------
    >>> refusal_lines([Refusal("a", "no data"), Refusal("b", "a pickle"), Refusal("c", "no data")])
    ['a, c: no data', 'b: a pickle']
    """
    files: dict[str, list[str]] = {}
    for item in refused:
        files.setdefault(item.reason, []).append(item.path)
    lines = []
    for reason, paths in files.items():
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        lines.append(printable(f"{', '.join(paths[:NAMED])}{more}: {reason}"))
    return lines
