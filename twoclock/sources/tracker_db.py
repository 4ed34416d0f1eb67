"""SQLite databases: whose they are is told by their tables."""

from __future__ import annotations

from pathlib import Path

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Log, Reader
from twoclock.sources.databases import is_database, open_database
from twoclock.sources.mlflow_db import is_mlflow, read_mlflow_db
from twoclock.sources.trackio import is_trackio, read_trackio


def read_database(path: Path, options: ReadOptions) -> list[Log]:
    """Read all runs of a database of MLflow or trackio.

    Raises
    ------
    SourceError
        It is neither's, is damaged, or has no metrics.
    """
    notes: list[Note] = []
    with open_database(path, notes) as database:
        if is_mlflow(database):
            return read_mlflow_db(database, path, options, notes)
        if is_trackio(database):
            return read_trackio(database, path, options, notes)
    msg = "no metrics: a database, but not one of MLflow or trackio"
    raise SourceError(msg, where=str(path))


DATABASE = Reader("database", is_database, read_database)
