"""Names of runs: from the log itself, else from where it lies; never two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from twoclock.runs.finding import Found
from twoclock.sources.base import Log

PLAIN = frozenset(
    ("metrics", "metric", "train", "training", "log", "logs", "output", "run", "history", "stdout",
     "trainer_state", "results", "data", "console", "nohup", "main_ppo", "progress", "train_log")
)  # fmt: skip
"""File names that say nothing about the run: the folder's name is taken instead."""

_ENDINGS = (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".log",
            ".out", ".txt")  # fmt: skip


def name_runs(logs: Sequence[tuple[Found, Log]]) -> list[str]:
    """Return a name for each log, unique among them and independent of the order of files.

    A name is the log's own, else its path below the given folder without what says nothing.
    """
    places = [place(log.path, file.root) for file, log in logs]
    names = [log.name or at for (_, log), at in zip(logs, places, strict=True)]
    for _ in range(2):
        counts = Counter(names)
        names = [
            _longer(name, log, file, at) if counts[name] > 1 else name
            for name, (file, log), at in zip(names, logs, places, strict=True)
        ]
    seen: Counter[str] = Counter()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[i] = f"{name}#{seen[name]}"
    return names


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
    if path == root:
        parts = [path.parent.resolve().name, path.name]
        kept = [stem(path.name)] if stem(path.name).lower() not in PLAIN else parts[:1]
        return kept[0] or stem(path.name)
    below = list(path.relative_to(root).parts)
    below[-1] = stem(below[-1])
    if below[-1].lower() in PLAIN:
        below.pop()
    return "/".join(below) or root.resolve().name


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
