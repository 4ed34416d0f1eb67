"""Files of single responses that lie among logs: recognised, and named once a folder.

Frameworks can write every prompt and completion beside their metrics (verl's `rollout_data_dir`,
TRL's `completions/`, `train_data_step<N>.jsonl` of NeMo-RL). Their rows may carry a step and a
score, and are no log of a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from twoclock.notes import Refusal
from twoclock.sources.base import Head

_KEY = re.compile(rb'"([A-Za-z_][\w/.-]{0,60})"\s*:')
_LOOKED_AT = 16 << 10
"""Bytes that are enough for the keys of a first row; longer rows are recognised after reading."""
_ROWS = ("jsonl", "json", "json-object", "verl-file")

_TEXTS = (
    ("input", "output"), ("prompt", "completion"), ("prompt", "response"), ("prompts", "responses"),
    ("question", "response"), ("prompt", "output"), ("content", "rewards"),
    ("prompt", "completions"), ("messages",), ("conversation",), ("trajectory",), ("traces",),
    ("gts",),
)  # fmt: skip
"""Keys of rows that hold texts; any one group is enough."""


def is_dump(names: Collection[str]) -> bool:
    """Tell whether rows with these keys are single responses.

    Examples
    --------
    >>> is_dump({"input", "output", "score", "step"}), is_dump({"step", "reward"})
    (True, False)
    """
    return any(all(key in names for key in group) for group in _TEXTS)


class Dumps:
    """Files of responses by folder."""

    def __init__(self) -> None:
        self._files: dict[Path, list[Path]] = {}

    def add(self, path: Path) -> None:
        """Remember a file."""
        self._files.setdefault(path.parent, []).append(path)

    def refusals(self) -> list[Refusal]:
        """Return one refusal for each folder."""
        return [
            Refusal(
                str(files[0] if len(files) == 1 else folder),
                f"{_count(files)} single responses (prompts and completions), not metrics",
            )
            for folder, files in sorted(self._files.items())
        ]


def _count(files: list[Path]) -> str:
    return "holds" if len(files) == 1 else f"{len(files)} files hold"


def begins_with_responses(head: Head, reader: str) -> bool:
    """Tell from the first rows of a JSON file whether it holds responses, without reading it all.

    Examples
    --------
    >>> row = b'{"input": "1+1", "output": "2", "score": 1.0, "step": 3}'
    >>> begins_with_responses(Head(Path("3.jsonl"), row), "jsonl")
    True
    """
    return reader in _ROWS and is_dump(
        {key.decode() for key in _KEY.findall(head.data[:_LOOKED_AT])}
    )
