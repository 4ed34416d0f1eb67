"""W&B run folders: the transaction log of a run, offline or synced, and the configuration in it.

Nested metrics are joined by dots, as W&B shows them. `files/config.yaml`, which W&B writes itself
when it syncs, completes the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config, load_config
from twoclock.reading import ReadOptions
from twoclock.sources import protobuf
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.json_rows import mapped_keys, parse
from twoclock.sources.record_file import Damage
from twoclock.sources.rows import RowStore
from twoclock.sources.wandb_file import HEADER, MAGIC, iter_wandb_records

_HISTORY, _CONFIG, _RUN, _EXIT = 2, 5, 17, 18
_KEY, _NESTED, _VALUE = 1, 2, 16
_LOGGER_STEP = "_step"


@dataclass
class _Run:
    """What the records of a transaction log say."""

    store: RowStore
    config: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    name: str = ""
    started: float | None = None
    exit_code: int | None = None


def read_wandb(path: Path, options: ReadOptions) -> list[Log]:
    """Read a `run-<id>.wandb` file.

    Raises
    ------
    SourceError
        No history is in it (yet), or it is of another version.
    """
    damage = Damage()
    run = _Run(RowStore(mapped_keys(options)))
    for record in iter_wandb_records(path, damage):
        try:
            _take(record, run)
        except protobuf.WireError:
            damage.add(damage.here)
    notes = damage.told(path)
    if not run.store.count:
        msg = "no data: no history is written" + (f" ({notes[0].message})" if notes else "")
        if _size(path) <= len(HEADER):
            msg = "no data yet: W&B writes a live run every 15 s or when it ends; read it later"
        raise SourceError(msg, where=str(path))
    settings = path.parent / "files" / "config.yaml"
    files = (path, settings) if settings.is_file() else (path,)
    facts = {}
    if run.exit_code is not None:
        facts["ended"] = Fact("crashed" if run.exit_code else "completed", "log")
    return [
        Log(
            path,
            run.store.finish(),
            "wandb",
            name=run.name,
            config={**flat_config(run.config), **load_config(settings)},
            key=run.key,
            started=run.started,
            facts=facts,
            files=files,
            notes=tuple(notes),
        )
    ]


def _size(path: Path) -> int:
    return path.stat().st_size


def _take(record: bytes, run: _Run) -> None:
    """Take what a record says."""
    for number, value, _ in protobuf.fields(record):
        if number == _HISTORY:
            row = _row(protobuf.message(value))
            run.store.add(row, run.store.count + 1)
        elif number == _CONFIG:
            _update_config(protobuf.message(value), run.config)
        elif number == _RUN:
            _describe(protobuf.message(value), run)
        elif number == _EXIT:
            codes = [v for n, v, _ in protobuf.fields(protobuf.message(value)) if n == 1]
            run.exit_code = protobuf.whole(codes[-1]) if codes else 0


def _row(history: bytes) -> dict[str, Any]:
    """Return the row of a history record."""
    row: dict[str, Any] = {}
    media: list[str] = []
    step = None
    for number, value, _ in protobuf.fields(history):
        if number == 1:
            path, text = _item(protobuf.message(value))
            if len(path) > 1 and path[1] == "_type":
                media.append(path[0])
            row.update(_flat(".".join(path), _json(text)))
        elif number == 2:
            step = next((v for n, v, _ in protobuf.fields(protobuf.message(value)) if n == 1), 0)
    for head in media:  # a histogram or picture has numbers that are no metrics
        row = {key: item for key, item in row.items() if not key.startswith(f"{head}.")}
    if step is not None:
        row.setdefault(_LOGGER_STEP, protobuf.whole(step))
    return row


def _item(item: bytes) -> tuple[list[str], bytes]:
    """Return the path of keys and the JSON of an item."""
    path: list[str] = []
    text = b""
    for number, value, _ in protobuf.fields(item):
        if number == _VALUE:
            text = protobuf.message(value)
        elif number == _NESTED:
            path.append(protobuf.text(value))
        elif number == _KEY and value:
            path = [protobuf.text(value)]
    return path, text


def _json(text: bytes) -> Any:
    """Return a JSON value; most are numbers."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parse(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", errors="replace")


def _flat(key: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the metrics in a value; nested ones are joined by dots, media are left as they are."""
    if isinstance(value, dict) and "_type" not in value and depth < 8:
        for name, item in value.items():
            yield from _flat(f"{key}.{name}", item, depth + 1)
    else:
        yield key, value


def _update_config(update: bytes, config: dict[str, Any]) -> None:
    """Set and remove what a configuration record says."""
    for number, value, _ in protobuf.fields(update):
        path, text = _item(protobuf.message(value)) if number in (1, 2) else ([], b"")
        if not path:
            continue
        inner = config
        for name in path[:-1]:
            below = inner.setdefault(name, {})
            if not isinstance(below, dict):
                below = inner[name] = {}
            inner = below
        if number == 2:
            inner.pop(path[-1], None)
        else:
            inner[path[-1]] = _setting(text)


def _setting(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", errors="replace")


def _describe(record: bytes, run: _Run) -> None:
    """Take name, id, start and configuration of the run."""
    project = run_id = ""
    for number, value, _ in protobuf.fields(record):
        if number == 1:
            run_id = protobuf.text(value)
        elif number == 3:
            project = protobuf.text(value)
        elif number == 4:
            _update_config(protobuf.message(value), run.config)
        elif number == 8:
            run.name = protobuf.text(value).strip()
        elif number == 17:
            parts = {n: v for n, v, _ in protobuf.fields(protobuf.message(value))}
            if parts.get(1):
                nanoseconds = protobuf.whole(parts.get(2, 0))
                run.started = protobuf.whole(parts[1]) + nanoseconds / 1e9
    run.key = f"{project}/{run_id}" if project and run_id else run_id or run.key
    run.name = run.name or run_id


def _sniff(head: Head) -> bool:
    return head.data.startswith(MAGIC)


WANDB = Reader("wandb", _sniff, read_wandb)
