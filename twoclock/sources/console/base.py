"""What is the same for every console: one walk over its lines, one log at the end.

A dialect says which lines are rows and what they hold; the configuration above them, the end of the
run and the copies of several ranks are found here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Log
from twoclock.sources.console import endings, settings
from twoclock.sources.console.blocks import Watch
from twoclock.sources.console.lines import Line, iter_pieces
from twoclock.sources.console.literals import read_dict
from twoclock.sources.console.table import Table
from twoclock.sources.json_rows import mapped_keys
from twoclock.sources.rows import RowStore


@dataclass
class Console:
    """What has been seen of a console so far.

    Parameters
    ----------
    path : Path
        The file.
    table : Table
        Its rows.
    watch : Watch
        What lines are waited for.
    settings : Settings
        The configuration that it prints.
    ending : Ending
        What it says about its end.
    notes : list of Note
        Remarks.
    facts : dict
        Facts besides the configuration.
    planned, reached : int, optional
        Last step that was planned, and the last one seen.
    resumed_at : list of int
        Rows before which a checkpoint was loaded.
    files : tuple of Path
        Other files that were read for it.
    """

    path: Path
    table: Table
    watch: Watch
    settings: settings.Settings = field(default_factory=settings.Settings)
    ending: endings.Ending = field(default_factory=endings.Ending)
    notes: list[Note] = field(default_factory=list)
    facts: dict[str, Fact] = field(default_factory=dict)
    planned: int | None = None
    reached: int | None = None
    resumed_at: list[int] = field(default_factory=list)
    files: tuple[Path, ...] = ()

    def add(self, row: Mapping[str, Any], line: Line, step: int | None = None) -> None:
        """Keep a row; `step` is held against the last one that was planned."""
        if self.table.add(row, line):
            self.ending.row()
            if step is not None:
                self.reached = step if self.reached is None else max(step, self.reached)

    def add_dict(
        self, first: Mapping[str, Any], line: Line, at: int, spelt: Callable[[str], str] = str
    ) -> None:
        """Keep the row of `first` and the dictionary that opens at `at`, its keys spelt anew."""
        found = read_dict(line.text, at)
        if found.end < 0:
            self.table.cut = line.number
        row = dict(first)
        for key, value in found.items.items():
            row.setdefault(spelt(key), value)
        if found.items:
            self.add(row, line, next(iter(first.values())))

    def resume(self) -> None:
        """Take note that a checkpoint was loaded before the next row."""
        self.table.restart()
        self.resumed_at.append(self.table.count)


class Parser:
    """Reads the lines of one console.

    Parameters
    ----------
    console : Console
        Where the rows go.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def see(self, line: Line) -> bool:
        """Look at a line; tell whether it was understood."""
        raise NotImplementedError

    def close(self) -> None:
        """Take in what is still open at the end of the file."""

    def finish(self, log: Log) -> Log:
        """Return the log with what only the whole file tells."""
        return log


@dataclass(frozen=True)
class Dialect:
    """One framework's console.

    Parameters
    ----------
    framework : str, optional
        Name of the framework; None: a home-made trainer.
    marks : tuple of bytes
        A line with a row holds one of these.
    tells : callable
        ``tells(line, line before)``: is it a row of this framework?
    parser : type of Parser
        Reads it.
    signs : tuple of bytes
        What stands in the first lines of such a console, though there is no row yet.
    row : str
        How a row looks, for messages.
    more : tuple of bytes
        Marks of other lines that the parser wants.
    remedy : str
        Why it cannot be read and what can, where that is so.
    columns : mapping of str to tuple of str
        As of a log.
    """

    framework: str | None
    marks: tuple[bytes, ...]
    tells: Callable[[str, str], bool]
    parser: type[Parser]
    signs: tuple[bytes, ...] = ()
    row: str = ""
    more: tuple[bytes, ...] = ()
    remedy: str = ""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the reader."""
        return f"{self.framework or 'plain'}-console"


def read_console(dialect: Dialect, path: Path, options: ReadOptions) -> list[Log]:
    """Read a console.

    Raises
    ------
    SourceError
        There is no row in it.
    """
    watch = Watch((*dialect.marks, *dialect.more, *endings.MARKS, *settings.MARKS))
    console = Console(path, Table(RowStore(mapped_keys(options))), watch)
    parser = dialect.parser(console)
    for line in iter_pieces(path, console.notes, watch):
        if not parser.see(line):
            console.ending.see(line, watch)
            if not console.table.count:
                console.settings.see(line, watch)
    parser.close()
    console.settings.close()
    if not console.table.count:
        why = f"no line {dialect.row!r}; the run stopped before its first step"
        msg = f"no metrics: {dialect.remedy or why}"
        raise SourceError(msg, where=str(path))
    return [parser.finish(_log(dialect, console))]


def _log(dialect: Dialect, console: Console) -> Log:
    ended = console.ending.result(console.watch.last)
    planned, reached = console.planned, console.reached
    if ended is None and planned is not None and reached is not None and reached >= planned:
        ended = "completed"
    facts = dict(console.facts)
    if ended is not None:
        facts["ended"] = Fact(ended, "log")
    return Log(
        console.path,
        console.table.store.finish(),
        dialect.name,
        framework=dialect.framework,
        config=console.settings.flat,
        facts=facts,
        columns=dialect.columns,
        resumed_at=tuple(console.resumed_at),
        files=(console.path, *console.files),
        notes=(*console.notes, *console.table.notes(str(console.path))),
    )
