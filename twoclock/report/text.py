"""The terminal text of a result: what was read, both clocks, the verdicts, what to doubt.

Builds rich renderables; only the command line prints them.
"""

from __future__ import annotations

import io
import textwrap

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from twoclock.notes import Note, Refusal
from twoclock.report.clock_text import by_event, clock_lines
from twoclock.report.names import Names, all_notes
from twoclock.report.parts import MOST, Lines, bullet, heading, more
from twoclock.report.verdict_text import between, independence, rise, windows
from twoclock.results import TwoClocks

INFORMATION = ("cell_means",)
"""Notes that add a figure and doubt nothing: in the tables and in `--json`, not on the screen."""

LONGEST = 150
"""Characters of a warning on the screen; the whole of it is in `--json` and in the tables."""


def render(result: TwoClocks) -> Group:
    """Return the result as rich renderables that fit 80 columns and use more where there are more.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    """
    names = Names(result)
    parts: Lines = [_head(result, names)]
    published = {"learning": result.published, "failure": result.published}
    for fits in by_event(result.fits):
        # Once per clock: a ladder of targets would repeat it.
        beside = published.pop(fits[0].clock, result.published.iloc[:0])
        parts += ["", *clock_lines(fits, beside, names)]
    for part in (rise, independence, between, windows, _warnings, _refused):
        lines = part(result, names)
        if lines:
            parts += ["", *lines]
    return Group(*parts)


def to_text(result: TwoClocks, *, width: int = 80) -> str:
    """Return `render` as plain text `width` columns wide."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(render(result))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _head(result: TwoClocks, names: Names) -> Text:
    text = f"{result.n_read:,} runs read, {result.n_used:,} used"
    if result.refused:
        text += f", {len(result.refused):,} not read"
    out = Text(text, style="bold")
    if names.common:
        out.append(f"\nAll with {names.common}", style="not bold dim")
    for line in names.details:
        out.append(f"\nWith {line}", style="not bold dim")
    return out


def _warnings(result: TwoClocks, names: Names) -> Lines:
    """Return one line of warning per code: the first in short, and how many more there are."""
    every = [note for note in all_notes(result, names) if note.code not in INFORMATION]
    if not every:
        return []
    lines: Lines = [heading(f"Warnings ({len(every):,}; `--json` and `--out` have each in full)")]
    for code in dict.fromkeys(note.code for note in every):
        group = [note for note in every if note.code == code]
        text = Text(f"{code}: ", style="yellow")
        rest = f" (+{len(group) - 1} more)" if len(group) > 1 else ""
        lines.append(bullet(text.append(_note(group[0]) + rest, style="default")))
    return lines


def _note(note: Note) -> str:
    where = f"{note.where}: " if note.where else ""
    times = f" ({note.count:,} times)" if note.count > 1 else ""
    return textwrap.shorten(f"{where}{note.message}", LONGEST, placeholder=" ...") + times


def _refused(result: TwoClocks, _names: Names) -> Lines:
    if not result.refused:
        return []
    lines: Lines = [heading(f"Not read ({len(result.refused):,})")]
    lines += [_refusal(item) for item in result.refused[:MOST]]
    return lines + more(len(result.refused), "`twoclock runs` lists all")


def _refusal(item: Refusal) -> Padding:
    return bullet(f"{item.path}: {item.reason}")
