"""Tables on disk: what was read, as Parquet, written and read back without any loss.

`runs.parquet` holds remarks, refusals and original files in its metadata, and the checksums of the
other tables, so that tables of different calls are never taken for one another's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from twoclock.errors import SourceError
from twoclock.notes import Note, Refusal, printable
from twoclock.runs.tables import Runs
from twoclock.schema import EVALS, PROBES, RUNS, STEPS, Table, empty
from twoclock.sources.base import ReadFile
from twoclock.sources.parquet import PROBE_TABLE, TABLES
from twoclock.sources.text import sha256

FORMAT = "twoclock-tables/1"
READER = "tables"
_KEY = b"twoclock"
_DTYPE = b"dtype"
_PLAIN = ("string", "Int64", "float64", "boolean", "int64", "bool")
"""Types that Parquet keeps; values of others are written as JSON."""

_BROKEN = (
    OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError,
    NotImplementedError, pa.ArrowException,
)  # fmt: skip
"""What reading a damaged or made-up table can raise."""


def is_stored(path: Path) -> bool:
    """Tell whether a file is a table that `write_store` wrote."""
    if path.suffix != ".parquet":
        return False
    try:
        return _KEY in (pq.read_metadata(path).metadata or {})
    except _BROKEN:
        return False


def write_store(found: Runs, folder: str | Path) -> list[Path]:
    """Write what was read into a folder; an earlier result of this function is replaced.

    The same runs give the same bytes. Each file appears whole or not at all, `runs.parquet` last.

    Parameters
    ----------
    found : Runs
        From `read_runs`.
    folder : str or Path
        Where the tables go; made if it is not there.

    Returns
    -------
    list of Path
        The files: runs, steps and evals, and probes where there are any.

    Raises
    ------
    SourceError
        A file with the name of a table is not one of ours.
    """
    folder = Path(folder)
    names = (*TABLES, PROBE_TABLE)
    for name in names:
        if (folder / name).exists() and not is_stored(folder / name):
            msg = "exists and was not written by twoclock convert; give another --out"
            raise SourceError(msg, where=str(folder / name))
    folder.mkdir(parents=True, exist_ok=True)
    frames = {"steps.parquet": found.steps, "evals.parquet": found.evals}
    if len(found.probes):
        frames[PROBE_TABLE] = found.probes
    sums = {name: _replace(folder / name, _table(frame, {})) for name, frame in frames.items()}
    _replace(folder / TABLES[0], _table(found.runs, _about(found, sums)))
    if PROBE_TABLE not in frames:
        (folder / PROBE_TABLE).unlink(missing_ok=True)
    return [folder / name for name in names if (folder / name).exists()]


def _replace(path: Path, table: Any) -> str:
    """Write a table under another name, then give it its own; return its checksum."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, waiting, compression="zstd")
        digest = sha256(waiting)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
    return digest


def _about(found: Runs, sums: Mapping[str, str]) -> dict[str, Any]:
    return {
        "notes": [dataclasses.asdict(note) for note in found.notes],
        "refused": [dataclasses.asdict(item) for item in found.refused],
        "files": [dataclasses.asdict(f) for f in found.files if f.reader != READER],
        "tables": dict(sums),
    }


def _table(frame: pd.DataFrame, about: Mapping[str, Any]) -> Any:
    """Return a frame as an Arrow table that remembers the types of its columns."""
    fields, columns = [], []
    for name in frame.columns:
        values = frame[name]
        kind = str(values.dtype)
        if kind == "float64":
            column = pa.array(values.to_numpy(), from_pandas=False)  # NaN stays NaN, not null
        elif kind in _PLAIN:
            column = pa.array(values, from_pandas=True)
        else:
            column = pa.array([_packed(value) for value in values], pa.string())
        fields.append(pa.field(str(name), column.type, metadata={_DTYPE: kind.encode()}))
        columns.append(column)
    text = json.dumps({"format": FORMAT, **about}, default=_plain, sort_keys=True)
    return pa.table(columns, schema=pa.schema(fields, metadata={_KEY: text.encode()}))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _packed(value: Any) -> str | None:
    return None if value is pd.NA else json.dumps(value, default=_plain)


