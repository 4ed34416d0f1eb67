"""Parquet: tables of foreign rows, and the folder of tables that `twoclock convert` writes.

A null is "not logged", as tables of many keys are mostly null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.schema import EVALS, PROVENANCE, RUNS, STEPS
from twoclock.sources.base import Fact, Head, Log, Reader, Source
from twoclock.sources.json_rows import logs_of, run_stores
from twoclock.sources.native import (
    EVAL_COLUMNS,
    PROBE_KEYS,
    SERIES,
    STEP_COLUMNS,
    native_row,
)
from twoclock.sources.packed import unpacked
from twoclock.sources.rows import RowStore

MAGIC = b"PAR1"
TABLES = ("runs.parquet", "steps.parquet", "evals.parquet")
PROBE_TABLE = "probes.parquet"
"""Beside them where the runs have probes."""


def iter_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file without their nulls.

    Raises
    ------
    SourceError
        It cannot be read.
    """
    try:
        with unpacked(path, []) as plain, pq.ParquetFile(plain) as file:
            names = file.schema_arrow.names
            if len(set(names)) != len(names):
                msg = "two columns have one name"
                raise SourceError(msg, where=str(path))
            for batch in file.iter_batches(batch_size=8192):
                for row in batch.to_pylist():
                    yield {str(k): v for k, v in row.items() if v is not None}
    except (OSError, ValueError, NotImplementedError, pa.ArrowException) as err:
        first = " ".join(str(err).split())[:200]
        msg = f"cannot be read as Parquet ({first})"
        raise SourceError(msg, where=str(path)) from err


def read_parquet(path: Path, options: ReadOptions) -> list[Log]:
    """Read a Parquet table of rows."""
    notes: list[Note] = []
    stores = run_stores(options)
    for index, row in enumerate(iter_rows(path), start=1):
        stores.add(row, index)
    return logs_of(path, stores, notes, "parquet")


def read_tables(path: Path, options: ReadOptions) -> list[Log]:
    """Read the tables that twoclock wrote, given the `runs.parquet` among them.

    A `probes.parquet` beside them is read too.

    Raises
    ------
    SourceError
        A table cannot be read, or no run has rows.
    """
    del options  # names and units are the schema's own here
    files = tuple(path.parent / name for name in TABLES)
    kinds = ["train", "eval"]
    if (path.parent / PROBE_TABLE).is_file():
        files, kinds = (*files, path.parent / PROBE_TABLE), [*kinds, "probe"]
    stores: dict[str, RowStore] = {}
    scales: dict[str, dict[str, str]] = {}
    keys = (*STEPS.names, *EVALS.names, *PROBE_KEYS)
    for kind, file in zip(kinds, files[1:], strict=True):
        for index, row in enumerate(iter_rows(file), start=1):
            run_id = str(row.pop("run_id", ""))
            store = stores.setdefault(run_id, RowStore(keys, prefix=SERIES))
            kept = native_row({**row, "kind": kind}, scales.setdefault(run_id, {}))
            store.add(kept, index)
    logs: list[Log] = []
    for run in iter_rows(path):
        run_id = str(run.get("run_id", ""))
        if run_id in stores:
            logs.append(_log(path, run_id, run, stores[run_id], scales[run_id], files))
    if not logs:
        msg = "no data: no run has steps or evals"
        raise SourceError(msg, where=str(path))
    return logs


def _log(
    path: Path, run_id: str, run: Mapping[str, Any], store: RowStore, scales: Mapping[str, str],
    files: tuple[Path, ...],
) -> Log:  # fmt: skip
    return Log(
        path,
        store.finish(),
        "tables",
        name=run_id,
        framework=str(run["framework"]) if run.get("framework") else None,
        facts=dict(_facts(run)),
        columns={**STEP_COLUMNS, **EVAL_COLUMNS, "step": ("rollout",)},
        metrics=tuple(scales),
        scales=scales,
        files=files,
    )


def _facts(run: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    for name, value in run.items():
        if name in ("run_id", "framework", "source") or name.endswith("_from"):
            continue
        source = run.get(f"{name}_from")
        known = cast(Source, source if source in PROVENANCE else "log")
        if name in RUNS.names or isinstance(value, str | int | float):
            yield name, Fact(value, known)


def _sniff(head: Head) -> bool:
    return head.data.startswith(MAGIC)


def _sniff_tables(head: Head) -> bool:
    here = head.path.parent
    return (
        head.data.startswith(MAGIC)
        and head.path.name == TABLES[0]
        and all((here / name).is_file() for name in TABLES)
    )


PARQUET = Reader("parquet", _sniff, read_parquet)
TABLES_READER = Reader("tables", _sniff_tables, read_tables)
