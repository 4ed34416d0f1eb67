"""The result of reading: three tables, remarks, refusals and the files behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from twoclock.notes import Note, Refusal, printable
from twoclock.runs.copies import Part
from twoclock.schema import EVALS, PROBES, RUNS, STEPS, Column, Table, conform, empty
from twoclock.sources.base import ReadFile
from twoclock.sources.text import sha256


@dataclass(frozen=True)
class Runs:
    """Everything that was read.

    Parameters
    ----------
    runs : pandas.DataFrame
        `schema.RUNS`, with a column ``NAME_from`` for every sourced column; sorted by `run_id`.
    steps, evals : pandas.DataFrame
        `schema.STEPS` and `schema.EVALS`, in the order of runs and responses.
    notes : tuple of Note
        What was repaired or doubted.
    refused : tuple of Refusal
        What was not used, and why.
    files : tuple of ReadFile
        Every file that was read.
    probes : pandas.DataFrame
        `schema.PROBES`, in the order of runs and rollouts; empty where no log has any.
    """

    runs: pd.DataFrame
    steps: pd.DataFrame
    evals: pd.DataFrame
    notes: tuple[Note, ...] = ()
    refused: tuple[Refusal, ...] = ()
    files: tuple[ReadFile, ...] = ()
    probes: pd.DataFrame = field(default_factory=lambda: empty(PROBES))

    def select(self, run_ids: Iterable[str]) -> Runs:
        """Return the same with only the given runs; notes, refusals and files stay."""
        wanted = set(run_ids)
        return replace(
            self,
            runs=_only(self.runs, wanted),
            steps=_only(self.steps, wanted),
            evals=_only(self.evals, wanted),
            probes=_only(self.probes, wanted),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the runs, remarks and files as plain data; absent values are None."""
        rows = self.runs.astype(object).where(self.runs.notna(), None)
        return {
            "runs": rows.to_dict("records"),
            "warnings": [note.to_dict() for note in self.notes],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "files": [file.to_dict() for file in self.files],
        }


def _only(frame: pd.DataFrame, wanted: set[str]) -> pd.DataFrame:
    return frame[frame["run_id"].isin(list(wanted))].reset_index(drop=True)


def assemble(parts: list[Part], notes: list[Note], refused: list[Refusal]) -> Runs:
    """Return the runs that were counted, sorted by name, as tables."""
    parts = sorted(parts, key=lambda part: part.run_id)
    rows = [
        {**p.counted.run, "run_id": p.run_id, "source": "; ".join(str(f) for f in p.files)}
        for p in parts
    ]
    frame = conform(pd.DataFrame(rows), RUNS)
    for column in RUNS.columns:
        if column.sourced:
            name = f"{column.name}_from"
            known = frame[name] if name in frame.columns else pd.Series(pd.NA, index=frame.index)
            frame[name] = known.astype("string")
    for part in parts:
        notes += [replace(n, runs=(part.run_id,)) for n in part.counted.notes]
    kept = [*RUNS.names, *(f"{c.name}_from" for c in RUNS.columns if c.sourced)]
    extra = [n for n in frame.columns if n not in kept and not n.endswith("_from")]
    evals = _stack([(p.run_id, p.counted.evals) for p in parts], EVALS)
    return Runs(
        _with_plain_texts(frame[[*kept, *extra]].copy()),
        _stack([(p.run_id, p.counted.steps) for p in parts], STEPS),
        _with_plain_texts(evals),
        merge_notes(notes),
        tuple(refused),
        _files(parts),
        _stack([(p.run_id, p.counted.probes) for p in parts], PROBES),
    )


def _with_plain_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose texts, which come from files, can be printed and written as UTF-8."""
    for name in frame.columns:
        if frame[name].dtype == "string" or frame[name].dtype == object:
            texts = [value for value in frame[name].unique() if isinstance(value, str)]
            odd = {text: printable(text) for text in texts if not text.isprintable()}
            if odd:
                frame[name] = frame[name].replace(odd)
    return frame


def _stack(frames: list[tuple[str, pd.DataFrame]], table: Table) -> pd.DataFrame:
    """Return the rows of all runs as one table; types are checked once, not run by run.

    A column is done before the next: long runs have no room for all of them in several types.
    """
    full = [(name, frame) for name, frame in frames if len(frame)]
    if not full:
        return empty(table)
    lengths = [len(frame) for _, frame in full]
    data: dict[str, pd.Series[Any]] = {}
    for column in table.columns:
        one = pd.DataFrame(index=pd.RangeIndex(sum(lengths)))
        if column.name == "run_id":
            one["run_id"] = np.repeat(np.array([name for name, _ in full], dtype=object), lengths)
        elif any(column.name in frame for _, frame in full):
            one[column.name] = _joined([frame for _, frame in full], column)
        data[column.name] = conform(one, Table(table.name, (), (column,)))[column.name]
    return pd.DataFrame(data, copy=False)


def _joined(frames: list[pd.DataFrame], column: Column) -> npt.NDArray[Any]:
    kind: Any = object if column.kind == "str" else np.float64
    return np.concatenate(
        [
            frame[column.name].to_numpy(dtype=kind, na_value=np.nan)
            if column.name in frame
            else np.full(len(frame), np.nan, dtype=kind)
            for frame in frames
        ]
    )


def _files(parts: list[Part]) -> tuple[ReadFile, ...]:
    runs: dict[Path, list[str]] = {}
    readers: dict[Path, str] = {}
    for part in parts:
        for path in part.all_files:
            runs.setdefault(path, []).append(part.run_id)
            readers.setdefault(path, part.log.reader if path in part.files else "settings")
    return tuple(
        ReadFile(str(path), _digest(path), readers[path], tuple(runs[path]))
        for path in sorted(runs)
    )


def _digest(path: Path) -> str:
    """Return the checksum of a file; none of one that is gone since it was read."""
    try:
        return sha256(path)
    except OSError:
        return ""


def merge_notes(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes with equal ones joined: one remark for many runs, with its first place.

    Examples
    --------
    >>> notes = [Note("a", "x", ("r1",), "1.csv"), Note("a", "x", ("r2",), "2.csv")]
    >>> merged = merge_notes(notes)[0]
    >>> merged.runs, merged.where, merged.count
    (('r1', 'r2'), '1.csv and 1 other', 2)
    """
    groups: dict[tuple[str, str], list[Note]] = {}
    for note in notes:
        groups.setdefault((note.code, note.message), []).append(note)
    return tuple(same[0] if len(same) == 1 else _one(same) for same in groups.values())


def _one(notes: list[Note]) -> Note:
    runs = dict.fromkeys(run for note in notes for run in note.runs)
    places = list(dict.fromkeys(note.where for note in notes if note.where))
    others = len(places) - 1
    where = places[0] if places else ""
    if others > 0:
        where += f" and {others} other{'s' if others > 1 else ''}"
    return replace(notes[0], runs=tuple(runs), where=where, count=sum(n.count for n in notes))


def merge_refusals(refused: Iterable[Refusal]) -> list[Refusal]:
    """Return the refusals with equal ones once, as for a file of several runs.

    Examples
    --------
    >>> len(merge_refusals([Refusal("a.csv", "no step"), Refusal("a.csv", "no step")]))
    1
    """
    merged: dict[tuple[str, str], Refusal] = {}
    for item in refused:
        before = merged.setdefault((item.path, item.reason), item)
        facts = tuple(dict.fromkeys((*before.facts, *item.facts)))
        merged[item.path, item.reason] = replace(before, facts=facts)
    return list(merged.values())
