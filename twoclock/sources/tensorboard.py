"""TensorBoard: all event files of a folder are one log, whatever wrote them.

Files follow each other in the order in which they were begun, whatever the wall times within them.
What `add_scalars` and `add_hparams` put into folders below belongs to the log above.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.frameworks.config import flat_config
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.event_file import EventFile, read_event_file
from twoclock.sources.json_rows import mapped_keys, parse
from twoclock.sources.plain_values import plain_value
from twoclock.sources.points import Points, rows_of
from twoclock.sources.record_file import masked_crc

MARK = "tfevents"
"""What names of event files have in them."""

MAX_FOLDERS = 2000
"""Folders below a log that are looked at for parts of it."""

_DEPTH = 5
_LOOKED_AT = 64
"""Records of a folder below that tell whether it may belong to the log above."""
_PLAIN_TEXTS = ("args", "config", "cfg", "hparams", "hyperparameters", "params")
"""Texts whose names stand in the configuration as they are; others are prefixed by their tag."""

_TIME = re.compile(r"\d{9,11}\.\d+")
_FENCE = re.compile(r"```\w*\n?(.*?)```", re.DOTALL)
_TAGS = re.compile(r"</?(?:pre|code|div|p|br)\b[^>]*>")
_ROW = re.compile(r"\s*\|([^|]+)\|(.*)\|\s*")


def is_event_file(name: str) -> bool:
    """Tell by its name whether a file is an event file of TensorBoard."""
    return MARK in name and not name.endswith(".profile-empty")


def read_event_folder(path: Path, options: ReadOptions) -> list[Log]:
    """Read all event files of the folder that an event file lies in.

    Raises
    ------
    SourceError
        There are no scalars in them that could be used.
    """
    folder = path.parent
    keys = mapped_keys(options)
    own = [read_event_file(file, keys) for file in _event_files(folder) or [path]]
    above = _above(folder) if _may_be_part(folder, own) else None
    if above is not None and _is_part(folder, above, own):
        return []  # the log above reads it
    files = own + [file for below in _folders(folder) for file in _part(below, folder, keys)]
    files.sort(key=lambda f: (f.started if f.started is not None else 0.0, str(f.path)))
    notes = tuple(note for file in files for note in file.notes)
    _need_scalars(files, folder, notes)
    rows, resumed_at = rows_of([file.points for file in files])
    started = [file.started for file in own if file.started is not None]
    return [
        Log(
            folder,
            rows,
            "tensorboard",
            config=_config(files),
            started=min(started, default=None),
            resumed_at=resumed_at,
            files=tuple(file.path for file in files),
            notes=notes,
        )
    ]


def _event_files(folder: Path) -> list[Path]:
    """Return the event files of a folder."""
    try:
        with os.scandir(folder) as entries:
            found = [e.name for e in entries if is_event_file(e.name) and e.is_file()]
    except OSError:
        return []
    return [folder / name for name in sorted(found)]


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders below a log that hold event files, down to the next log of its own."""
    waiting = [(folder, 0)]
    seen = 0
    while waiting:
        here, depth = waiting.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:
            continue
        for name in inside:
            seen += 1
            if seen > MAX_FOLDERS or name.startswith("."):
                continue
            if _event_files(here / name):
                yield here / name
            elif depth + 1 < _DEPTH:
                waiting.append((here / name, depth + 1))


def _above(folder: Path) -> Path | None:
    """Return the nearest folder above that holds event files."""
    for parent in list(folder.parents)[:_DEPTH]:
        if _event_files(parent):
            return parent
    return None


def _part(folder: Path, above: Path, keys: Iterable[str]) -> list[EventFile]:
    """Return the files of a folder that belongs to the log above, their tags told apart."""
    paths = _event_files(folder)
    begun = [read_event_file(paths[0], every_key=True, records=_LOOKED_AT)]
    if not _is_part(folder, above, begun):
        return []
    files = [read_event_file(file, every_key=True) for file in paths]
    if not _is_part(folder, above, files):
        return []
    if _is_hparams(folder, files):
        return [replace(file, points=Points()) for file in files]
    return [_suffixed(file, folder, above, keys) for file in files]


