"""Events tables: crossings that were measured elsewhere, one row a run, as CSV or Parquet.

Needs `batch_size` and either `responses` (exact) or `lower` and `upper` (equal: exact; lower 0 or
absent: left-censored; upper empty: right-censored). A `censoring` column (exact, left, right) says
what `responses` is: the event, a bound above it, or a bound below it. Columns of other names are
mapped by the user; a convention that the table does not state is not guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from twoclock.errors import SourceError
from twoclock.frameworks.patterns import matching
from twoclock.notes import Note, Refusal
from twoclock.reading import ReadOptions
from twoclock.schema import EVENTS, STRATUM_COLUMNS, conform
from twoclock.sources.base import ReadFile
from twoclock.sources.cells import number
from twoclock.sources.columns import ACCURACY, PLAIN_ACCURACY, SCORES, STEP_KEYS
from twoclock.sources.delimited import read_header, read_table
from twoclock.sources.event_rows import NUMBERS, TIMES, event_of, shown
from twoclock.sources.text import iter_lines, sha256

STRATA = (
    *STRATUM_COLUMNS, "prompts_per_rollout", "minibatches", "epochs", "lr", "grad_clip",
    "n_params", "clip_active",
)  # fmt: skip
"""Columns beside the events' own that strata and laws know."""

_OWN = (*EVENTS.names, "responses", "status")
_MAX_ROWS = 1_000_000

_MAY_CENSOR = ("event", "reached", "status", "censored", "observed")
"""Names under which tables of other tools keep a yes or no that tells caps from events."""

_YES_OR_NO = frozenset(("0", "1", "true", "false", "yes", "no"))


@dataclass(frozen=True)
class EventsTable:
    """An events table as it was read.

    Parameters
    ----------
    events : pandas.DataFrame
        `schema.EVENTS`, then every other column of the file.
    notes : tuple of Note
        Rows that were left out, columns that are ignored, copies.
    files : tuple of ReadFile
        The file.
    refused : tuple of Refusal
        Each row that was left out, and why.
    """

    events: pd.DataFrame
    notes: tuple[Note, ...]
    files: tuple[ReadFile, ...]
    refused: tuple[Refusal, ...] = ()


def is_events_table(path: Path, options: ReadOptions) -> bool:
    """Tell whether a file is an events table: batch sizes, event times, and no steps."""
    try:
        names = _header(path)
    except SourceError:
        return False
    known = list(_renamed(names, options).values())
    series = matching(
        (*STEP_KEYS, PLAIN_ACCURACY, *(key for tier in (*ACCURACY, *SCORES) for key in tier)), known
    )
    return "batch_size" in known and any(name in known for name in TIMES) and not series


def read_events_table(path: Path, options: ReadOptions) -> EventsTable:
    r"""Read an events table.

    Parameters
    ----------
    path : Path
        CSV (any dialect) or Parquet.
    options : ReadOptions
        ``map`` renames columns; ``seed`` and ``batch_size`` fill them where they are absent.

    Raises
    ------
    SourceError
        No row can be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "crossings.csv"
    ...     _ = file.write_text("batch_size,lower,upper\n64,100,200\n256,400,\n")
    ...     table = read_events_table(file, ReadOptions())
    >>> table.events[["batch_size", "lower", "upper", "censoring"]].values.tolist()
    [[64, 100.0, 200.0, 'interval'], [256, 400.0, inf, 'right']]
    """
    notes: list[Note] = []
    raw = _rows(path, notes)
    names = _renamed(list(raw[0][1]) if raw else [], options)
    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []
    for line, cells in raw:
        row = {names[name]: value for name, value in cells.items() if name in names}
        try:
            rows.append(event_of(row, len(rows) + 1, options))
        except ValueError as err:
            bad.append((line, str(err)))
    for line, why in bad:
        notes.append(Note("bad_row", f"row {line}: {why}; row left out", where=str(path)))
    if not rows:
        first = "no usable event: row {}: {}".format(*bad[0]) if bad else ""
        raise SourceError(first or "no data: the table has no rows", where=str(path))
    _tell_possible_censoring(names, raw, path, notes)
    rows = _without_copies(rows, path, notes)
    _unique_ids(rows, path, notes)
    _tell_ignored(names.values(), path, notes)
    frame = conform(_numbers(pd.DataFrame(rows)), EVENTS, where=str(path))
    file = ReadFile(str(path), sha256(path), "events", tuple(frame["run_id"]))
    refused = tuple(Refusal(f"{path} row {line}", why) for line, why in bad)
    return EventsTable(frame, tuple(notes), (file,), refused)


