"""trackio: a database a project, with the metrics of each step as JSON.

Versions differ in what names a run: its id, or in older ones its name (with the project, where one
database held all of them). Nested metrics are joined by dots.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Log
from twoclock.sources.databases import Database
from twoclock.sources.json_rows import mapped_keys, parse
from twoclock.sources.rows import RowStore

MAX_RUNS = 10_000
_DEPTH = 8
_IDENTITY = ("project_name", "run_id", "run_name")

Mark = tuple[str, ...]


def is_trackio(database: Database) -> bool:
    """Tell whether a database is trackio's."""
    return database.has("metrics", "run_name", "step", "metrics")


def read_trackio(
    database: Database, path: Path, options: ReadOptions, notes: list[Note]
) -> list[Log]:
    """Read all runs of a project (or, in the oldest version, of all projects).

    Raises
    ------
    SourceError
        It is damaged, or has no metrics.
    """
    there = [name for name in _IDENTITY if name in database.tables["metrics"]]
    stores, started = _collect(database, path, there, options, notes)
    if not stores:
        msg = "no data: no run has metrics (yet)"
        raise SourceError(msg, where=str(path))
    configs = _configs(database, there)
    logs: list[Log] = []
    for mark, store in stores.items():
        named = dict(zip(there, mark, strict=True))
        log = Log(
            path,
            store.finish(),
            "trackio",
            name=named["run_name"],
            config=configs.get(mark, {}),
            key=named.get("run_id", ""),
            started=started[mark],
            files=(path,),
            notes=() if logs else tuple(notes),
        )
        logs.append(log)
    return logs


def _collect(
    database: Database, path: Path, there: list[str], options: ReadOptions, notes: list[Note]
) -> tuple[dict[Mark, RowStore], dict[Mark, float | None]]:
    """Return the rows of each run, and when its first was written."""
    stores: dict[Mark, RowStore] = {}
    started: dict[Mark, float | None] = {}
    bad = 0
    stamp = "timestamp" if database.has("metrics", "timestamp") else "NULL"
    query = f"SELECT {stamp}, step, metrics, {', '.join(there)} FROM metrics ORDER BY rowid"
    for time, step, text, *identity in database.rows(query):
        mark = tuple(str(part or "") for part in identity)
        row = _metrics(text)
        if row is None:
            bad += 1
            continue
        if mark not in stores:
            if len(stores) >= MAX_RUNS:
                msg = f"more than {MAX_RUNS:,} runs in one database"
                raise SourceError(msg, where=str(path))
            stores[mark] = RowStore(mapped_keys(options))
            started[mark] = _seconds(time)
        if isinstance(step, int):
            row.setdefault("step", step)
        stores[mark].add(row, stores[mark].count + 1)
    if bad:
        message = f"{bad} rows are not JSON objects and are left out"
        notes.append(Note("bad_lines", message, where=str(path), count=bad))
    return stores, started


def _metrics(text: Any) -> dict[str, Any] | None:
    """Return the metrics of a row, nested ones joined by dots; None if they are none."""
    value = _object(text)
    return None if value is None else dict(_flat(value, ""))


def _object(text: Any) -> dict[str, Any] | None:
    try:
        value = parse(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _flat(value: dict[str, Any], prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict) and "_type" not in item and depth < _DEPTH:
            yield from _flat(item, f"{name}.", depth + 1)
        else:
            yield name, item


def _configs(database: Database, there: list[str]) -> dict[Mark, dict[str, Any]]:
    """Return the configuration of each run; trackio's own entries begin with an underscore."""
    if not database.has("configs", "config", *there):
        return {}
    out: dict[Mark, dict[str, Any]] = {}
    for text, *identity in database.rows(f"SELECT config, {', '.join(there)} FROM configs"):
        config = _object(text) or {}
        own = {name: item for name, item in config.items() if not name.startswith("_")}
        out[tuple(str(part or "") for part in identity)] = flat_config(own)
        if len(out) >= MAX_RUNS:
            break
    return out


def _seconds(time: Any) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
