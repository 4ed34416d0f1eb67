"""Stored tables among fresh logs: what the user says about them, and the same run found twice.

Runs of stored tables are counted already: facts that only describe them are taken, those that
would change the counting are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.runs.deriving import clip_activity
from twoclock.runs.facts import TRL_FACTS
from twoclock.runs.sidecar import Given
from twoclock.runs.store import load_store
from twoclock.runs.tables import Runs, merge_notes, merge_refusals
from twoclock.schema import EVALS, PROBES, RUNS, STEPS, conform
from twoclock.sources.base import Fact, ReadFile

COUNTING = (
    "batch_size", "prompts_per_rollout", "minibatches", "epochs", "optimizer_steps_per_rollout",
    "run_id", *TRL_FACTS,
)  # fmt: skip
"""Facts that change the counting."""

_CLIPS = ("clip_low", "clip_high", "clip_dual")
_STEP_MARKS = ["rollout", "responses", "reward", "loss", "grad_norm"]
_EVAL_MARKS = ["responses", "metric", "accuracy"]


def read_stored(path: Path, given: Given, options: ReadOptions) -> Runs:
    """Return the runs of stored tables with what the user says about them.

    Parameters
    ----------
    path : Path
        Their `runs.parquet`.
    given : Given
        What `runs.yaml` says.
    options : ReadOptions
        The user's choices.

    Raises
    ------
    SourceError
        The tables are damaged, or something was given that would change the counting.
    """
    found = load_store(path)
    runs = found.runs.copy()
    facts = {**given.facts, **options.facts()}
    _refuse_counting(runs, facts, options, str(path))
    for name, value in facts.items():
        if name in RUNS.names and name not in COUNTING:
            _give(runs, name, value)
    if any(name in facts for name in _CLIPS) and "clip_active" not in facts:
        _judge_clipping(runs)
    evals = found.evals
    if "eval_size" in facts:
        evals = evals.assign(n=pd.array([facts["eval_size"]] * len(evals), dtype="Int64"))
    changed = replace(found, runs=conform(runs, RUNS, where=str(path)), evals=evals)
    if given.map or given.scale:
        message = "map and scale of runs.yaml do not reach stored tables, which are counted already"
        note = Note("stored_map", message, where=str(path))
        changed = replace(changed, notes=merge_notes([*found.notes, note]))
    return changed


def _refuse_counting(
    runs: pd.DataFrame, facts: Mapping[str, Any], options: ReadOptions, where: str
) -> None:
    """Raise for what was given and would change the counting, unless it changes nothing."""
    asked = [name for name in ("map", "scale", "on_reset") if getattr(options, name)]
    asked += ["duplicates"] if options.duplicates != "last" else []
    for name in COUNTING:
        if name in facts:
            same = name in runs.columns and bool((runs[name] == facts[name]).fillna(False).all())
            asked += [] if same else [name]
    if asked:
        names = ", ".join(asked)
        msg = f"holds runs that are counted already, so {names} cannot be given; read the logs"
        raise SourceError(msg, where=where)


def _give(runs: pd.DataFrame, name: str, value: Any) -> None:
    unlimited = value is None and name in (*_CLIPS, "grad_clip")
    runs[name] = pd.Series([np.inf if unlimited else value] * len(runs), index=runs.index)
    if RUNS[name].sourced:
        runs[f"{name}_from"] = pd.array(["user"] * len(runs), dtype="string")


def _judge_clipping(runs: pd.DataFrame) -> None:
    names = (*_CLIPS, "optimizer_steps_per_rollout")
    judged = []
    for record in runs.to_dict("records"):
        known = {n: Fact(record[n], "user") for n in names if pd.notna(record[n])}
        judged.append(clip_activity(known, synchronous=None).value)
    _give(runs, "clip_active", None)
    runs["clip_active"] = pd.array(judged, dtype="string")


def with_stored(fresh: Runs, stored: Sequence[tuple[Path, Runs]]) -> Runs:
    """Return the runs of fresh logs and stored tables together; a copy counts once.

    Parameters
    ----------
    fresh : Runs
        From logs; may have no runs.
    stored : sequence of (Path, Runs)
        Tables and where they lie.
    """
    if len(stored) == 1 and not len(fresh.runs) and not fresh.notes and not fresh.refused:
        return stored[0][1]
    parts = [fresh]
    notes: list[Note] = []
    for path, found in stored:
        kept, remarks = _new_ones(parts, found, path)
        notes += remarks
        parts.append(kept)
    return _joined(parts, notes)


def _new_ones(parts: Sequence[Runs], found: Runs, path: Path) -> tuple[Runs, list[Note]]:
    """Return the stored runs that are no copies, under names of their own."""
    seen: dict[tuple[Any, ...], list[tuple[Runs, str]]] = {}
    for part in parts:
        for key, run in _outlines(part):
            seen.setdefault(key, []).append((part, run))
    taken = {str(run) for part in parts for run in part.runs["run_id"]}
    copies, names = [], {}
    read_again = _of_same_files(parts, found)
    for key, run in _outlines(found):
        same = (_equal(part, other, found, run) for part, other in seen.get(key, ()))
        if run in read_again or any(same):
            copies.append(run)
            continue
        name, count = run, 1
        while name in taken:
            name = f"{path.parent.name}/{run}" + (f"#{count}" if count > 1 else "")
            count += 1
        taken.add(name)
        names[run] = name
    about = {note: tuple(run for run in note.runs if run in names) for note in found.notes}
    left = [replace(note, runs=about[note]) for note in found.notes if about[note] or not note.runs]
    kept = replace(found.select(names), notes=tuple(left))
    if any(run != name for run, name in names.items()):
        kept = _renamed(kept, names)
    remarks = []
    if copies:
        message = f"{len(copies)} stored runs are copies of runs that are read; each counts once"
        remarks = [Note("duplicate_run", message, tuple(copies), str(path), len(copies))]
    return kept, remarks


def _of_same_files(parts: Sequence[Runs], found: Runs) -> set[str]:
    """Return the stored runs whose logs are read as well: the same files, or what became of them.

    What is said of a log today, or was added to it, need not be in tables of yesterday.
    """
    now = {mark: file for part in parts for file in part.files for mark in (file.path, file.sha256)}
    where = {str(run): part for part in parts for run in part.runs["run_id"]}
    again: set[str] = set()
    for old in (file for file in found.files if file.reader != "settings"):
        new = now.get(old.sha256) or now.get(old.path)
        if new is None or len(new.run_ids) < len(old.run_ids):
            continue
        grown = new.sha256 != old.sha256
        for run in old.run_ids:
            rows = (
                _begins(where[other], other, found, run) for other in new.run_ids if other in where
            )
            if not grown or any(rows):
                again.add(run)
    return again


def _begins(one: Runs, run: str, other: Runs, copy: str) -> bool:
    """Tell whether the validations of a run begin with those of another."""
    longer, shorter = (
        t.loc[_of(t, name), _EVAL_MARKS].reset_index(drop=True)
        for t, name in ((one.evals, run), (other.evals, copy))
    )
    return len(shorter) > 0 and longer.iloc[: len(shorter)].equals(shorter)


def _outlines(found: Runs) -> list[tuple[tuple[Any, ...], str]]:
    """Return for each run what a copy of it would have in common, cheaply."""
    steps = found.steps.groupby("run_id")["responses"].agg(["size", "max"])
    evals = found.evals.groupby("run_id")["responses"].agg(["size", "max"])
    seeds = found.runs.set_index("run_id")[["batch_size", "seed"]]
    table = seeds.join(steps).join(evals, rsuffix="_evals").fillna(-1)
    return [(tuple(map(int, row)), str(run)) for run, *row in table.itertuples(name=None)]


def _equal(one: Runs, run: str, other: Runs, copy: str) -> bool:
    """Tell whether two runs have the same rows."""
    for marks, a, b in (
        (_EVAL_MARKS, one.evals, other.evals),
        (_STEP_MARKS, one.steps, other.steps),
    ):
        left, right = (
            t.loc[_of(t, name), marks].reset_index(drop=True) for t, name in ((a, run), (b, copy))
        )
        if not left.equals(right):
            return False
    return True


def _of(table: pd.DataFrame, run: str) -> npt.NDArray[np.bool_]:
    return (table["run_id"] == run).to_numpy(dtype=bool)


def _renamed(found: Runs, names: Mapping[str, str]) -> Runs:
    def tables(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(run_id=frame["run_id"].map(names).astype("string"))

    def runs(given: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(run, run) for run in given)

    return replace(
        found,
        runs=tables(found.runs),
        steps=tables(found.steps),
        evals=tables(found.evals),
        probes=tables(found.probes),
        notes=tuple(replace(note, runs=runs(note.runs)) for note in found.notes),
        files=tuple(replace(file, run_ids=runs(file.run_ids)) for file in found.files),
    )


def _joined(parts: Sequence[Runs], notes: Sequence[Note]) -> Runs:
    """Return several `Runs` as one, in the order of names."""
    runs = conform(_stacked([part.runs for part in parts]), RUNS)
    order = np.argsort(runs["run_id"].to_numpy(dtype=object), kind="stable")
    rank = {str(run): i for i, run in enumerate(runs["run_id"].to_numpy(dtype=object)[order])}

    def in_order(frames: list[pd.DataFrame]) -> pd.DataFrame:
        frame = _stacked(frames)
        places = frame["run_id"].map(rank).to_numpy(dtype=np.int64)
        return frame.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)

    files: dict[tuple[str, str], ReadFile] = {}
    for file in (file for part in parts for file in part.files):
        before = files.setdefault((file.path, file.sha256), file)
        both = tuple(dict.fromkeys((*before.run_ids, *file.run_ids)))
        files[file.path, file.sha256] = replace(before, run_ids=both)
    return Runs(
        runs.iloc[order].reset_index(drop=True),
        conform(in_order([part.steps for part in parts]), STEPS),
        conform(in_order([part.evals for part in parts]), EVALS),
        merge_notes([note for part in parts for note in part.notes] + list(notes)),
        tuple(merge_refusals(item for part in parts for item in part.refused)),
        tuple(sorted(files.values(), key=lambda file: file.path)),
        conform(in_order([part.probes for part in parts]), PROBES),
    )


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    return pd.concat(full, ignore_index=True) if full else frames[0].copy()
