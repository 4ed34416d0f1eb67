"""Configurations that lie beside logs: found, and given to the one log that they can mean.

A configuration speaks for a log when the log is the only one of its format in the folder that the
configuration lies in (or below it), or when it names the log. Where several logs share the folder,
it would be a guess, so it is left out and the refusal says so.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from twoclock.frameworks import FRAMEWORKS
from twoclock.frameworks.config import load_config
from twoclock.frameworks.overrides import load_overrides
from twoclock.notes import Note
from twoclock.runs.identify import HOME_MADE, OWN_FORMATS
from twoclock.sources.base import Log

LEVELS = 4
"""Folders above a log in which a configuration is looked for, its own included."""

NAMES = (
    "config.yaml", "config.yml", "config.json", "config.toml", "args.json", "args.yaml",
    "hparams.yaml", "hparams.json", "params.json", "training_args.json", "training_config.json",
    "training_config.yaml", "run_config.yaml", "run_config.json", "grpo_config.yaml",
    "grpo_config.json", "torchtune_config.yaml", "recipe.yaml", "rl.toml", "rl.json", "run.json",
)  # fmt: skip
"""Files that may hold the configuration of a run, best first."""

HYDRA = (".hydra", "hydra")
PARTED = "configs"
"""Folder with one file for each component of a job (prime-rl)."""

_DIGITS = re.compile(r"\d+")
_WHOLE = ("rl", "config")
_EXPERIMENT = ("trainer.experiment_name", "experiment_name", "exp_name", "run_name")


@dataclass(frozen=True)
class Found:
    """A configuration and the files that it came from."""

    config: Mapping[str, Any]
    files: tuple[Path, ...]


class Configs:
    """The configurations beside the given logs, each file read once."""

    def __init__(self, logs: Iterable[Log]) -> None:
        self._read: dict[Path, list[Found]] = {}
        self._shared: dict[Path, int] = {}
        self._given: set[Path] = set()
        places: dict[str, list[str]] = {}
        for log in logs:
            if log.reader not in OWN_FORMATS:
                places.setdefault(log.reader, []).append(str(log.path.absolute()))
        self._places = {reader: sorted(paths) for reader, paths in places.items()}

    def give(self, log: Log, root: Path) -> Log:
        """Return the log with its configuration, if it has none of its own and one is found.

        Above `root`, the path that the user gave, other logs may lie that were not read.
        """
        if log.reader in OWN_FORMATS or _tells(log.config):
            return log
        found = self._for(log, root.absolute())
        if found is None:
            return log
        files = tuple(dict.fromkeys((*(log.files or (log.path,)), *found.files)))
        self._given.add(found.files[0])
        return replace(log, config={**found.config, **log.config}, files=files)

    def _for(self, log: Log, root: Path) -> Found | None:
        path = log.path.absolute()
        stem = log.path.name.split(".")[0]
        above = [*path.parents][:LEVELS]
        below = [path] if path.is_dir() else [path.parent / stem]
        for folder in (*below, *above):
            for found in self._in(folder):
                named = next((found.config[n] for n in _EXPERIMENT if n in found.config), None)
                if named is not None and named in (stem, log.name) and folder in above[:3]:
                    return found
                if self._alone(log.reader, folder) and self._fits(named, log, folder):
                    if folder in root.parents and _has_siblings(path, folder):
                        continue
                    return found
                if folder == path.parent:
                    self._shared[found.files[0]] = self._shared.get(found.files[0], 0) + 1
        return None

    def notes(self) -> list[Note]:
        """Return a remark for each configuration that could mean several logs."""
        return [
            Note(
                "shared_config",
                f"lies beside {count} logs and names none of them, so it is not used; give each "
                "run a folder, or say it in runs.yaml",
                where=str(file),
            )
            for file, count in sorted(self._shared.items())
        ]

    def doubts(self, runs: Iterable[Log]) -> list[Note]:
        """Return a remark for each configuration that speaks for more than one run after all."""
        used = Counter(file for log in runs for file in self._given.intersection(log.files))
        return [
            Note(
                "shared_config",
                f"speaks for {count} runs, each the only log of its format there; if it is of one "
                "of them, give each run a folder",
                where=str(file),
                count=count,
            )
            for file, count in sorted(used.items())
            if count > 1
        ]

    def _alone(self, reader: str, folder: Path) -> bool:
        """Tell whether one log of the format lies in the folder or below it, not more."""
        paths = self._places.get(reader, [])
        first = bisect_left(paths, f"{folder}/")
        return bisect_left(paths, f"{folder}/\U0010ffff") - first <= 1

    @staticmethod
    def _fits(named: Any, log: Log, folder: Path) -> bool:
        """Tell whether a configuration above the log's own folder may mean it.

        Within the log's own folder any may; further up one that names another experiment may not.
        """
        own = (log.path.absolute(), log.path.absolute().parent)
        return folder in own or named is None or str(named) in log.path.as_posix()

    def _in(self, folder: Path) -> list[Found]:
        if folder not in self._read:
            self._read[folder] = [f for f in _candidates(folder) if _tells(f.config)]
        return self._read[folder]


def _has_siblings(path: Path, folder: Path) -> bool:
    """Tell whether other folders beside a log's, below `folder`, hold logs named as it is."""
    inner = path.relative_to(folder).parts
    try:
        beside = [p for p in islice(folder.iterdir(), 1000) if p.name != inner[0] and p.is_dir()]
    except OSError:
        return False
    return len(inner) > 1 and any(
        _DIGITS.sub("#", name) == _DIGITS.sub("#", path.name)
        for place in (child.joinpath(*inner[1:-1]) for child in beside)
        if place.is_dir()
        for name in os.listdir(place)  # noqa: PTH208 - names alone
    )


