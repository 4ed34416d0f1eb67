"""One command's worth of analysis: paths, reading options and settings, read back from a file.

A `Job` is what `twoclock fit` runs and what `settings.toml` stores, so that a fit can be repeated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from twoclock.analysis import analyse, analyse_events
from twoclock.errors import SettingsError
from twoclock.notes import Note, Refusal
from twoclock.observe import observe
from twoclock.progress import Progress, silent
from twoclock.reading import ReadOptions
from twoclock.results import TwoClocks
from twoclock.runs import Runs, read_events
from twoclock.runs.read import read_place
from twoclock.runs.remote import fetched
from twoclock.settings import Settings
from twoclock.sources.events_table import EventsTable


@dataclass(frozen=True)
class Job:
    """What to read, how, and what to do with it.

    Parameters
    ----------
    paths : tuple of str
        Folders and files.
    reading : ReadOptions
        What the user says about the logs.
    settings : Settings
        Settings of the analysis.
    """

    paths: tuple[str, ...]
    reading: ReadOptions = field(default_factory=ReadOptions)
    settings: Settings = field(default_factory=Settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the part of `settings.toml` that `Settings` does not hold."""
        return {"paths": list(self.paths), "reading": self.reading.to_dict()}

    @classmethod
    def load(cls, path: Path, *, paths: tuple[str, ...] = ()) -> Job:
        """Read a `settings.toml` that a fit wrote.

        Parameters
        ----------
        path : Path
            The file.
        paths : tuple of str
            Instead of the paths in it.

        Raises
        ------
        SettingsError
            Not TOML, an unknown name, or a value outside its range.
        """
        try:
            with path.open("rb") as file:
                values = tomllib.load(file)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
            msg = f"{path}: cannot be read as settings: {err}"
            raise SettingsError(msg) from None
        settings = Settings.from_dict(_table(values, "analysis", path), where=str(path))
        try:
            reading = ReadOptions(**_reading(_table(values, "reading", path)))
        except (TypeError, ValueError) as err:
            msg = f"{path}: [reading]: {err}"
            raise SettingsError(msg) from None
        return cls(paths or tuple(map(str, values.get("paths", ()))), reading, settings)


def _table(values: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    table = values.get(name, {})
    if not isinstance(table, Mapping):
        msg = f"{path}: {name} must be a table, [{name}]"
        raise SettingsError(msg)
    return table


def _reading(values: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(values)
    if "map" in out:
        out["map"] = {name: tuple(keys) for name, keys in out["map"].items()}
    return out


def read(job: Job, *, progress: Progress = silent) -> Runs | EventsTable:
    """Read what a job names: runs, or one events table.

    Raises
    ------
    SettingsError
        An events table is given together with something else.
    NoUsableRuns, SourceError
        Nothing can be read.
    """
    if not job.paths:
        msg = "no PATH given: a folder of run logs, a log file or an events table"
        raise SettingsError(msg)
    with fetched(job.paths, job.reading.max_download, progress) as place:
        tables = [(path, read_events(path, job.reading)) for path in place.paths]
        found = [(path, table) for path, table in tables if table is not None]
        if not found:
            return place.named(read_place(place, job.reading, progress=progress))
        if len(job.paths) > 1:
            msg = f"{found[0][0]} is an events table: give it alone, since its runs have no logs"
            raise SettingsError(msg)
        return place.named(found[0][1])


def run(job: Job, *, progress: Progress = silent) -> TwoClocks:
    """Read and analyse.

    Raises
    ------
    TwoclockError
        Nothing can be read or used, in one line.
    """
    source = read(job, progress=progress)
    if isinstance(source, EventsTable):
        return analyse_events(source, job.settings, given=job.to_dict(), progress=progress)
    return analyse(source, job.settings, given=job.to_dict(), progress=progress)


def list_events(
    job: Job, *, progress: Progress = silent
) -> tuple[pd.DataFrame, tuple[Note, ...], tuple[Refusal, ...]]:
    """Return the events of both clocks for every run, the warnings, and what was refused."""
    source = read(job, progress=progress)
    if isinstance(source, EventsTable):
        return source.events, source.notes, source.refused
    found = observe(source, job.settings)
    tables = [by_rule[job.settings.crossing] for _, by_rule in found.learning]
    events = pd.concat([*tables, found.failures.events], ignore_index=True)
    return events, found.notes, source.refused
