"""Native run folders: `run.json` and `metrics.jsonl` (or .gz, .zst), in the words of `schema`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.schema import EVALS, LOG_FORMAT, PROBES, RUNS, STEPS
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.json_rows import iter_objects, mapped_keys, parse
from twoclock.sources.rows import RowStore
from twoclock.sources.text import read_document

SERIES = "validation:"
"""Prefix of the keys under which the accuracies of one metric are kept."""

PROBE = "probe:"
"""Prefix of the keys under which the columns of probes are kept."""

METRICS = ("metrics.jsonl", "metrics.jsonl.gz", "metrics.jsonl.zst")
_NO_LIMIT = ("clip_low", "clip_high", "clip_dual", "grad_clip")
STEP_COLUMNS = {name: (name,) for name in STEPS.names if name not in ("run_id", "nonfinite")}
EVAL_COLUMNS = {name: (name,) for name in ("responses", "rollout", "n", "eval_seconds")}
PROBE_COLUMNS = tuple(
    name for name in PROBES.names if name not in ("run_id", "rollout", "responses", "nonfinite")
)
PROBE_KEYS = tuple(PROBE + name for name in PROBE_COLUMNS)
_PLACE = ("rollout", "responses")
_OTHER = frozenset(("run_id", "metric", "nonfinite", "kind", "scale"))


def read_native(path: Path, options: ReadOptions) -> list[Log]:
    """Read the run folder of a `run.json`.

    Raises
    ------
    SourceError
        `run.json` is damaged or of another format, or there are no metrics beside it.
    """
    notes: list[Note] = []
    run = _run_json(path, notes)
    folder = path.parent
    metrics = [folder / name for name in METRICS if (folder / name).is_file()]
    if not metrics:
        msg = f"no {METRICS[0]} beside it, so there is nothing to read"
        raise SourceError(msg, where=str(path))
    keys = (*mapped_keys(options), *STEPS.names, *EVALS.names, *PROBE_KEYS)
    store = RowStore(keys, prefix=SERIES)
    scales: dict[str, str] = {}
    ignored: dict[str, int] = {}
    for line, row in iter_objects(metrics[0], notes):
        if row.get("kind") in ("train", "eval", "probe"):
            store.add(native_row(row, scales), line)
        else:
            kind = str(row.get("kind"))[:20]
            ignored[kind] = ignored.get(kind, 0) + 1
    if not store.count:
        msg = "no data: not one complete row"
        raise SourceError(msg, where=str(metrics[0]))
    for kind, count in ignored.items():
        message = f"rows of kind {kind!r} are not read"
        notes.append(Note("other_rows", message, where=str(metrics[0]), count=count))
    return [
        Log(
            folder,
            store.finish(),
            "native",
            name=str(run.get("run_id") or ""),
            framework=str(run.get("framework") or "twoclock"),
            facts=dict(_facts(run)),
            columns={**STEP_COLUMNS, **EVAL_COLUMNS, "step": ("rollout",)},
            metrics=tuple(scales),
            scales=scales,
            synchronous=True,
            files=(path, metrics[0]),
            notes=tuple(notes),
        )
    ]


def _run_json(path: Path, notes: list[Note]) -> dict[str, Any]:
    try:
        run = parse(read_document(path, notes))
    except (ValueError, RecursionError) as err:
        msg = f"is not JSON ({err}); write it again"
        raise SourceError(msg, where=str(path)) from err
    if not isinstance(run, dict) or run.get("format") != LOG_FORMAT:
        found = run.get("format") if isinstance(run, dict) else None
        msg = f"format is {found!r}, must be {LOG_FORMAT!r}"
        raise SourceError(msg, where=str(path))
    return run


def _facts(run: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    """Yield the columns and other scalars; null means "no such clip" for clips, else unknown."""
    for name, value in run.items():
        if name in ("format", "run_id", "framework", "source") or name.endswith("_from"):
            continue
        if name not in RUNS.names and not isinstance(value, str | int | float):
            continue
        if value is None and name in _NO_LIMIT:
            yield name, Fact(math.inf, "config")
        elif value is not None:
            yield name, Fact(value, "config")


def native_row(row: Mapping[str, Any], scales: dict[str, str]) -> dict[str, Any]:
    """Return a row as numbers: an accuracy under its metric's name, non-finite as NaN.

    The columns of a probe have a prefix, so that none is taken for one of a training row.

    Parameters
    ----------
    row : mapping
        A row of ``kind`` train, eval or probe.
    scales : dict of str to str
        Series seen so far and the scale that their rows state; completed here.
    """
    kept = {key: value for key, value in row.items() if key not in _OTHER}
    if row.get("kind") == "eval":
        key = SERIES + str(row.get("metric") or "accuracy")
        kept[key] = kept.pop("accuracy", None)
        scales[key] = scales.get(key) or str(row.get("scale") or "")
    for name in str(row.get("nonfinite") or "").split(","):
        if name:
            kept[name] = math.nan
    if row.get("kind") == "probe":
        return {k if k in _PLACE else PROBE + k: v for k, v in kept.items()}
    return kept


RUN = "run.json"
_LOOKED_AT = 1 << 20


def is_foreign(path: Path) -> bool:
    """Tell whether a `run.json` is whole and of somebody else: JSON that names no format.

    A damaged one, or one of another version of the format, is not: it is read, and refused.
    """
    try:
        with path.open("rb") as file:
            run = parse(file.read(_LOOKED_AT))
    except (OSError, ValueError, RecursionError):
        return False
    return not (isinstance(run, dict) and "format" in run)


def _sniff(head: Head) -> bool:
    return head.path.name == RUN and not is_foreign(head.path)


NATIVE = Reader("native", _sniff, read_native)
