"""SQLite databases of trackers, opened so that nothing beside them changes and nothing runs.

A database with a journal of writes that are not yet in it is read from a copy, with its journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.sources.base import Head
from twoclock.sources.packed import copied, unpacked

MAGIC = b"SQLite format 3\0"

CELL_LIMIT = 16 << 20
"""Largest text in one cell that is read, in bytes."""

_JOURNALS = ("-wal", "-journal")
_NAME = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"


@dataclass(frozen=True)
class Database:
    """An open database.

    Parameters
    ----------
    path : Path
        As given, for messages.
    connection : sqlite3.Connection
        Open for reading.
    tables : mapping of str to tuple of str
        Names of the columns of each plain table.
    """

    path: Path
    connection: sqlite3.Connection
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises
        ------
        SourceError
            The database is damaged there.
        """
        try:
            yield from self.connection.execute(query, values)
        except (sqlite3.Error, OverflowError, MemoryError) as err:
            msg = f"the database cannot be read ({err})"
            raise SourceError(msg, where=str(self.path)) from err

    def has(self, table: str, *columns: str) -> bool:
        """Tell whether there is a table with these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])


@contextmanager
def open_database(path: Path, notes: list[Note]) -> Iterator[Database]:
    """Open a database, packed or plain, for reading.

    Raises
    ------
    SourceError
        It cannot be opened, or is none.
    """
    with unpacked(path, notes) as plain:
        beside = [plain.with_name(plain.name + ending) for ending in _JOURNALS]
        journals = [file for file in beside if file.is_file() and file.stat().st_size]
        if journals:
            with copied([plain, *journals]) as copy:
                yield from _opened(path, copy, "mode=rw")
        else:
            yield from _opened(path, plain, "mode=ro&immutable=1")


def _opened(path: Path, file: Path, mode: str) -> Iterator[Database]:
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(file.absolute()))}?{mode}", uri=True, timeout=5
        )
    except sqlite3.Error as err:
        msg = f"the database cannot be opened ({err})"
        raise SourceError(msg, where=str(path)) from err
    try:
        yield Database(path, connection, _prepared(path, connection))
    finally:
        connection.close()


def _prepared(path: Path, connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Forbid what a database could make run; return the columns of its plain tables."""
    connection.text_factory = lambda data: data.decode("utf-8", errors="replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, CELL_LIMIT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    try:
        for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        found = [(str(name), str(sql)) for name, sql in connection.execute(_NAME)]
        plain = [name for name, sql in found if "VIRTUAL" not in sql.upper()[:20]]
        info = "SELECT name FROM pragma_table_info(?)"
        return {
            name: tuple(str(column) for (column,) in connection.execute(info, (name,)))
            for name in plain
        }
    except (sqlite3.Error, OverflowError) as err:
        msg = f"the database is damaged ({err})"
        raise SourceError(msg, where=str(path)) from err


def is_database(head: Head) -> bool:
    """Tell whether a file is a database."""
    return head.data.startswith(MAGIC)
