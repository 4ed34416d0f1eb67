"""Read run logs of any known format into the tables: the door of every analysis.

Finds the files, reads each with the reader that recognises it, counts responses, leaves out
copies, and says what was refused and why. Nothing is dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from twoclock.errors import MissingFacts, NoUsableRuns, SourceError, TableError
from twoclock.notes import Note, Refusal
from twoclock.reading import ReadOptions
from twoclock.runs.copies import Part, drop_copies, drop_earlier_states, join_parts
from twoclock.runs.counting import count_run
from twoclock.runs.finding import Found, find_files
from twoclock.runs.naming import name_runs
from twoclock.runs.sidecar import Sidecars
from twoclock.schema import EVALS, RUNS, STEPS, conform, empty
from twoclock.sources import find_reader
from twoclock.sources.base import Head, Log, ReadFile
from twoclock.sources.events_table import EventsTable, is_events_table, read_events_table
from twoclock.sources.text import read_head, sha256

Progress = Callable[[int, int, str], None]
"""Called with (files done, files in all, file)."""

_NO_OPTIONS = ReadOptions()


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
    """

    runs: pd.DataFrame
    steps: pd.DataFrame
    evals: pd.DataFrame
    notes: tuple[Note, ...] = ()
    refused: tuple[Refusal, ...] = ()
    files: tuple[ReadFile, ...] = ()

    def select(self, run_ids: Iterable[str]) -> Runs:
        """Return the same with only the given runs; notes, refusals and files stay."""
        wanted = set(run_ids)
        return replace(
            self,
            runs=_only(self.runs, wanted),
            steps=_only(self.steps, wanted),
            evals=_only(self.evals, wanted),
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


def read_events(path: str | Path, options: ReadOptions = _NO_OPTIONS) -> EventsTable | None:
    """Read a file as an events table, or return None when it is none.

    Parameters
    ----------
    path : str or Path
        A CSV or Parquet file.
    options : ReadOptions
        ``map`` renames its columns.

    Raises
    ------
    SourceError
        It is an events table and no row of it can be used.
    """
    path = Path(path)
    if not path.is_file() or not is_events_table(path, options):
        return None
    return read_events_table(path, options)


def _only(frame: pd.DataFrame, wanted: set[str]) -> pd.DataFrame:
    return frame[frame["run_id"].isin(list(wanted))].reset_index(drop=True)


def read_runs(
    paths: str | Path | Sequence[str | Path],
    options: ReadOptions = _NO_OPTIONS,
    *,
    progress: Progress | None = None,
) -> Runs:
    r"""Read every run log under the given paths.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Folders, searched for logs, and files.
    options : ReadOptions
        What the user says about the logs.
    progress : callable, optional
        Called with (files done, files in all, file).

    Returns
    -------
    Runs
        At least one run.

    Raises
    ------
    NoUsableRuns
        Nothing can be used; carries every refusal.
    SettingsError
        A `runs.yaml` has an unknown key or is damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "seed0.csv"
    ...     _ = log.write_text("step,val_acc\n0,0.10\n10,0.60\n")
    ...     runs = read_runs(folder, ReadOptions(batch_size=64))
    >>> runs.evals[["run_id", "responses", "accuracy"]].to_dict("list")
    {'run_id': ['seed0', 'seed0'], 'responses': [0, 640], 'accuracy': [0.1, 0.6]}
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found, refused = find_files([Path(p) for p in given])
    logs: list[tuple[Found, Log]] = []
    for done, file in enumerate(found):
        if progress is not None:
            progress(done, len(found), str(file.path))
        try:
            logs += [(file, log) for log in _read(file, options, refused)]
        except SourceError as err:
            refused.append(_refusal(file.path, err))
    if progress is not None:
        progress(len(found), len(found), "")
    notes: list[Note] = []
    logs = drop_earlier_states(logs, notes)
    parts = _count_all(logs, options, refused, notes)
    parts = join_parts(drop_copies(parts, notes), notes)
    if not parts:
        raise _nothing(given, refused)
    return _assemble(parts, notes, refused)


def _read(file: Found, options: ReadOptions, refused: list[Refusal]) -> list[Log]:
    head = Head(file.path, read_head(file.path))
    if not head.data.strip():
        msg = "no data: the file is empty"
        raise SourceError(msg, where=str(file.path))
    reader = find_reader(head)
    if reader is not None:
        if reader.name in ("csv", "parquet") and is_events_table(file.path, options):
            msg = "is an events table, not a run log; give it to fit by itself"
            raise SourceError(msg, where=str(file.path))
        return reader.read(file.path, options)
    if file.listed:
        reason = "no metrics: not a log format that is known"
        refused.append(Refusal(str(file.path), reason))
    return []


def _refusal(path: Path, err: SourceError) -> Refusal:
    facts = err.facts if isinstance(err, MissingFacts) else ()
    where = err.where if err.where.startswith(str(path)) else str(path)
    return Refusal(where, err.reason, facts)


def _count_all(
    logs: list[tuple[Found, Log]], options: ReadOptions, refused: list[Refusal], notes: list[Note]
) -> list[Part]:
    """Count each log that gives a run, named; refuse the others."""
    sidecars = Sidecars()
    names = name_runs(logs)
    parts: list[Part] = []
    for (file, log), name in zip(logs, names, strict=True):
        given = sidecars.for_log(log.path, file.root)
        merged = replace(
            options,
            map={**given.map, **options.map},
            scale={**given.scale, **options.scale},
        )
        facts = {**given.facts, **options.facts()}
        run_id = str(facts.pop("run_id", "") or name)
        joined = "run_id" in given.facts
        try:
            counted = count_run(log, facts, merged)
            parts.append(Part(run_id, log, counted, joined, given.files))
        except (SourceError, TableError) as err:
            reason = err if isinstance(err, SourceError) else SourceError(str(err))
            refused.append(_refusal(log.path, reason))
    notes += [
        Note("unused_entry", f"no log matches path {glob!r}", where=str(file))
        for file, glob in sidecars.unused
    ]
    return parts


def _nothing(given: Sequence[str | Path], refused: list[Refusal]) -> NoUsableRuns:
    where = ", ".join(str(p) for p in given) or "no path given"
    if not refused:
        msg = f"{where}: no run logs found"
    elif len(refused) == 1:
        msg = f"no usable run: {refused[0].path}: {refused[0].reason}"
    else:
        first = refused[0]
        msg = (
            f"no usable run in {where}: {len(refused)} refused, first {first.path}: {first.reason}"
        )
    return NoUsableRuns(msg, refused=tuple((r.path, r.reason) for r in refused))


def _assemble(parts: list[Part], notes: list[Note], refused: list[Refusal]) -> Runs:
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
    return Runs(
        frame[[*kept, *extra]].copy(),
        _stack([(p.run_id, p.counted.steps) for p in parts], STEPS),
        _stack([(p.run_id, p.counted.evals) for p in parts], EVALS),
        merge_notes(notes),
        tuple(refused),
        _files(parts),
    )


def _stack(frames: list[tuple[str, pd.DataFrame]], table: Any) -> pd.DataFrame:
    full = [conform(f.assign(run_id=name), table, where=name) for name, f in frames if len(f)]
    return pd.concat(full, ignore_index=True) if full else empty(table)


def _files(parts: list[Part]) -> tuple[ReadFile, ...]:
    runs: dict[Path, list[str]] = {}
    readers: dict[Path, str] = {}
    for part in parts:
        for path in part.all_files:
            runs.setdefault(path, []).append(part.run_id)
            readers.setdefault(path, part.log.reader if path in part.files else "settings")
    return tuple(
        ReadFile(str(path), sha256(path), readers[path], tuple(runs[path])) for path in sorted(runs)
    )


def merge_notes(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes with equal ones joined: one remark for many runs.

    Examples
    --------
    >>> merge_notes([Note("a", "x", runs=("r1",)), Note("a", "x", runs=("r2",))])[0].runs
    ('r1', 'r2')
    """
    merged: dict[tuple[str, str], Note] = {}
    for note in notes:
        key = (note.code, note.message)
        before = merged.get(key)
        if before is None:
            merged[key] = note
            continue
        where = before.where if before.where == note.where else ""
        runs = tuple(dict.fromkeys((*before.runs, *note.runs)))
        merged[key] = replace(before, runs=runs, where=where, count=before.count + note.count)
    return tuple(merged.values())
