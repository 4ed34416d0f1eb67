"""Copies and parts: the same run found twice counts once, one run in several files is joined."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from twoclock.notes import Note
from twoclock.runs.counting import Counted
from twoclock.runs.named import NamedLog
from twoclock.sources.base import Log
from twoclock.sources.rows import Rows
from twoclock.sources.text import content_sha256


@dataclass(frozen=True)
class Part:
    """A counted log under the name of its run.

    Parameters
    ----------
    run_id : str
        The run.
    log : Log
        What was read.
    counted : Counted
        Its tables.
    joined : bool
        The user gave the name: logs that share it are one run.
    extra_files : tuple of Path
        Settings files that were read for it.
    """

    run_id: str
    log: Log
    counted: Counted
    joined: bool = False
    extra_files: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the log."""
        return self.log.files or (self.log.path,)

    @property
    def all_files(self) -> tuple[Path, ...]:
        """Files of the log and the settings files read for it."""
        return (*self.files, *self.extra_files)


def drop_earlier_states(logs: list[NamedLog], notes: list[Note]) -> list[NamedLog]:
    """Return the logs without cumulative TRL states that a later one repeats.

    Every checkpoint of a run repeats the whole history. The state with the most steps stays; the
    others are copies if they lie in the same run folder or agree with it in every row.
    """
    states = sorted(
        (item.log for item in logs if item.log.reader == "trl"),
        key=lambda log: (-_last_step(log), str(log.path)),
    )
    kept = _States()
    dropped: set[int] = set()
    for log in states:
        match = kept.match(log)
        if match is None:
            kept.add(log)
            continue
        dropped.add(id(log))
        agrees = _is_beginning(log.rows, match.rows)
        told = "" if agrees else ", with which it disagrees"
        code = "earlier_checkpoint" if agrees else "checkpoints_disagree"
        message = f"left out: an earlier checkpoint of the run in {match.path}{told}"
        notes.append(Note(code, message, where=str(log.path)))
    return [item for item in logs if id(item.log) not in dropped]


def _last_step(log: Log) -> float:
    steps = log.rows.values.get("step")
    return float(steps.value[-1]) if steps is not None and len(steps.value) else 0.0


class _States:
    """States that are kept, found by their run folder or by how they begin."""

    def __init__(self) -> None:
        self._folders: dict[Path, Log] = {}
        self._beginnings: dict[bytes, list[Log]] = {}

    def add(self, log: Log) -> None:
        root = _run_folder(log.path)
        if root is not None:
            self._folders.setdefault(root, log)
        for power in range(1, log.rows.count.bit_length()):
            self._beginnings.setdefault(_beginning(log.rows, 2**power), []).append(log)

    def match(self, log: Log) -> Log | None:
        """Return the kept state of the same run, if there is one."""
        root = _run_folder(log.path)
        if root in self._folders:
            return self._folders[root]
        if log.rows.count < 2:
            return None
        likely = self._beginnings.get(_beginning(log.rows, 2 ** (log.rows.count.bit_length() - 1)))
        return next((k for k in likely or () if _is_beginning(log.rows, k.rows)), None)


def _beginning(rows: Rows, count: int) -> bytes:
    """Return a mark of the first rows."""
    mark = hashlib.sha256(str(count).encode())
    for key, values in sorted(rows.values.items()):
        at = values.at
        places = at[at < count].astype(np.int64)
        if len(places):
            mark.update(key.encode("utf-8", "surrogatepass"))
            mark.update(places.tobytes())
            mark.update(values.value[: len(places)].astype(np.float64).tobytes())
    return mark.digest()


def _run_folder(path: Path) -> Path | None:
    """Return the output folder of a TRL run, where the state lies as the trainer put it."""
    if path.name != "trainer_state.json":
        return None
    inside = path.parent.name.startswith("checkpoint-")
    return path.parent.parent if inside else path.parent


def _is_beginning(rows: Rows, longer: Rows) -> bool:
    """Tell whether all rows stand at the beginning of `longer`, in every key."""
    if rows.count > longer.count:
        return False
    for key, values in rows.values.items():
        other = longer.values.get(key)
        if other is None:
            return False
        n = int(np.searchsorted(other.at, rows.count))
        if n != len(values.at) or not np.array_equal(values.value, other.value[:n], equal_nan=True):
            return False
    return True


