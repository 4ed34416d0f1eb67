"""What was refused and why, and what to add: paragraphs for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from twoclock.notes import NAMED, Refusal, printable
from twoclock.report.parts import Lines, bullet, heading
from twoclock.results import plain
from twoclock.runs import ReadFile
from twoclock.runs.wants import Want
from twoclock.schema import RUNS
from twoclock.words import number_text


def refused_list(refused: Sequence[Refusal], *, full: bool = False) -> Group:
    """Return what was refused: each reason once, with the files that it is about.

    Parameters
    ----------
    refused : sequence of Refusal
        From `read_runs`.
    full : bool
        Name every file.
    """
    if not refused:
        return Group()
    reasons: dict[str, list[str]] = {}
    for item in refused:
        reasons.setdefault(item.reason, []).append(item.path)
    lines: Lines = ["", heading(f"Refused ({len(refused):,})")]
    for reason, paths in reasons.items():
        if len(paths) == 1:
            lines.append(bullet(f"{printable(paths[0])}: {reason}"))
        else:
            lines.append(bullet(f"{len(paths):,} files: {reason}"))
            lines.append(_deeper(_names(paths, full=full)))
    return Group(*lines)


def want_list(wants: Sequence[Want], *, full: bool = False) -> Group:
    """Return what to add: each missing fact once, with what gives it and who lacks it.

    Parameters
    ----------
    wants : sequence of Want
        From `twoclock.runs.wants`.
    full : bool
        Name every run and file.
    """
    if not wants:
        return Group()
    lines: Lines = ["", heading("To add (`--init` writes a runs.yaml to fill in)")]
    for want in wants:
        lines.append(bullet(Text(_lack(want), style="yellow" if want.needed else "")))
        if want.keys:
            lines.append(_deeper("KEY is one of " + ", ".join(map(printable, want.keys))))
        lines.append(_deeper(_names(want.subjects, full=full)))
    return Group(*lines)


def _lack(want: Want) -> str:
    question, count = want.question, len(want.subjects)
    what, verb = ("file", "needs") if want.needed else ("run", "has")
    article = "a" if want.needed else "no"
    if count != 1:
        what, verb = what + "s", "need" if want.needed else "have"
    if question.words[0] in "aeiou" and want.needed:
        article = "an"
    if question.words == "clipping" and not want.needed:
        head = f"{count:,} {what} may clip or not, which is unknown"
    elif question.unread and not want.needed:
        head = f"{count:,} {what} {verb} {question.unread}"
    else:
        head = f"{count:,} {what} {verb} {article} {question.words}"
    cost = f" ({question.cost})" if question.cost and not want.needed else ""
    return f"{head}{cost}: {question.given_by}"


def _names(paths: Sequence[str], *, full: bool) -> str:
    """Return paths without the folder that all share, which is told first."""
    shared = _shared_folder(paths)
    shown = paths if full else paths[:NAMED]
    names = [printable(path[len(shared) :]) for path in shown]
    rest = len(paths) - len(shown)
    end = f" and {rest:,} more (--sources names all)" if rest else ""
    start = f"in {printable(shared)}: " if shared else ""
    return start + ", ".join(names) + end


def _shared_folder(paths: Sequence[str]) -> str:
    if len(paths) < 2:
        return ""
    parts = [PurePath(path).parent.parts for path in paths]
    count = 0
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        count += 1
    shared = str(PurePath(*parts[0][:count])).rstrip("/") + "/" if count else ""
    return shared if all(path.startswith(shared) for path in paths) else ""


def _deeper(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 4), expand=False)


def source_list(table: pd.DataFrame, files: Sequence[ReadFile]) -> Group:
    """Return for each run where each of its facts came from, and the files it was read from.

    Parameters
    ----------
    table : DataFrame
        From `twoclock.overview.run_rows`.
    files : sequence of ReadFile
        From `read_runs`.
    """
    behind: dict[str, list[str]] = {}
    for file in files:
        for run in file.run_ids:
            behind.setdefault(run, []).append(f"{printable(file.path)} ({file.reader})")
    lines: Lines = ["", heading("Where it came from")]
    for record in table.to_dict("records"):
        name = str(record["run_id"])
        lines.append(bullet(Text(printable(name), style="bold")))
        facts = [
            f"{column.name} {_value(record[column.name])} ({record[f'{column.name}_from']})"
            for column in RUNS.columns
            if column.sourced and plain(record.get(f"{column.name}_from")) is not None
        ]
        lines.append(_deeper(", ".join(facts)))
        lines += [_deeper(file) for file in behind.get(name, ())]
    return Group(*lines)


def _value(value: object) -> str:
    value = plain(value)
    if isinstance(value, float) and math.isfinite(value):
        return number_text(value)
    return printable(str(value))
