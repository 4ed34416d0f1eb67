"""Names of runs: from the log itself, else from where it lies; never two alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from twoclock.notes import printable
from twoclock.runs.finding import Found
from twoclock.sources.base import Log

PLAIN = frozenset(
    ("metrics", "metric", "train", "training", "log", "logs", "output", "run", "history", "stdout",
     "trainer_state", "results", "data", "console", "nohup", "main_ppo", "progress", "train_log",
     "worker_state_pipeline")
)  # fmt: skip
"""File names that say nothing about the run: the folder's name is taken instead."""

MAX_LENGTH = 400
"""Letters of a name; a log may hold anything as one."""

_CHECKPOINT = re.compile(r"checkpoint-\d+")

_ENDINGS = (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".log",
            ".out", ".txt")  # fmt: skip


def name_runs(logs: Sequence[tuple[Found, Log]]) -> list[str]:
    """Return a name for each log, unique among them and independent of the order of files.

    A name is the log's own, else its path below the given folder without what says nothing.
    """
    places = [place(log.path, file.root) for file, log in logs]
    names = [_shown(log.name or at) for (_, log), at in zip(logs, places, strict=True)]
    for _ in range(2):
        counts = Counter(names)
        names = [
            _shown(_longer(name, log, file, at)) if counts[name] > 1 else name
            for name, (file, log), at in zip(names, logs, places, strict=True)
        ]
    seen: Counter[str] = Counter()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[i] = f"{name}#{seen[name]}"
    return names


def _shown(name: str) -> str:
    """Return a name without control characters, and none longer than a path can be."""
    return printable(name[:MAX_LENGTH])


def _longer(name: str, log: Log, file: Found, at: str) -> str:
    if log.name and name == log.name and at != name:
        return at if at.endswith(name) else f"{at}/{name}"
    whole = log.path.as_posix() if file.root == log.path else f"{file.root.name}/{at}"
    return f"{whole}/{log.name}" if log.name and not whole.endswith(log.name) else whole


def place(path: Path, root: Path) -> str:
    """Return where a log lies, as a name.

    Examples
    --------
    >>> place(Path("logs/b64/seed0/metrics.jsonl.gz"), Path("logs"))
    'b64/seed0'
    >>> place(Path("logs/seed0.csv"), Path("logs"))
    'seed0'
    """
    name = stem(path.name) if path.is_file() or path.suffix else path.name
    folders = path.relative_to(root).parts[:-1] if path != root else path.resolve().parts[:-1]
    below = [*folders] if name.lower() in PLAIN else [*folders, name]
    while below and _CHECKPOINT.fullmatch(below[-1]):
        below.pop()
    if path == root:
        return below[-1] if below else name
    return "/".join(below) or place(root.resolve(), root.resolve())


def stem(name: str) -> str:
    """Return a file name without the endings of logs.

    Examples
    --------
    >>> stem("run.3.jsonl.gz"), stem("b64.lr1e-6")
    ('run.3', 'b64.lr1e-6')
    """
    changed = True
    while changed:
        changed = False
        for suffix in _ENDINGS:
            if name.lower().endswith(suffix) and len(name) > len(suffix):
                name, changed = name[: -len(suffix)], True
    return name
