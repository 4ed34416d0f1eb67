"""Tables for a terminal of any width: a number is never cut, and no word loses letters.

Where the columns do not fit side by side, long texts move below their row; where the numbers do
not fit beside the label either, they move below it; at last each row becomes a list of pairs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

GAP = "  "
INDENT = "  "


@dataclass(frozen=True)
class Column:
    """One column of a grid.

    Parameters
    ----------
    header : str
        Its header.
    right : bool
        Whether it is aligned to the right (numbers).
    prose : bool
        Whether it may stand below its row, where it is wrapped at commas and spaces.
    """

    header: str
    right: bool = False
    prose: bool = False


@dataclass(frozen=True)
class Row:
    """The texts of one row, one per column, and the style of the cells after the label."""

    cells: Sequence[str]
    style: str = ""


class Grid:
    """A table as a rich renderable that takes the widest layout which fits the console.

    Parameters
    ----------
    columns : sequence of Column
        The first one is the label of a row; those of prose come last.
    rows : iterable of Row
        One text per column.
    title : str
        Shown above, bold.
    """

    def __init__(self, columns: Sequence[Column], rows: Iterable[Row], title: str = "") -> None:
        self.columns = tuple(columns)
        self.rows = tuple(rows)
        self.title = title

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the widest layout that fits."""
        width = options.max_width
        rule = "-" if options.ascii_only else "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
        if self.title:
            yield Text(self.title, style="bold", overflow="fold")
        for line in self.lines(width, rule):
            line.overflow = "fold"  # only what cannot be broken at all is wider: folded, not cut
            yield line

    def lines(self, width: int, rule: str = "-") -> Iterator[Text]:
        """Yield header, rule and rows for a console `width` columns wide."""
        layouts: tuple[Callable[[], list[list[Text]]], ...] = (
            self._side_by_side,
            lambda: self._prose_below(width),
            lambda: self._label_above(width),
        )
        blocks = next(
            (made for made in (layout() for layout in layouts) if _widest(made) <= width), None
        )
        if blocks is None:
            blocks = self._pairs(width)
        else:
            yield from blocks[0]
            yield Text(rule * min(_widest(blocks), width))
            blocks = blocks[1:]
        for block in blocks:
            yield from block

    def _numbers(self) -> list[int]:
        return [i for i, column in enumerate(self.columns) if i and not column.prose]

    def _prose(self) -> list[int]:
        return [i for i, column in enumerate(self.columns) if column.prose]

    def _side_by_side(self) -> list[list[Text]]:
        every = list(range(len(self.columns)))
        return [[line] for line in self._aligned(every)]

    def _prose_below(self, width: int) -> list[list[Text]]:
        head, *lines = self._aligned([0, *self._numbers()])
        blocks = [[line, *self._below(row, width)] for line, row in self._with(lines)]
        return [[head], *blocks]

    def _label_above(self, width: int) -> list[list[Text]]:
        head, *lines = self._aligned(self._numbers(), INDENT)
        first = [Text(self.columns[0].header, style="bold"), head]
        blocks = [
            [*_texts(row.cells[0], width), line, *self._below(row, width)]
            for line, row in self._with(lines)
        ]
        return [first, *blocks]

    def _pairs(self, width: int) -> list[list[Text]]:
        blocks = []
        for row in self.rows:
            pairs = "; ".join(
                f"{self.columns[i].header} {row.cells[i]}" for i in self._numbers() if row.cells[i]
            )
            label = _texts(f"{self.columns[0].header} {row.cells[0]}", width)
            lines = _texts(pairs, width, INDENT, row.style)
            blocks.append([*label, *lines, *self._below(row, width)])
        return blocks

    def _with(self, lines: Sequence[Text]) -> list[tuple[Text, Row]]:
        return list(zip(lines, self.rows, strict=True))

    def _below(self, row: Row, width: int) -> list[Text]:
        text = "; ".join(row.cells[i] for i in self._prose() if row.cells[i])
        return _texts(text, width, INDENT * 2)

    def _aligned(self, shown: Sequence[int], indent: str = "") -> list[Text]:
        """Return the header and one line per row, with the columns `shown` aligned."""
        heads = [self.columns[i].header for i in shown]
        widths = [
            max(cell_len(head), *(cell_len(row.cells[i]) for row in self.rows), 0)
            for i, head in zip(shown, heads, strict=True)
        ]
        lines = []
        for row in (Row(tuple(c.header for c in self.columns), "bold"), *self.rows):
            line = Text(indent)
            for i, width in zip(shown, widths, strict=True):
                text = row.cells[i]
                space = " " * (width - cell_len(text))
                style = row.style if i or row.style in ("bold", "dim") else ""
                line.append(GAP if line.plain.strip() or i != shown[0] else "")
                line.append(space + text if self.columns[i].right else text + space, style=style)
            line.rstrip()
            lines.append(line)
        return lines


def _widest(blocks: Sequence[Sequence[Text]]) -> int:
    return max((line.cell_len for block in blocks for line in block), default=0)


def _texts(text: str, width: int, indent: str = "", style: str = "") -> list[Text]:
    return [Text(line, style=style) for line in _wrap(text, width, indent)]


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text` broken at spaces; a word is broken only where it alone is too long."""
    return textwrap.wrap(
        text,
        max(width, len(indent) + 12),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
