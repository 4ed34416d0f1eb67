"""Tables with a header line: CSV, TSV and the ``;`` dialect with decimal commas.

A stray quote costs one row and not the rest of the file; a quoted cell may go over some lines.
A blank cell is "not logged"; a cell that says NaN was logged as NaN.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head, Log, Reader
from twoclock.sources.cells import text_number
from twoclock.sources.json_rows import logs_of, run_stores
from twoclock.sources.line_cells import Lines, as_text, split
from twoclock.sources.several_runs import RunStores
from twoclock.sources.text import iter_lines

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
_CHART = re.compile(r"(?P<run>.+) - (?P<key>.+)")
_NAME = re.compile(r"\s*[^\s{}()\[\]]{1,80}\s*")
_ENGLISH = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*")
_THOUSANDS = re.compile(r"'\s*[+-]?\d{1,3}(?:[., \u00a0\u202f]\d{3})+(?:[.,]\d+)?\s*'")
_CHART_BOUNDS = ("__MIN", "__MAX")

Columns = list[tuple[int, str]]

BLOCK_CELLS = 100_000
"""Cells that are taken up at once."""


def find_delimiter(header: str) -> str:
    """Return the separator of a header line.

    Examples
    --------
    >>> find_delimiter("step;val_acc"), find_delimiter("step,val_acc")
    (';', ',')
    """
    counts = {mark: header.count(mark) for mark in "\t;,"}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


@dataclass
class Dialect:
    """How a file writes its cells, learnt from its header and lines.

    Parameters
    ----------
    delimiter : str
        Separator.
    header : list of str
        Names of the columns.
    decimal_commas : int
        Cells with a decimal comma so far.
    shortest : dict of int to int
        Length of the shortest cell of each column, to recognise a number that is cut.
    """

    delimiter: str
    header: list[str]
    decimal_commas: int = 0
    shortest: dict[int, int] = field(default_factory=dict)

    def cells(self, line: str) -> list[str] | None:
        """Return the cells with decimal points, or None when the line does not fit the header."""
        cells = split(line, self.delimiter)
        if cells is None or len(cells) > len(self.header):
            if cells is None or any(c.strip() for c in cells[len(self.header) :]):
                return None
            cells = cells[: len(self.header)]
        if len(cells) < len(self.header):
            return None
        if self.delimiter != "," or line.count(",") >= len(cells):
            cells = [self._point(cell) for cell in cells]
        return cells

    def _point(self, cell: str) -> str:
        if (
            "," in cell
            and _DECIMAL_COMMA.fullmatch(cell)
            and (self.delimiter != "," or not _ENGLISH.fullmatch(cell))
        ):
            self.decimal_commas += 1
            return cell.replace(",", ".")
        return cell

    def is_cut(self, cells: list[str]) -> bool:
        """Tell whether the last cell of a line without an end has lost digits.

        It has if it is shorter than any before, or ends where a number cannot.
        """
        last = len(self.header) - 1
        text = cells[last].strip()
        return len(text) < self.shortest.get(last, 0) or text[-1:] in (".", "-", "+", "e", "E")

    def remember(self, cells: list[str]) -> None:
        """Note the length of the last cell."""
        last = len(self.header) - 1
        length = len(cells[last].strip())
        if length:
            self.shortest[last] = min(length, self.shortest.get(last, length))


def read_table(path: Path, notes: list[Note]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield (line, header, cells) of each row of a delimited file.

    Raises
    ------
    SourceError
        There is no header.
    """
    dialect: Dialect | None = None
    bad: list[int] = []
    cut = 0
    lines = Lines(iter_lines(path, notes))
    for number, raw in lines:
        line = as_text(raw)
        if not line.strip():
            continue
        if dialect is None:
            dialect = _dialect(path, number, line, lines)
            continue
        cells = dialect.cells(line)
        if cells is None and line.count('"') % 2:
            cells = lines.closed(raw, dialect.cells)
        ended = raw.endswith(b"\n")
        if cells is None or (not ended and dialect.is_cut(cells)):
            if ended:
                bad.append(number)
            else:
                cut = number
            continue
        dialect.remember(cells)
        yield number, dialect.header, cells
    _tell(path, notes, dialect, bad, cut)


def read_header(path: Path) -> list[str]:
    """Return the names in the header of a delimited file; empty when the file has no line.

    Raises
    ------
    SourceError
        It cannot be opened, or the first line is no header.
    """
    lines = Lines(iter_lines(path, []))
    for number, raw in lines:
        line = as_text(raw)
        if line.strip():
            return _dialect(path, number, line, lines).header
    return []


def _dialect(path: Path, number: int, line: str, lines: Lines) -> Dialect:
    """Return how the file writes its cells; a first line may tell the separator alone."""
    told = _SEPARATOR.fullmatch(line)
    if told:
        number, raw = next(lines, (number, b""))
        line = as_text(raw)
    delimiter = told[1] if told else find_delimiter(line)
    cells = split(line, delimiter)
    header = [cell.strip().strip('"') for cell in cells or []]
    if not header or all(isinstance(text_number(name), float) for name in header):
        msg = "no header: the first line has numbers only; name the columns in it"
        raise SourceError(msg, where=f"{path} line {number}")
    return Dialect(delimiter, header)


