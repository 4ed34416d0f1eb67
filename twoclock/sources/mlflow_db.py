"""MLflow in a database: every run in it is a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    # one pass for all runs: the databases of old versions have no index to find those of one
    select = f"SELECT run_uuid, key, value{steps}{nans} FROM metrics ORDER BY timestamp"
    metrics = {str(run["run_uuid"]): _Metrics(Points(mapped_keys(options))) for run in kept}
    for order, (run_id, *metric) in enumerate(database.rows(select)):
        if str(run_id) in metrics:
            metrics[str(run_id)].add(*metric, order=order)
    names, params = _run_names(database), _params(database)
    logs = [_log(path, run, metrics, names, params) for run in kept]
    found = [log for log in logs if log.rows.count]
    if not found:
        msg = f"no data: none of its {len(runs)} runs has metrics that are known"
        raise SourceError(msg, where=str(path))
    if len(found) < len(logs):
        left = len(logs) - len(found)
        message = f"{left} runs have no metrics that are known and are left out"
        notes.append(Note("no_metrics", message, where=str(path), count=left))
    return [replace(found[0], notes=(*notes, *found[0].notes)), *found[1:]]


@dataclass
class _Metrics:
    """The metrics of a run, and how many are no numbers."""

    points: Points
    bad: int = 0

    def add(self, key: Any, value: Any, step: Any, nan: Any, *, order: int) -> None:
        """Keep a metric."""
        number, at = _number(value, nan), whole_step(step)
        if number is None or at is None:
            self.bad += 1
        else:
            self.points.add(str(key), at, number, order)


def _log(
    path: Path,
    run: Mapping[str, Any],
    metrics: Mapping[str, _Metrics],
    names: Mapping[str, str],
    params: Mapping[str, Mapping[str, Any]],
) -> Log:
    """Return the log of a run."""
    run_id = str(run["run_uuid"])
    bad = metrics[run_id].bad
    name = str(run.get("name") or "") or names.get(run_id, "")
    message = f"{bad} metrics of run {name or run_id} are not numbers and are left out"
    notes = (Note("not_a_number", message, where=str(path), count=bad),) if bad else ()
    rows, _ = rows_of([metrics[run_id].points])
    ended = ENDED.get(str(run.get("status")))
    started = run.get("start_time")
    return Log(
        path,
        rows,
        "mlflow",
        name=name,
        config=flat_config(params.get(run_id, {})),
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


def _run_names(database: Database) -> dict[str, str]:
    """Return the names of runs, which older versions kept as tags."""
    if not database.has("tags", "key", "value", "run_uuid"):
        return {}
    query = "SELECT run_uuid, value FROM tags WHERE key = 'mlflow.runName'"
    return {str(run_id): str(value) for run_id, value in database.rows(query) if value}


def _params(database: Database) -> dict[str, dict[str, Any]]:
    """Return the parameters of every run."""
    found: dict[str, dict[str, Any]] = {}
    if database.has("params", "key", "value", "run_uuid"):
        for run_id, key, value in database.rows("SELECT run_uuid, key, value FROM params"):
            found.setdefault(str(run_id), {})[str(key)] = plain_value(value)
    return found
