"""MLflow in a database: every run in it is a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Log
from twoclock.sources.databases import Database
from twoclock.sources.json_rows import mapped_keys
from twoclock.sources.plain_values import plain_value
from twoclock.sources.points import Points, rows_of, whole_step

LARGEST = 1.7976931348623157e308
"""What MLflow's databases hold in place of infinity."""

ENDED = {"FINISHED": "completed", "FAILED": "crashed", "KILLED": "stopped"}
"""How a run ended, by MLflow's status."""

MAX_RUNS = 10_000


def is_mlflow(database: Database) -> bool:
    """Tell whether a database is MLflow's."""
    return database.has("runs", "run_uuid") and database.has("metrics", "key", "run_uuid", "value")


def read_mlflow_db(
    database: Database, path: Path, options: ReadOptions, notes: list[Note]
) -> list[Log]:
    """Read all runs of MLflow's database that are not deleted.

    Raises
    ------
    SourceError
        It is damaged, or has no metrics.
    """
    wanted = ("run_uuid", "name", "status", "start_time", "lifecycle_stage", "experiment_id")
    there = [name for name in wanted if name in database.tables["runs"]]
    query = f"SELECT {', '.join(there)} FROM runs ORDER BY run_uuid LIMIT {MAX_RUNS + 1}"
    runs = [dict(zip(there, row, strict=True)) for row in database.rows(query)]
    if len(runs) > MAX_RUNS:
        msg = f"more than {MAX_RUNS:,} runs in one database"
        raise SourceError(msg, where=str(path))
    kept = [run for run in runs if run.get("lifecycle_stage") != "deleted"]
    if len(kept) < len(runs):
        left = len(runs) - len(kept)
        message = f"{left} runs that are deleted in MLflow are left out"
        notes.append(Note("deleted_runs", message, where=str(path), count=left))
    steps = ", step" if database.has("metrics", "step") else ", 0"
    nans = ", is_nan" if database.has("metrics", "is_nan") else ", 0"
    select = f"SELECT key, value{steps}{nans} FROM metrics WHERE run_uuid = ? ORDER BY timestamp"
    logs = [_log(database, path, run, select, options) for run in kept]
    found = [log for log in logs if log.rows.count]
    if not found:
        msg = f"no data: none of its {len(runs)} runs has metrics that are known"
        raise SourceError(msg, where=str(path))
    if len(found) < len(logs):
        left = len(logs) - len(found)
        message = f"{left} runs have no metrics that are known and are left out"
        notes.append(Note("no_metrics", message, where=str(path), count=left))
    return [replace(found[0], notes=(*notes, *found[0].notes)), *found[1:]]


def _log(
    database: Database, path: Path, run: Mapping[str, Any], select: str, options: ReadOptions
) -> Log:
    """Return the log of a run."""
    run_id = str(run["run_uuid"])
    points = Points(mapped_keys(options))
    bad = 0
    for order, (key, value, step, nan) in enumerate(database.rows(select, (run_id,))):
        number, at = _number(value, nan), whole_step(step)
        if number is None or at is None:
            bad += 1
        else:
            points.add(str(key), at, number, order)
    name = str(run.get("name") or "") or _run_name(database, run_id)
    message = f"{bad} metrics of run {name or run_id} are not numbers and are left out"
    notes = (Note("not_a_number", message, where=str(path), count=bad),) if bad else ()
    rows, _ = rows_of([points])
    ended = ENDED.get(str(run.get("status")))
    started = run.get("start_time")
    return Log(
        path,
        rows,
        "mlflow",
        name=name,
        config=_params(database, run_id),
        key=run_id,
        started=started / 1000 if isinstance(started, int) else None,
        facts={"ended": Fact(ended, "log")} if ended else {},
        files=(path,),
        notes=notes,
    )


def _number(value: Any, nan: Any) -> float | None:
    """Return the number that MLflow was given; infinity is stored as the largest number."""
    if nan:
        return math.nan
    if not isinstance(value, int | float):
        return None
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else float(value)


def _run_name(database: Database, run_id: str) -> str:
    """Return the name of a run, which older versions kept as a tag."""
    if not database.has("tags", "key", "value", "run_uuid"):
        return ""
    query = "SELECT value FROM tags WHERE run_uuid = ? AND key = 'mlflow.runName'"
    return next((str(value) for (value,) in database.rows(query, (run_id,)) if value), "")


def _params(database: Database, run_id: str) -> dict[str, Any]:
    if not database.has("params", "key", "value", "run_uuid"):
        return {}
    query = "SELECT key, value FROM params WHERE run_uuid = ?"
    pairs = list(database.rows(query, (run_id,)))
    return flat_config({str(key): plain_value(value) for key, value in pairs})