def _tells(config: Mapping[str, Any]) -> bool:
    """Tell whether a configuration is one of a training run: some framework's, or a plain one."""
    if not config:
        return False
    return any(f.configured(config) for f in FRAMEWORKS) or bool(HOME_MADE.facts_of(config))


def _candidates(folder: Path) -> list[Found]:
    try:
        inside = set(os.listdir(folder))  # noqa: PTH208 - names alone, of folders with many runs
    except OSError:
        return []
    found: list[Found] = []
    for name in (name for name in HYDRA if name in inside):
        place = folder / name
        config, overrides = load_config(place / "config.yaml"), load_overrides(place)
        used = (place / "config.yaml", place / "overrides.yaml")
        found.append(Found({**config, **overrides}, tuple(p for p in used if p.is_file())))
    for name in (name for name in NAMES if name in inside):
        file = folder / name
        beside = load_overrides(folder) if name == "config.yaml" else {}
        also = (folder / "overrides.yaml",) if beside else ()
        found.append(Found({**load_config(file), **beside}, (file, *also)))
    if PARTED in inside and (folder / PARTED).is_dir():
        found.append(_parted(folder / PARTED))
    if "wandb" in inside:
        found += _of_wandb(folder / "wandb")
    return [item for item in found if item.config]


def _of_wandb(folder: Path) -> list[Found]:
    """Return the configuration that W&B left of the one run that it wrote into a folder."""
    files = sorted(folder.glob("*run-*/files/config.yaml"))[:2] if folder.is_dir() else []
    return [Found(load_config(files[0]), (files[0],))] if len(files) == 1 else []


def _parted(folder: Path) -> Found:
    """Return the configurations of the components of one job, each below its component's name."""
    config: dict[str, Any] = {}
    files: list[Path] = []
    for file in sorted(folder.iterdir())[:50]:
        if file.suffix.lower() in (".json", ".toml", ".yaml", ".yml"):
            flat = load_config(file)
            prefix = "" if file.stem in _WHOLE else f"{file.stem}."
            config |= {f"{prefix}{name}": value for name, value in flat.items()}
            files += [file] if flat else []
    return Found(config, tuple(files))
