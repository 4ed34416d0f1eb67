"""Home-made JSON documents: one object with the history of a run, or of several, inside.

Three shapes are read, at any depth: lists of rows (``{"history": [{"step": 1, ...}, ...]}``),
columns (``{"steps": [0, 10], "val_acc": [0.1, 0.6]}``, also as pairs of step and value) and rows by
step (``{"0": {...}, "10": {...}}``). Where a value lies is part of its key, so that
``{"eval": {"accuracy": [...]}}`` is an ``eval/accuracy``. Objects of one shape side by side are
several runs. Columns without steps of their own count 1, 2, 3, which is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.columns import STEP_KEYS
from twoclock.sources.json_rows import logs_of, mapped_keys, parse, run_stores, unwrap
from twoclock.sources.series import Series, placed
from twoclock.sources.several_runs import MAX_RUNS
from twoclock.sources.text import read_document

MAX_DEPTH = 6
_SPLITS = ("train", "training", "val", "valid", "validation", "eval", "evaluation", "test")
"""Names that tell in which split a value was measured."""

_INSIDE = re.compile(
    rb'"\s*:\s*\[\s*(?:[-\d{\[]|NaN|null)|\A\{\s*"(?:[a-z]{4,9}[_ -]?)?\d{1,9}"\s*:\s*[-\d{]'
)
_BY_STEP = re.compile(r"(?:step|iter|iteration|rollout|update)?[ _-]?(\d{1,9})")
_Row = tuple[float, dict[str, Any]]


def read_tables(path: Path, options: ReadOptions) -> list[Log]:
    """Read a JSON document with tables in it.

    Raises
    ------
    SourceError
        It is cut, or no table is in it.
    """
    notes: list[Note] = []
    try:
        document = parse(read_document(path, notes))
    except (ValueError, RecursionError) as err:
        msg = "no data: the JSON object is cut or damaged"
        raise SourceError(msg, where=str(path)) from err
    logs: list[Log] = []
    for count, (name, value) in enumerate(_runs_in(document), start=1):
        if count > MAX_RUNS:
            msg = f"more than {MAX_RUNS:,} runs in one document"
            raise SourceError(msg, where=str(path))
        logs += _run(path, name, value, options, list(notes))
    if not logs:
        msg = "no metrics: a JSON object without a history of numbers"
        raise SourceError(msg, where=str(path))
    return logs


def _run(path: Path, name: str, value: Any, options: ReadOptions, notes: list[Note]) -> list[Log]:
    series: list[Series] = []
    tables: list[list[_Row]] = []
    settings: dict[str, Any] = {}
    for key, found in _walk(value, "", 0):
        if isinstance(found, Series):
            series.append(found)
        elif isinstance(found, list):
            tables += [found] if _counted(found, options) else []
        else:
            settings[key] = found
    tables += placed(series, notes, str(path), set(mapped_keys(options)))
    if not tables:
        return []
    stores = run_stores(options)
    for index, row in enumerate(_merged(tables), start=1):
        stores.add(row, index)
    config = flat_config(settings) if settings else {}
    logs = logs_of(path, stores, notes, "json-object")
    return [replace(log, name=name or log.name, config=config) for log in logs]


def _counted(table: list[_Row], options: ReadOptions) -> bool:
    """Tell whether rows carry steps; results of an evaluation are lists of objects, too."""
    named = {key for column in ("step", "responses") for key in options.map.get(column, ())}
    return any(step == step for step, _ in table) or any(not named.isdisjoint(r) for _, r in table)


def _runs_in(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of each run: objects that hold the same keys side by side are runs."""
    if isinstance(document, Mapping) and len(document) > 1:
        kinds = {
            frozenset(value) if isinstance(value, Mapping) else None for value in document.values()
        }
        names = [str(key) for key in document]
        same = len(kinds) == 1 and None not in kinds
        told = any(_split(name) or _BY_STEP.fullmatch(name) for name in names)
        if same and not told and all(_has_list(value) for value in document.values()):
            yield from zip(names, document.values(), strict=True)
            return
    yield "", document


def _has_list(value: Mapping[str, Any]) -> bool:
    return any(isinstance(item, list) for item in value.values())


def _walk(value: Any, key: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what lies in a document: `Series`, tables as lists of rows with steps, settings."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        rows = _rows_by_step(value, key)
        if rows is not None:
            yield key, rows
            return
        for name, item in value.items():
            yield from _walk(item, f"{key}/{name}" if key else str(name), depth + 1)
    elif isinstance(value, list):
        if value and all(isinstance(item, Mapping) for item in value):
            yield key, [(_step_of(row), _named(row, key)) for row in map(unwrap, value)]
        else:
            found = Series.of(key, value)
            if found is not None:
                yield key, found
    elif key and (value is None or isinstance(value, str | int | float | bool)):
        yield key, value


def _rows_by_step(value: Mapping[str, Any], key: str) -> list[_Row] | None:
    """Return the rows of an object whose names are steps, None when it is none."""
    found = [_BY_STEP.fullmatch(str(name)) for name in value]
    if len(value) < 2 or not all(found):
        return None
    if all(isinstance(item, Mapping) for item in value.values()):
        rows = [_named(item, key) for item in value.values()]
    elif all(isinstance(item, int | float) for item in value.values()) and key:
        rows = [{key: item} for item in value.values()]
    else:
        return None
    steps = [int(match[1]) for match in found if match]
    return [(step, {"step": step, **row}) for step, row in zip(steps, rows, strict=True)]


def _named(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a row under keys that say in which split it was measured."""
    split = next((word for part in key.split("/") if (word := _split(part))), "")
    if not split or split.startswith("train"):
        return dict(row)
    kept = {*STEP_KEYS, "epoch", "step"}
    return {
        name if name in kept or _split(str(name)) else f"{split}/{name}": item
        for name, item in row.items()
    }


def _split(name: str) -> str:
    """Return the split that a name begins with, or nothing.

    Examples
    --------
    >>> _split("eval_log"), _split("Validation"), _split("evaluator"), _split("reward")
    ('eval', 'validation', '', '')
    """
    first = re.split(r"[_\-/ .]", name.lower(), maxsplit=1)[0]
    return first if first in _SPLITS else ""


def _step_of(row: Mapping[str, Any]) -> float:
    for key in STEP_KEYS:
        value = row.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return float("nan")


def _merged(tables: list[list[_Row]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of all tables in the order of their steps, where all of them have some."""
    if len(tables) > 1 and all(_in_order(table) for table in tables):
        rows = sorted((row for table in tables for row in table), key=lambda row: row[0])
    else:
        rows = [row for table in tables for row in table]
    for _, row in rows:
        yield row


def _in_order(table: list[_Row]) -> bool:
    steps = [step for step, _ in table]
    return all(one <= two for one, two in pairwise(steps))


def _sniff(head: Head) -> bool:
    """Tell an object over several lines, or on one line that is no row, with a list in it."""
    text = head.data.lstrip()
    if not text.startswith(b"{") or not _INSIDE.search(text):
        return False
    line, _, rest = text.partition(b"\n")
    try:
        row = parse(line)
    except (ValueError, RecursionError):
        return head.name.endswith(".json")
    if not isinstance(row, Mapping) or rest.strip():
        return False
    return not any(isinstance(row.get(key), int | float) for key in STEP_KEYS)


JSON_OBJECT = Reader("json-object", _sniff, read_tables)
