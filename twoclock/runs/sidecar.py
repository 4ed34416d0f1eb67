"""`runs.yaml`: what the user knows about logs and the logs do not tell.

A list of entries ``{path: GLOB, <runs columns>, map: {...}, scale: {...}}`` beside the logs or in a
folder above them. Later entries, and files nearer to the log, go first. A blank is as if not
there, but for limits, where it says that there is none (``clip_high: null``).
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from twoclock.errors import SettingsError
from twoclock.frameworks.yaml_text import load_yaml
from twoclock.notes import Note
from twoclock.reading import MAPPABLE, SCALABLE, check_names
from twoclock.runs.facts import NO_LIMIT, TRL_FACTS
from twoclock.runs.ranges import broken_rule
from twoclock.schema import RUNS

NAMES = ("runs.yaml", "runs.yml")
SIZE_LIMIT = 1 << 20
"""Largest `runs.yaml` that is read, in bytes."""

LEVELS = 3
"""Folders above a log in which a `runs.yaml` is looked for, its own included."""

FACTS = (*(name for name in RUNS.names if name != "source"), *TRL_FACTS)
"""Keys of an entry that are facts."""


@dataclass(frozen=True)
class Given:
    """What `runs.yaml` gives for one log: facts, aliases, factors, and the files it came from."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One entry of a `runs.yaml`."""

    glob: str
    given: Given


class Sidecars:
    """All `runs.yaml` files beside and above the logs, each read once."""

    def __init__(self) -> None:
        self._read: dict[Path, list[Entry]] = {}
        self._unused: dict[tuple[Path, str], None] = {}

    def for_log(self, path: Path, root: Path) -> Given:
        """Return what is given for the log at `path`.

        Raises
        ------
        SettingsError
            A `runs.yaml` is damaged, has an unknown key or a value outside its range.
        """
        facts: dict[str, Any] = {}
        aliases: dict[str, tuple[str, ...]] = {}
        scale: dict[str, float] = {}
        files: list[Path] = []
        for folder in _folders(path, root):
            for name in NAMES:
                file = folder / name
                for entry in self._entries(file, told=root.is_dir() and inside(folder, root)):
                    if matches(entry.glob, path, folder):
                        facts.update(entry.given.facts)
                        aliases.update(entry.given.map)
                        scale.update(entry.given.scale)
                        self._unused.pop((file, entry.glob), None)
                        files.append(file)
        return Given(facts, aliases, scale, tuple(dict.fromkeys(files)))

    def unused_notes(self) -> list[Note]:
        """Return a remark for each entry that no log matched."""
        return [
            Note("unused_entry", f"no log matches path {glob!r}", where=str(file))
            for file, glob in self._unused
        ]

    def _entries(self, file: Path, *, told: bool) -> list[Entry]:
        """Return the entries of a file; if `told`, all logs that they can mean will be seen."""
        if file not in self._read:
            self._read[file] = load(file) if file.is_file() else []
            if told:
                self._unused.update({(file, entry.glob): None for entry in self._read[file]})
        return self._read[file]


def _folders(path: Path, root: Path) -> list[Path]:
    """Return the folders to look in, farthest first: up to the given one, and `LEVELS` anyway."""
    above = list(path.absolute().parents)
    if path.is_dir():
        above.insert(0, path.absolute())
    top = root.absolute() if root.is_dir() else root.absolute().parent
    near = [i for i, folder in enumerate(above) if i < LEVELS or folder.is_relative_to(top)]
    return [above[i] for i in reversed(near)]


def inside(folder: Path, root: Path) -> bool:
    """Tell whether a folder is the given one or lies below it."""
    return folder.absolute().is_relative_to(root.absolute())


def matches(glob: str, path: Path, folder: Path) -> bool:
    """Tell whether a glob names a log, or a folder that it lies in, seen from `folder`.

    The name of a file is enough, unless the glob begins with ``./``, which is `folder` itself.

    Examples
    --------
    >>> matches("b64-*", Path("/logs/b64-s0/metrics.csv"), Path("/logs"))
    True
    >>> matches("b64-*", Path("/logs/b512-s0/metrics.csv"), Path("/logs"))
    False
    """
    below = path.absolute().relative_to(folder)
    names = [str(below.as_posix()), *(p.as_posix() for p in below.parents if p.name)]
    names += [] if glob.startswith("./") else [path.name]
    glob = glob.removeprefix("./").rstrip("/")
    return any(fnmatchcase(name, glob) for name in names)


def load(file: Path) -> list[Entry]:
    """Read a `runs.yaml`.

    Raises
    ------
    SettingsError
        It is too large, no YAML, not a list of entries, or an entry has an unknown key or a value
        outside its range.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(SIZE_LIMIT + 1)
        if len(data) > SIZE_LIMIT:
            msg = f"{file}: above {SIZE_LIMIT >> 20} MiB"
            raise SettingsError(msg)
        content = load_yaml(data.decode("utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as err:
        if isinstance(err, SettingsError):
            raise
        first = " ".join(str(err).split())[:200]
        msg = f"{file}: cannot be read as YAML ({first})"
        raise SettingsError(msg) from err
    if content is None:
        return []
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        msg = f"{file}: must be a list of entries like '- {{path: \"b64-*\", batch_size: 64}}'"
        raise SettingsError(msg)
    return [_entry(item, f"{file}: entry {i}") for i, item in enumerate(content, start=1)]


def _entry(item: Mapping[str, Any], where: str) -> Entry:
    check_names(where, item, ("path", "map", "scale", *FACTS))
    glob = item.get("path", "*")
    item = {key: value for key, value in item.items() if value is not None or key in NO_LIMIT}
    aliases, scale = item.get("map", {}), item.get("scale", {})
    if not isinstance(glob, str) or not isinstance(aliases, dict) or not isinstance(scale, dict):
        msg = f"{where}: path must be a text, map and scale must be mappings"
        raise SettingsError(msg)
    check_names(f"{where}: map", aliases, MAPPABLE)
    check_names(f"{where}: scale", scale, SCALABLE)
    scale = {name: factor for name, factor in scale.items() if factor is not None}
    for name, factor in scale.items():
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor > 0:
            msg = f"{where}: scale of {name} is {reprlib.repr(factor)}, must be a number above 0"
            raise SettingsError(msg)
    facts = {name: _spoken(name, value) for name, value in item.items() if name in FACTS}
    for name, value in facts.items():
        rule = broken_rule(name, value)
        if rule:
            msg = f"{where}: {name} is {reprlib.repr(value)}, {rule}"
            raise SettingsError(msg)
    lists = {
        name: tuple(str(key) for key in (keys if isinstance(keys, list) else [keys]))
        for name, keys in aliases.items()
        if keys is not None
    }
    return Entry(glob, Given(facts, lists, {k: float(v) for k, v in scale.items()}))


def _spoken(name: str, value: Any) -> Any:
    """Return yes or no for `clip_active`, which YAML takes for booleans; else the value."""
    if name == "clip_active" and isinstance(value, bool):
        return "yes" if value else "no"
    return value
