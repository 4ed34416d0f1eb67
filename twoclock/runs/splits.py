"""The training, validation and test rows of one run in files of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from twoclock.runs.named import NamedLog
from twoclock.runs.stacking import Placed
from twoclock.sources.columns import STEP_KEYS
from twoclock.sources.rows import Rows

_COMMON = frozenset(
    (*STEP_KEYS, "time", "_runtime", "_timestamp", "epoch", "seed", "batch_size", "group_size",
     "responses")
)  # fmt: skip
"""Keys that both halves of a run may hold."""

_WORD = re.compile(
    r"(?:^|[-_])(train|training|eval|evaluation|val|valid|validation|test)(?=[-_.]|$)", re.I
)


def complete_each_other(parts: Sequence[Placed]) -> bool:
    """Tell whether logs hold different keys, so that none repeats what another says."""
    return not _repeated([part.log.rows for part in parts])


def told_apart(group: Sequence[NamedLog]) -> list[NamedLog] | None:
    """Return the logs of a run's splits with the split before keys that several of them have.

    An ``accuracy`` in ``eval.csv`` becomes ``eval/accuracy``; keys of the training stay. None
    where the files are no splits, or the user names such a key.
    """
    words = [_WORD.findall(item.log.path.name.lower()) for item in group]
    splits = [found[0] for found in words if len(found) == 1]
    if len(set(splits)) < len(group) or any(item.log.known is not None for item in group):
        return None
    repeated = _repeated([item.log.rows for item in group])
    if any(repeated.intersection(keys) for i in group for keys in i.options.map.values()):
        return None
    return [
        item if split.startswith("train") else _under(split, item, repeated)
        for split, item in zip(splits, group, strict=True)
    ]


def _repeated(logs: Sequence[Rows]) -> set[str]:
    counts = Counter(key for rows in logs for key in rows.values if key not in _COMMON)
    return {key for key, count in counts.items() if count > 1}


def _under(split: str, item: NamedLog, repeated: Collection[str]) -> NamedLog:
    def named(key: str) -> str:
        return f"{split}/{key}" if key in repeated else key

    rows = item.log.rows
    renamed = replace(
        rows,
        values={named(key): column for key, column in rows.values.items()},
        rejected={named(key): bad for key, bad in rows.rejected.items()},
        names=frozenset(map(named, rows.names)),
    )
    return replace(item, log=replace(item.log, rows=renamed))