def _may_be_part(folder: Path, files: Iterable[EventFile]) -> bool:
    """Tell whether it is worth looking for a log above, without looking there."""
    if _TIME.fullmatch(folder.name):
        return True
    whole = folder.as_posix().replace("/", "_")
    tags = {name for file in files for name in file.points.names}
    return any(f"_{tag.replace('/', '_')}_" in whole for tag in tags)


def _is_part(folder: Path, above: Path, files: Iterable[EventFile]) -> bool:
    """Tell whether the files of a folder belong to the log above."""
    files = list(files)
    tags = {name for file in files for name in file.points.names}
    if _is_hparams(folder, files):
        return True
    return bool(tags) and all(_suffix(tag, folder, above) for tag in tags)


def _is_hparams(folder: Path, files: Iterable[EventFile]) -> bool:
    return _TIME.fullmatch(folder.name) is not None and any(file.hparams for file in files)


def _suffix(tag: str, folder: Path, above: Path) -> str:
    """Return what the name of a folder adds to a tag of `add_scalars`; empty if it is none.

    One writer makes ``<tag>_<key>`` of it, with all slashes replaced, the other ``<tag>/<key>``.
    """
    name = folder.relative_to(above).as_posix().replace("/", "_")
    start = tag.replace("/", "_") + "_"
    return name[len(start) :] if name.startswith(start) else ""


def _suffixed(file: EventFile, folder: Path, above: Path, keys: Iterable[str]) -> EventFile:
    """Return a file of `add_scalars` with its key behind each tag."""
    points = Points(keys)
    for tag in sorted(file.points.names):
        key = f"{tag}/{_suffix(tag, folder, above)}"
        series, wanted = file.points.series.get(tag), points.wanted(key)
        if series is not None and wanted is not None:
            points.series[key] = series
    return replace(file, points=points)


def _need_scalars(files: list[EventFile], folder: Path, notes: tuple[Note, ...]) -> None:
    if any(series.step for file in files for series in file.points.series.values()):
        return
    names = sorted({name for file in files for name in file.points.names})
    if names:
        msg = (
            f"no metrics: none of its {len(names)} tags is known (the first is {names[0]!r}); "
            "name them with --map"
        )
    elif notes:
        msg = f"no data: not one scalar ({notes[0].message})"
    else:
        msg = "no data: the event files hold no scalars (yet)"
    raise SourceError(msg, where=str(folder))


def _config(files: Iterable[EventFile]) -> Mapping[str, Any]:
    """Return the configuration in texts and hyperparameters; later files go before earlier."""
    config: dict[str, Any] = {}
    for file in files:
        for tag, text in file.texts.items():
            found = config_in_text(text)
            name = tag.removesuffix("/text_summary")
            if found and name.rpartition("/")[2].lower() in _PLAIN_TEXTS:
                config |= flat_config(found)
            elif found:
                config |= flat_config({name: found, "\0": 0})
        config |= flat_config({name: plain_value(value) for name, value in file.hparams.items()})
    config.pop("\0", None)
    return config


def config_in_text(text: str) -> dict[str, Any]:
    r"""Return the settings in a text: JSON, also within a block of code, or a table.

    Examples
    --------
    >>> config_in_text('```json\n{"lr": 1e-06}\n```')
    {'lr': 1e-06}
    >>> config_in_text("|param|value|\n|-|-|\n|lr|1e-06|\n|clip|None|")
    {'lr': 1e-06, 'clip': None}
    """
    fenced = _FENCE.search(text)
    inner = html.unescape(_TAGS.sub("", fenced[1] if fenced else text)).strip()
    if inner.startswith("{"):
        try:
            found = parse(inner)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
    rows = [match for line in inner.splitlines() if (match := _ROW.fullmatch(line))]
    cells = [(row[1].strip(), row[2].strip()) for row in rows[1:]]
    return {name: plain_value(value) for name, value in cells if name.strip("-: ")}


def _sniff(head: Head) -> bool:
    if is_event_file(head.path.name):
        return True
    data = head.data[:64]
    return b"brain.Event:" in data and masked_crc(data[:8]) == int.from_bytes(data[8:12], "little")


TENSORBOARD = Reader("tensorboard", _sniff, read_event_folder)
