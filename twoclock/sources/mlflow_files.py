"""MLflow's file store: the folder of a run, with a file for each metric and parameter."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config, load_config
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.cells import number
from twoclock.sources.json_rows import mapped_keys
from twoclock.sources.mlflow_db import ENDED
from twoclock.sources.plain_values import plain_value
from twoclock.sources.points import Points, rows_of, whole_step
from twoclock.sources.text import iter_lines

STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
"""MLflow's statuses by their numbers."""

MAX_FILES = 20_000
"""Files of metrics or parameters that are looked at in one run."""

_PARAM_LIMIT = 64 * 1024


def read_mlflow_run(path: Path, options: ReadOptions) -> list[Log]:
    """Read the run that a `meta.yaml` describes.

    Raises
    ------
    SourceError
        It is deleted, damaged, or has no metrics.
    """
    folder = path.parent
    meta = load_config(path)
    if meta.get("lifecycle_stage") == "deleted":
        msg = "no data: the run is deleted in MLflow; restore it there to use it"
        raise SourceError(msg, where=str(folder))
    notes: list[Note] = []
    points = Points(mapped_keys(options), order_code="q")
    for key, file in _files(folder / "metrics", notes):
        if points.wanted(key) is not None:
            _read_metric(key, file, points, notes)
    rows, _ = rows_of([points])
    if not rows.count:
        named = ", ".join(sorted(points.names)[:3])
        why = f"none of its metrics is known (such as {named})" if named else "it has no metrics"
        msg = f"no data: {why}"
        raise SourceError(msg, where=str(folder))
    params = {key: _param(file) for key, file in _files(folder / "params", notes)}
    ended = _ended(meta.get("status"))
    started = number(meta.get("start_time"))
    name = meta.get("run_name") or _param(folder / "tags" / "mlflow.runName")
    return [
        Log(
            folder,
            rows,
            "mlflow",
            name=str(name or ""),
            config=flat_config(params),
            key=str(meta.get("run_id") or meta.get("run_uuid") or ""),
            started=started / 1000 if isinstance(started, float) and started > 0 else None,
            facts={"ended": Fact(ended, "log")} if ended else {},
            files=(path, *(file for _, file in _files(folder / "metrics", []))),
            notes=tuple(notes),
        )
    ]


def _ended(status: Any) -> str | None:
    """Return how a run ended by its status, a number or (in old versions) a word."""
    return ENDED.get(STATUS.get(status, "") if isinstance(status, int) else str(status))


def _files(folder: Path, notes: list[Note]) -> Iterator[tuple[str, Path]]:
    """Yield (key, file) of the metrics or parameters in a folder; folders stand for slashes."""
    seen = 0
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(here) / name
            if not path.is_file():
                continue
            seen += 1
            if seen > MAX_FILES:
                message = f"more than {MAX_FILES:,} files; the others are not read"
                notes.append(Note("too_many_files", message, where=str(folder)))
                return
            yield path.relative_to(folder).as_posix(), path


def _read_metric(key: str, file: Path, points: Points, notes: list[Note]) -> None:
    """Read the lines ``time value step`` of a metric; newer ones name a dataset behind it."""
    bad: list[int] = []
    cut = False
    for line, raw in iter_lines(file, notes):
        words = raw.split()
        cut = not raw.endswith(b"\n") and len(words) == 2
        time = whole_step(words[0]) if words else None
        value = number(words[1].decode("utf-8", errors="replace")) if len(words) > 1 else None
        step = whole_step(words[2]) if len(words) > 2 else 0
        if time is None or not isinstance(value, float) or step is None or cut:
            bad += [line] if raw.strip() else []
        else:
            points.add(key, step, value, time)
    if bad:
        message = f"{len(bad)} lines are not metrics and are left out, the first is {bad[0]}"
        where = f"{file} line {bad[0]}"
        notes.append(Note("cut_line" if cut else "bad_lines", message, where=where, count=len(bad)))


def _param(path: Path) -> Any:
    """Return a parameter or tag; None when there is none."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            text = file.read(_PARAM_LIMIT).decode("utf-8", errors="replace")
    except OSError:
        return None
    value = plain_value(text)
    return None if isinstance(value, float) and math.isnan(value) else value


def _sniff(head: Head) -> bool:
    own = head.data.startswith((b"run_id:", b"run_uuid:")) or b"\nrun_id:" in head.data
    return head.path.name == "meta.yaml" and (own or b"\nrun_uuid:" in head.data)


MLFLOW_FILES = Reader("mlflow", _sniff, read_mlflow_run)
