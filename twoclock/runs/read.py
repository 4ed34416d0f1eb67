"""The door: find log files, read each with the reader that knows it, count, leave out copies.

Nothing is dropped silently: what is not used is a refusal with its reason, what is repaired or
doubted is a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twoclock.errors import MissingFacts, NoUsableRuns, SourceError, TableError
from twoclock.notes import Note, Refusal
from twoclock.progress import Progress
from twoclock.reading import ReadOptions
from twoclock.runs.configs import Configs
from twoclock.runs.copies import (
    Part,
    drop_copies,
    drop_earlier_states,
    join_parts,
    tell_missing_seeds,
    tell_mixed_units,
)
from twoclock.runs.counting import count_run
from twoclock.runs.dumps import Dumps, begins_with_responses, is_dump
from twoclock.runs.finding import Found, find_files
from twoclock.runs.identify import OWN_FORMATS, identify, with_settings
from twoclock.runs.joining import Joiner
from twoclock.runs.named import NamedLog
from twoclock.runs.naming import name_runs
from twoclock.runs.places import Place
from twoclock.runs.remote import fetched
from twoclock.runs.sampling import tell_sampled
from twoclock.runs.sidecar import Sidecars
from twoclock.runs.store import is_stored
from twoclock.runs.stored import read_stored, with_stored
from twoclock.runs.tables import Runs, assemble, merge_refusals
from twoclock.sources import find_reader
from twoclock.sources.base import Head
from twoclock.sources.events_table import (
    EventsTable,
    is_events_table,
    read_events_table,
    suggest_map,
)
from twoclock.sources.rows import NO_ROWS
from twoclock.sources.text import read_head

_NO_OPTIONS = ReadOptions()


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
        Folders, searched for logs, and files; also addresses (``s3://bucket/logs``).
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
    with fetched(given, options.max_download, progress) as place:
        return place.named(read_place(place, options, progress=progress))


def read_place(place: Place, options: ReadOptions, *, progress: Progress | None = None) -> Runs:
    """Read every run log at a place on this machine; see `read_runs`."""
    found, refused = find_files(place.paths)
    refused = [*place.refused, *refused]
    sidecars = Sidecars()
    dumps = Dumps()
    logs: list[NamedLog] = []
    stored: list[tuple[Path, Runs]] = []
    for done, file in enumerate(found):
        if progress is not None:
            progress(done, len(found), str(file.path))
        try:
            if is_stored(file.path):
                given_for = sidecars.for_log(file.path, file.root)
                stored.append((file.path, read_stored(file.path, given_for, options)))
                continue
            logs += _read(file, options, sidecars, dumps, refused)
        except SourceError as err:
            refused.append(_refusal(file.path, err))
    if progress is not None:
        progress(len(found), len(found), "")
    refused += dumps.refusals()
    notes = sidecars.unused_notes()
    logs = _runs_of(drop_earlier_states(logs, notes), notes)
    parts = _count_all(logs, refused)
    parts = join_parts(drop_copies(parts, notes), notes)
    tell_mixed_units(parts, notes)
    tell_missing_seeds(parts, notes)
    refused = merge_refusals(refused)
    if not parts and not stored:
        raise _nothing(place.given, refused)
    fresh = assemble(parts, notes, refused)
    return with_stored(fresh, stored) if stored else fresh


def _read(
    file: Found, options: ReadOptions, sidecars: Sidecars, dumps: Dumps, refused: list[Refusal]
) -> list[NamedLog]:
    """Return the logs in a file, each with the options and facts that the user gave for it."""
    head = Head(file.path, read_head(file.path))
    if not head.data.strip(b"\0 \t\r\n\f\v"):  # zeros are what a crash of the machine leaves
        msg = f"no data: the file is {'full of zero bytes' if head.data.strip() else 'empty'}"
        raise SourceError(msg, where=str(file.path))
    reader = find_reader(head)
    if reader is None:
        if file.listed:
            reason = "no metrics: not a log format that is known"
            refused.append(Refusal(str(file.path), reason))
        return []
    if reader.name in ("csv", "parquet") and is_events_table(file.path, options):
        msg = "is an events table, not a run log; give it to fit by itself"
        raise SourceError(msg, where=str(file.path))
    if begins_with_responses(head, reader.name):
        dumps.add(file.path)
        return []
    given = sidecars.for_log(file.path, file.root)
    merged = replace(
        options, map={**given.map, **options.map}, scale={**given.scale, **options.scale}
    )
    facts = {**given.facts, **options.facts()}
    logs = [tell_sampled(log) for log in reader.read(file.path, merged)]
    if reader.name not in OWN_FORMATS and any(is_dump(log.rows.names) for log in logs):
        dumps.add(file.path)
        return []
    return [NamedLog(file, log, facts, merged, given.files) for log in logs]


def _runs_of(logs: list[NamedLog], notes: list[Note]) -> list[NamedLog]:
    """Return one log for each run: its framework recognised, its settings read, its parts joined.

    Logs to which the user gave one name are joined by that name, after counting.
    """
    joiner = Joiner(notes)
    logs = [item.with_log(identify(item.log, item.framework)) for item in logs]
    logs = joiner.halves(logs)
    configs = Configs(item.log for item in logs)
    given = [item.with_log(configs.give(item.log, item.file.root)) for item in logs]
    notes += configs.notes()
    joined = joiner.parts([i.with_log(with_settings(i.log, i.framework)) for i in given])
    notes += configs.doubts(item.log for item in joined)
    return joined


def _refusal(path: Path, err: SourceError) -> Refusal:
    where = err.where if err.where.startswith(str(path)) else str(path)
    if isinstance(err, MissingFacts):
        return Refusal(where, err.reason, err.facts, err.candidates, err.known)
    return Refusal(where, err.reason)


def _with_events_hint(refusal: Refusal, item: NamedLog) -> Refusal:
    """Return the refusal of a table without steps, with how to read it as events if it may be."""
    if "rollout" not in refusal.facts or item.log.reader not in ("csv", "parquet"):
        return refusal
    options = suggest_map(item.log.path)
    if not options:
        return refusal
    hint = f"; if each row is a run that was measured elsewhere, fit it as events: {options}"
    return replace(refusal, reason=refusal.reason + hint)


def _count_all(logs: list[NamedLog], refused: list[Refusal]) -> list[Part]:
    """Count each log that gives a run, under its name; refuse the others.

    The list is emptied on the way, and the parts have no rows: once counted, they are let go.
    """
    names = name_runs([(item.file, item.log) for item in logs])
    parts: list[Part] = []
    for name in names:
        item = logs.pop(0)
        facts = dict(item.facts)
        given_name = facts.pop("run_id", None)
        try:
            counted = count_run(item.log, facts, item.options)
        except (SourceError, TableError) as err:
            reason = err if isinstance(err, SourceError) else SourceError(str(err))
            refused.append(_with_events_hint(_refusal(item.log.path, reason), item))
            continue
        run_id = str(given_name or name)
        log = replace(item.log, rows=NO_ROWS)
        parts.append(Part(run_id, log, counted, given_name is not None, item.settings))
        del item
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
    pairs = tuple((r.path, r.reason) for r in refused)
    return NoUsableRuns(msg, refused=pairs, details=tuple(refused))