def _tell(path: Path, notes: list[Note], dialect: Dialect | None, bad: list[int], cut: int) -> None:
    if cut:
        notes.append(Note("cut_line", "last line is cut and left out", where=f"{path} line {cut}"))
    if bad:
        message = f"{len(bad)} lines do not fit the header and are left out, first {bad[0]}"
        notes.append(Note("bad_lines", message, where=f"{path} line {bad[0]}", count=len(bad)))
    if dialect is not None and dialect.decimal_commas:
        message = f"read with separator {dialect.delimiter!r} and decimal commas"
        notes.append(Note("decimal_commas", message, where=str(path)))


def read_csv(path: Path, options: ReadOptions) -> list[Log]:
    """Read a delimited file: one run, or one for each value of a ``run_id`` or ``run`` column."""
    notes: list[Note] = []
    stores = run_stores(options)
    runs: list[tuple[str, Columns]] = []
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, header, cells in read_table(path, notes):
        if not runs:
            runs = _runs_in_header(header, path, notes)
        lines.append(line)
        rows.append(cells)
        if len(rows) * len(header) >= BLOCK_CELLS:
            _keep(stores, lines, rows, runs)
            lines, rows = [], []
    if rows:
        _keep(stores, lines, rows, runs)
    return [_tell_thousands(log) for log in logs_of(path, stores, notes, "csv")]


def _tell_thousands(log: Log) -> Log:
    """Remark on numbers with thousands separators, which are not guessed."""
    notes = [
        Note(
            "thousands",
            f"{bad.count} values of {key} have thousands separators, first {bad.example}: not "
            "read; save the table without them",
            where=f"{log.path} line {bad.line}",
            count=bad.count,
        )
        for key, bad in sorted(log.rows.rejected.items())
        if _THOUSANDS.fullmatch(bad.example)
    ]
    return replace(log, notes=(*log.notes, *notes)) if notes else log


def _keep(
    stores: RunStores, lines: list[int], rows: list[list[str]], runs: list[tuple[str, Columns]]
) -> None:
    """Keep a block of rows, column by column: a wide export has thousands of runs in each row."""
    cells = list(zip(*rows, strict=True))
    filled = [all(map(str.strip, column)) for column in cells]
    for name, columns in runs:
        table = {key: cells[index] for index, key in columns}
        if any(filled[index] for index, _ in columns):
            stores.add_table(lines, table, name)
            continue
        some = [any(map(str.strip, row)) for row in zip(*table.values(), strict=True)]
        stores.add_table(
            list(compress(lines, some)),
            {key: tuple(compress(column, some)) for key, column in table.items()},
            name,
        )


def _runs_in_header(header: list[str], path: Path, notes: list[Note]) -> list[tuple[str, Columns]]:
    """Return each run's name and (index, key) columns: several runs in a chart export."""
    chart = {i: m for i, name in enumerate(header) if (m := _CHART.fullmatch(name))}
    if not chart or len(chart) < len(header) - 1:
        return [("", list(enumerate(_tell_doubles(header, path, notes))))]
    shared = [(i, name) for i, name in enumerate(header) if i not in chart]
    runs: dict[str, Columns] = {}
    taken: set[tuple[str, str]] = set()
    copies: Counter[str] = Counter()
    for i, match in chart.items():
        if match["key"].endswith(_CHART_BOUNDS):
            continue
        name = match["run"]
        while (name, match["key"]) in taken:
            copies[header[i]] += 1
            name = f"{match['run']}#{copies[header[i]] + 1}"
        taken.add((name, match["key"]))
        runs.setdefault(name, []).append((i, match["key"]))
    if copies:
        message = "runs share a display name; told apart by #2, #3, ..."
        notes.append(Note("same_name", message, where=str(path)))
    return [(name, [*shared, *columns]) for name, columns in runs.items()]


def _tell_doubles(header: list[str], path: Path, notes: list[Note]) -> list[str]:
    """Return the header with columns of one name numbered, so that none is taken for the other."""
    doubles = {name: None for name, n in sorted(Counter(header).items()) if name and n > 1}
    if not doubles:
        return header
    message = f"several columns are named {', '.join(doubles)}; read with #1, #2, ... behind it"
    notes.append(Note("same_column", message, where=str(path)))
    seen: dict[str, int] = {}
    numbered: list[str] = []
    for name in header:
        seen[name] = seen.get(name, 0) + 1
        numbered.append(f"{name}#{seen[name]}" if name in doubles else name)
    return numbered


def _sniff(head: Head) -> bool:
    lines = [line for line in head.text.splitlines() if line.strip()][:2]
    if head.name.endswith((".csv", ".tsv")):
        return bool(lines)
    if len(lines) < 2:
        return False
    delimiter = find_delimiter(lines[0])
    names, cells = (split(line, delimiter) or [] for line in lines)
    plausible = len(names) > 1 and all(_NAME.fullmatch(name) for name in names)
    return (
        plausible
        and len(cells) == len(names)
        and any(isinstance(text_number(cell), float) for cell in cells)
    )


CSV = Reader("csv", _sniff, read_csv)