def suggest_map(path: Path) -> str:
    """Return the options that would read a file as an events table, or "" where none suggest it.

    Its columns must look like a batch size and a number of responses; the file is not read.
    """
    try:
        header = _header(path)
    except SourceError:
        return ""
    size = next((name for name in header if "batch" in name.lower()), None)
    words = ("responses", "samples")
    when = next((n for n in header if n != size and any(w in n.lower() for w in words)), None)
    if size is None or when is None:
        return ""
    pairs = (("batch_size", size), ("responses", when))
    return " ".join(f"--map {column}={name}" for column, name in pairs if column != name)


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the columns of unknown names as numbers where all cells are."""
    for name in frame.columns:
        if name in NUMBERS or name in _OWN or name in STRATA:
            continue
        parsed = [math.nan if cell is None else number(cell) for cell in frame[name]]
        if all(isinstance(value, float) for value in parsed):
            frame[name] = np.array(parsed, dtype=float)
    return frame


def _header(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        try:
            return [str(name) for name in pq.read_schema(path).names]
        except (OSError, ValueError, NotImplementedError) as err:
            raise SourceError(str(err), where=str(path)) from err
    if not _is_text(path):
        return []
    return read_header(path)


def _is_text(path: Path) -> bool:
    first = next((raw for _, raw in iter_lines(path, [])), b"")
    return not first.lstrip().startswith((b"{", b"[")) and b"\0" not in first


def _renamed(header: list[str], options: ReadOptions) -> dict[str, str]:
    """Return the table's name of each column of the file; mapped columns go first."""
    names = {name: name for name in header}
    for column, keys in options.map.items():
        found = next((key for key in keys if key in header), None)
        if found is not None and found != column:
            names.pop(column, None)
            names[found] = column
    if "run" in names and "run_id" not in names.values():
        names["run"] = "run_id"
    return names


def _rows(path: Path, notes: list[Note]) -> list[tuple[int, dict[str, Any]]]:
    if path.suffix.lower() == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except (OSError, ValueError, NotImplementedError) as err:
            msg = f"cannot be read as Parquet ({err})"
            raise SourceError(msg, where=str(path)) from err
        frame = frame.astype(object).where(frame.notna(), None)
        return [
            (i, {str(k): v for k, v in r.items()})
            for i, r in enumerate(frame.to_dict("records"), start=1)
        ]
    rows: list[tuple[int, dict[str, Any]]] = []
    for line, header, cells in read_table(path, notes):
        rows.append((line, dict(zip(header, cells, strict=True))))
        if len(rows) > _MAX_ROWS:
            msg = f"more than {_MAX_ROWS} rows"
            raise SourceError(msg, where=str(path))
    return rows


def _without_copies(
    rows: list[dict[str, Any]], path: Path, notes: list[Note]
) -> list[dict[str, Any]]:
    """Return the rows without those that repeat another's seed (or run) and all its values."""
    seen: dict[str, dict[str, Any]] = {}
    kept: list[dict[str, Any]] = []
    for index, row in enumerate(rows, start=1):
        named = row.get("seed") is not None or row["run_id"] != f"row{index}"
        values = {k: v for k, v in row.items() if not (k == "run_id" and v == f"row{index}")}
        first = seen.setdefault(repr(sorted(values.items(), key=str)), row)
        if named and first is not row:
            message = f"{row['run_id']} repeats {first['run_id']} in every column; counted once"
            notes.append(Note("duplicate_run", message, (first["run_id"],), str(path)))
            continue
        kept.append(row)
    return kept


def _unique_ids(rows: list[dict[str, Any]], path: Path, notes: list[Note]) -> None:
    """Give rows of one clock and target distinct run_ids, which the table may repeat over B."""
    count: dict[tuple[Any, ...], int] = {}
    renamed: list[str] = []
    for row in rows:
        key = (row["run_id"], row["clock"], row.get("target"))
        count[key] = count.get(key, 0) + 1
        if count[key] > 1:
            renamed.append(row["run_id"])
            row["run_id"] = f"{row['run_id']}#{count[key]}"
    if renamed:
        message = f"{len(renamed)} rows share a run name ({renamed[0]}); told apart by #2, #3, ..."
        notes.append(Note("same_name", message, where=str(path), count=len(renamed)))


def _tell_possible_censoring(
    names: dict[str, str], raw: list[tuple[int, dict[str, Any]]], path: Path, notes: list[Note]
) -> None:
    """Warn of a yes-or-no column that may tell caps from events: it is not guessed which."""
    known = set(names.values())
    if "responses" not in known or known & {"lower", "upper", "censoring"}:
        return
    for key, name in names.items():
        if name.lower() not in _MAY_CENSOR:
            continue
        words = {shown(cells[key]).strip().lower() for _, cells in raw if cells[key] is not None}
        words -= {""}
        if words and words <= _YES_OR_NO:
            message = (
                f"column {key!r} may say which runs were only capped, and every row counts as an "
                "event: capped runs taken for events bias the exponent. State it in a column "
                "censoring (exact, right or left), or give lower and upper instead of responses"
            )
            notes.append(Note("possible_censoring_column", message, where=str(path)))


def _tell_ignored(names: Any, path: Path, notes: list[Note]) -> None:
    ignored = [name for name in names if name not in _OWN and name not in STRATA and name]
    if ignored:
        message = f"columns that make no strata: {', '.join(ignored)} (--by COLUMN to use one)"
        notes.append(Note("ignored_columns", message, where=str(path)))