def load_store(path: Path) -> Runs:
    """Read the tables of a folder, given its `runs.parquet`.

    Raises
    ------
    SourceError
        A table is missing, damaged, of another call, or not the one that stands for the folder.
    """
    where = str(path)
    if path.name != TABLES[0]:
        msg = f"is one of the tables that twoclock wrote; give the folder with {TABLES[0]}"
        raise SourceError(msg, where=where)
    try:
        data = path.read_bytes()
        table = pq.read_table(pa.BufferReader(data))
        about = json.loads(table.schema.metadata[_KEY])
        if about.get("format") != FORMAT:
            msg = f"format is {printable(str(about.get('format')))!r}, must be {FORMAT!r}"
            raise SourceError(msg, where=where)
        sums = {TABLES[0]: hashlib.sha256(data).hexdigest(), **about["tables"]}
        frames = {name: _checked(path.with_name(name), s) for name, s in about["tables"].items()}
        runs = _frame(table, RUNS)
        return Runs(
            runs,
            frames["steps.parquet"],
            frames["evals.parquet"],
            tuple(Note(**{**note, "runs": tuple(note["runs"])}) for note in about["notes"]),
            tuple(_refusal(item) for item in about["refused"]),
            (*(_read_file(item) for item in about["files"]), *_own_files(path, sums, runs)),
            frames.get(PROBE_TABLE, empty(PROBES)),
        )
    except _BROKEN as err:
        first = " ".join(str(err).split())[:200]
        msg = f"cannot be read as tables of twoclock ({first}); run twoclock convert again"
        raise SourceError(msg, where=where) from err


def _checked(path: Path, expected: str) -> pd.DataFrame:
    """Return a table beside `runs.parquet`, once it is known to belong to it."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != expected:
        msg = "does not belong to the runs.parquet beside it; run twoclock convert again"
        raise SourceError(msg, where=str(path))
    return _frame(pq.read_table(pa.BufferReader(data)), _SCHEMAS[path.name])


def _frame(table: Any, schema: Table) -> pd.DataFrame:
    """Return an Arrow table as a frame, which has the columns of the schema in their types."""
    columns = {
        field.name: _series(table.column(i), (field.metadata or {})[_DTYPE].decode())
        for i, field in enumerate(table.schema)
    }
    frame = pd.DataFrame(columns, copy=False)
    expected = empty(schema).dtypes
    wrong = [name for name in schema.names if frame[name].dtype != expected[name]]
    if wrong:
        msg = f"column {wrong[0]} of {schema.name} has the wrong type"
        raise ValueError(msg)
    return frame


_SCHEMAS = {"steps.parquet": STEPS, "evals.parquet": EVALS, PROBE_TABLE: PROBES}


def _series(column: Any, kind: str) -> Any:
    if kind == "float64":
        return column.to_numpy()
    if kind == "string":
        coded = column.dictionary_encode().combine_chunks()
        words = np.array([*coded.dictionary.to_pylist(), pd.NA], dtype=object)
        return pd.array(words[coded.indices.fill_null(len(words) - 1).to_numpy()], dtype="string")
    if kind in _PLAIN:
        return column.to_pandas(types_mapper=_TYPES.get).astype(kind)
    loaded = [pd.NA if text is None else json.loads(text) for text in column.to_pylist()]
    return pd.Series(loaded, dtype=object)


_TYPES = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def _refusal(item: Mapping[str, Any]) -> Refusal:
    keys = {name: tuple(found) for name, found in item["candidates"].items()}
    return Refusal(item["path"], item["reason"], tuple(item["facts"]), keys, item["known"])


def _read_file(item: Mapping[str, Any]) -> ReadFile:
    return ReadFile(item["path"], item["sha256"], item["reader"], tuple(item["run_ids"]))


def _own_files(path: Path, sums: Mapping[str, str], runs: pd.DataFrame) -> list[ReadFile]:
    names = tuple(str(name) for name in runs["run_id"])
    return [ReadFile(str(path.with_name(n)), s, READER, names) for n, s in sums.items()]
