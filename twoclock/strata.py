"""Strata: which runs may share one exponent.

Works on the `runs` table alone; it reads no logs and knows nothing of events or fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from twoclock.errors import SettingsError
from twoclock.lr_rule import scalar
from twoclock.notes import Note
from twoclock.schema import STRATUM_COLUMNS

IDENTITY_COLUMNS = ("framework", "model", "task", "base_lr")
"""Columns that always split: two models are never one stratum, even if each has its own B.

base_lr already is the learning rate with its scaling over B taken out, so that what is left of it
is a real difference.
"""


@dataclass(frozen=True)
class Stratum:
    """Runs that share one exponent.

    Parameters
    ----------
    values : dict
        Stratum columns that all its runs share and that are known, as plain scalars.
    run_ids : tuple of str
        Its runs, sorted.
    """

    values: dict[str, Any]
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Strata:
    """All strata, with the columns that split the runs and the warnings.

    Parameters
    ----------
    strata : tuple of Stratum
        In the order of their values.
    splits : tuple of str
        Columns that split the runs.
    notes : tuple of Note
        ``confounded_with_B`` and the like.
    """

    strata: tuple[Stratum, ...]
    splits: tuple[str, ...]
    notes: tuple[Note, ...]


def stratify(runs: pd.DataFrame, *, by: Iterable[str] = (), pool: Iterable[str] = ()) -> Strata:
    """Split runs into strata.

    Runs equal in every stratum column (missing equals missing) make one stratum. A column that
    changes with B inside otherwise equal runs does not split: it is named ``confounded_with_B``.
    It *does* split when one of its values was run at every B, or each of its values at two or more.

    Parameters
    ----------
    runs : DataFrame
        `runs` table (or events with the same columns) with base_lr filled.
    by : iterable of str
        Columns to split by in addition, whatever they do with B.
    pool : iterable of str
        Stratum columns not to split by.

    Raises
    ------
    SettingsError
        `by` or `pool` names an unknown column.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("abcd"), "batch_size": [64, 256, 64, 256],
    ...                      "base_lr": [1e-6, 1e-6, 1e-5, 1e-5]})
    >>> [s.run_ids for s in stratify(runs).strata]
    [('a', 'b'), ('c', 'd')]
    """
    by, pool = tuple(by), tuple(pool)
    _check_names(runs, by, pool)
    columns = [c for c in STRATUM_COLUMNS if c in runs.columns and c not in pool and c not in by]
    frame = pd.DataFrame({c: [scalar(v) for v in runs[c]] for c in (*columns, *by)})
    frame = frame.astype("object").where(frame.notna(), None)
    frame.insert(0, "_b", runs["batch_size"].to_numpy())
    frame.insert(0, "_id", runs["run_id"].to_numpy())
    identity = [c for c in columns if c in IDENTITY_COLUMNS] + list(by)
    others = [c for c in columns if c not in identity]
    notes: list[Note] = []
    found: list[tuple[dict[str, Any], tuple[str, ...]]] = []
    for group in _groups(frame, identity):
        splitting = []
        for column in others:
            if _changes_with_b(group, column):
                notes.append(_confounded(group, column))
            else:
                splitting.append(column)
        for part in _groups(group, splitting):
            shared = [c for c in (*columns, *by) if len(part[c].map(repr).unique()) == 1]
            values = {c: part[c].iloc[0] for c in shared if part[c].iloc[0] is not None}
            found.append((values, tuple(sorted(str(i) for i in part["_id"]))))
    found.sort(key=lambda item: [_sort_key(item[0].get(c)) for c in (*columns, *by)])
    keys = [c for c in (*columns, *by) if len({repr(v.get(c)) for v, _ in found}) > 1]
    strata = tuple(Stratum(values, ids) for values, ids in found)
    return Strata(strata, tuple(keys), tuple(notes))


def _check_names(runs: pd.DataFrame, by: tuple[str, ...], pool: tuple[str, ...]) -> None:
    for option, names, known in (
        ("--by", by, [str(c) for c in runs.columns]),
        ("--pool", pool, list(STRATUM_COLUMNS)),
    ):
        for name in names:
            if name not in known:
                msg = f"{option} {name}: no such column; known: {', '.join(known)}"
                raise SettingsError(msg)


def _sort_key(value: Any) -> tuple[int, float, str]:
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, (int, float)):
        return (1, float(value), "")
    return (2, 0.0, str(value))


def _groups(frame: pd.DataFrame, columns: list[str]) -> list[pd.DataFrame]:
    if not columns:
        return [frame]
    keys = pd.Series(
        [repr(tuple(row)) for row in frame[columns].itertuples(index=False)], index=frame.index
    )
    return [part for _, part in frame.groupby(keys, sort=True)]


def _changes_with_b(group: pd.DataFrame, column: str) -> bool:
    sizes = group["_b"].groupby(group[column].map(repr)).nunique()
    if len(sizes) < 2 or group["_b"].nunique() < 2:
        return False
    return not (bool((sizes == group["_b"].nunique()).any()) or bool((sizes >= 2).all()))


def _confounded(group: pd.DataFrame, column: str) -> Note:
    cells = group.groupby("_b")[column].agg(lambda v: "/".join(sorted({_text(x) for x in v})))
    listed = ", ".join(f"B={size}: {value}" for size, value in cells.items())
    text = (
        f"{column} changes with B ({listed}): its effect cannot be told from that of B; "
        f"not split (use --by {column} to split)"
    )
    return Note("confounded_with_B", text, tuple(sorted(str(i) for i in group["_id"])))


def _text(value: Any) -> str:
    return "missing" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