def drop_copies(parts: list[Part], notes: list[Note]) -> list[Part]:
    """Return the parts without those whose facts and file content equal an earlier one's."""
    kept: dict[str, Part] = {}
    for part in parts:
        mark = _fingerprint(part)
        first = kept.setdefault(mark, part)
        if first is not part:
            message = f"{part.log.path} is a copy of {first.log.path}; counted once"
            notes.append(Note("duplicate_run", message, runs=(first.run_id,)))
    return list(kept.values())


def tell_missing_seeds(parts: list[Part], notes: list[Note]) -> None:
    """Remark once on runs without a seed, which count as different seeds."""
    without = sorted(part.run_id for part in parts if "seed" not in part.counted.run)
    if len(without) > 1:
        message = f"{len(without)} runs log no seed; each counts as a seed of its own"
        notes.append(Note("missing_seed", message, runs=tuple(without)))


def tell_mixed_units(parts: list[Part], notes: list[Note]) -> None:
    """Remark on a metric that is a percentage in some runs and a fraction in others."""
    scales: dict[str, dict[bool, list[str]]] = {}
    for part in parts:
        percent = "rescaled_percent" in {note.code for note in part.counted.notes}
        if len(part.counted.evals):
            metric = str(part.counted.evals["metric"].iloc[0])
            scales.setdefault(metric, {}).setdefault(percent, []).append(part.run_id)
    for metric, runs in scales.items():
        if len(runs) == 2:
            message = f"{metric} is a percentage in {len(runs[True])} runs and a fraction in others"
            notes.append(Note("mixed_units", message, runs=tuple(sorted(runs[False]))))


def _fingerprint(part: Part) -> str:
    """Return a text that two parts share when they are copies: content, name, id and facts."""
    facts = {k: str(v) for k, v in part.counted.run.items() if k not in ("run_id", "source")}
    data = [content_sha256(path) for path in part.files if path.name != "run.json"]
    name = part.log.name if part.log.reader != "native" else ""
    return repr((sorted(facts.items()), data, name, part.log.key))


def join_parts(parts: list[Part], notes: list[Note]) -> list[Part]:
    """Return the parts with those that the user gave one name joined into one run.

    The part that begins later goes first where they overlap.
    """
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.run_id, []).append(part)
    out: list[Part] = []
    for run_id, group in groups.items():
        if len(group) == 1:
            out += group
        elif all(part.joined for part in group):
            out.append(_joined(group))
            notes += _disagreements(run_id, group)
            message = f"{len(group)} files are one run, as runs.yaml says"
            notes.append(Note("joined", message, runs=(run_id,)))
        else:
            for i, part in enumerate(group, start=1):
                out.append(part if i == 1 else replace(part, run_id=f"{run_id}#{i}"))
            notes.append(Note("same_name", f"{len(group)} runs are named {run_id}", runs=(run_id,)))
    return out


def _joined(group: list[Part]) -> Part:
    group = sorted(group, key=lambda part: (_begin(part.counted), str(part.log.path)))
    first = group[0]
    steps, evals, probes = first.counted.steps, first.counted.evals, first.counted.probes
    for part in group[1:]:
        steps = _overlaid(steps, part.counted.steps)
        evals = _overlaid(evals, part.counted.evals)
        probes = _overlaid(probes, part.counted.probes)
    run: dict[str, object] = {}
    for part in reversed(group):
        run.update(part.counted.run)
    notes = tuple(note for part in group for note in part.counted.notes)
    files = tuple(dict.fromkeys(path for part in group for path in part.files))
    counted = replace(first.counted, run=run, steps=steps, evals=evals, probes=probes, notes=notes)
    extra = tuple(dict.fromkeys(path for part in group for path in part.extra_files))
    return replace(first, log=replace(first.log, files=files), counted=counted, extra_files=extra)


def _disagreements(run_id: str, group: list[Part]) -> list[Note]:
    """Remark on what the parts of one run say differently about it."""
    notes = []
    for name in ("batch_size", "group_size", "lr", "seed", "model"):
        told = {str(p.counted.run[name]): p.log.path for p in group if name in p.counted.run}
        if len(told) > 1:
            values = ", ".join(f"{value} in {path}" for value, path in sorted(told.items()))
            message = f"{name} differs between the parts of one run: {values}"
            notes.append(Note("parts_disagree", message, runs=(run_id,)))
    return notes


def _begin(counted: Counted) -> float:
    starts = [float(f["responses"].min()) for f in (counted.steps, counted.evals) if len(f)]
    return min(starts, default=0.0)


def _overlaid(earlier: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    if not len(later) or not len(earlier):
        return later if len(later) else earlier
    kept: pd.DataFrame = earlier[earlier["responses"] < later["responses"].min()]
    return pd.concat([kept, later], ignore_index=True)
