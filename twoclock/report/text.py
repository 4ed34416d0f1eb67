"""The terminal text of a result: what was read, both clocks, the verdicts, what to doubt.

Builds rich renderables; only the command line prints them. Says no more than the results' own
verdicts: a difference whose interval holds zero is "not shown", never "absent".
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from twoclock.notes import Note, Refusal
from twoclock.report.names import Names, per_cent
from twoclock.results import ClockFit, Difference, SafeWindow, TwoClocks
from twoclock.words import (
    column_words,
    common_column,
    equivalence_text,
    estimate_text,
    event_text,
    exponent_text,
    margin_text,
    number_text,
    stratum_order,
    target_text,
)

MOST = 5
"""Differences and refusals shown one by one; the rest are counted."""

Lines = list[RenderableType]


def render(result: TwoClocks) -> Group:
    """Return the result as rich renderables that fit 80 columns and use more where there are more.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    """
    names = Names(result)
    parts: Lines = [_head(result, names)]
    for fits in _by_event(result.fits):
        parts += ["", _clock(fits, result, names)]
    for part in (_rise, _independence, _between, _windows, _warnings, _refused):
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
    return out


def _by_event(fits: Sequence[ClockFit]) -> list[list[ClockFit]]:
    keys = list(dict.fromkeys((fit.clock, fit.targets) for fit in fits))
    return [
        sorted(
            (fit for fit in fits if (fit.clock, fit.targets) == key),
            key=lambda fit: stratum_order(fit.stratum),
        )
        for key in keys
    ]


def _table(title: str, columns: Iterable[tuple[str, str]]) -> Table:
    """Return an open table; `columns` are (header, justify); the first and the last may wrap."""
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_edge=False,
    )
    for i, (header, justify) in enumerate(columns):
        table.add_column(Text(header), justify=justify, no_wrap=i > 0, overflow="fold")  # type: ignore[arg-type]
    return table


def _clock(fits: Sequence[ClockFit], result: TwoClocks, names: Names) -> Table:
    level = next((fit.exponent.level for fit in fits if fit.exponent), 0.95)
    title = f"{event_text(fits[0].clock, fits[0].targets)}, R = c * B^exponent"
    word, labels = common_column([names.stratum(fit.stratum) for fit in fits])
    columns = [
        (word, "left"),
        (f"exponent [{per_cent(level)}]", "left"),
        ("reached" if fits[0].clock == "learning" else "failed", "right"),
        ("batch sizes", "left"),
        ("rollouts", "right"),
    ]
    table = _table(title, columns)
    for fit, label in zip(fits, labels, strict=True):
        style = "" if fit.status == "converged" else "yellow"
        table.add_row(
            Text(label),
            Text(exponent_text(fit), style=style),
            f"{len(fit.used) - fit.count('right'):,} of {len(fit.used):,}",
            Text(_sizes(fit)),
            _rollouts(fit),
        )
    for name, exponent in _published(result, fits[0].clock):
        table.add_row(Text(name), exponent, style="dim")
    return table


def _published(result: TwoClocks, clock: str) -> list[tuple[str, str]]:
    """Return name and exponent of what was published for a clock."""
    frame = result.published
    rows = frame[(frame["clock"] == clock) & frame["exponent"].notna()]
    rates = rows["base_lr"] if "base_lr" in rows else [math.nan] * len(rows)
    return [
        ("published" if math.isnan(rate) else f"published {number_text(rate)}", f"{exponent:.2f}")
        for rate, exponent in zip(map(float, rates), map(float, rows["exponent"]), strict=True)
    ]


def _sizes(fit: ClockFit) -> str:
    """Return the batch sizes of the headline, and in brackets how many of all cells they are."""
    sizes = fit.batch_sizes
    if not sizes:
        return "none"
    text = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,}-{sizes[-1]:,}"
    cells = len(fit.cells)
    return f"{text} ({len(sizes)} of {cells})" if cells > len(sizes) else f"{text} ({cells})"


def _rollouts(fit: ClockFit) -> str:
    """Return the range over cells of the median rollouts to the event."""
    known = [c.rollouts_to_event for c in fit.cells if c.rollouts_to_event is not None]
    if not known:
        return ""
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return low if low == high else f"{low}-{high}"


def _bullet(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2))


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def difference_text(item: Difference) -> str:
    """Return a difference of exponents with what its interval shows and no more."""
    if item.estimate is None:
        return "no answer: an exponent is not identified"
    value = estimate_text(item.estimate, item.lower, item.upper)
    if item.lower is None or item.upper is None:
        return f"{value}"
    if item.lower > 0:
        verdict = "larger"
    elif item.upper < 0:
        verdict = "smaller"
    else:
        verdict = "no difference shown (which is no evidence of equality)"
    return f"{value} at {per_cent(item.level)}: {verdict}"


def _over(item: Difference) -> str:
    if not item.batch_sizes:
        return ""
    return ", over B = " + ", ".join(f"{size:,}" for size in item.batch_sizes)


def _rise(result: TwoClocks, names: Names) -> Lines:
    if not result.rise:
        return []
    lines: Lines = [_heading("Does the exponent rise with the base learning rate?")]
    for item in result.rise:
        clock = f"{item.a.clock}{_target(item)}"
        pair = f"{names.stratum(item.a.stratum)} minus {names.stratum(item.b.stratum)}"
        lines.append(_bullet(f"{clock}, {pair}{_over(item)}: {difference_text(item)}"))
    return lines


def _target(item: Difference) -> str:
    return f" to {target_text(item.a.targets[0])}" if item.a.targets else ""


def _independence(result: TwoClocks, names: Names) -> Lines:
    if not result.equivalence:
        return []
    sizes = dict.fromkeys(margin_text(item.margin, item.factor) for item in result.equivalence)
    lines: Lines = [_heading(f"Is failure independent of batch size? Within {', '.join(sizes)}")]
    styles = {"supported": "green", "rejected": "red"}
    for item in result.equivalence:
        text = Text(f"{names.stratum(item.fit.stratum)}: ")
        text.append(equivalence_text(item), style=styles.get(item.verdict, "yellow"))
        lines.append(Padding(text, (0, 0, 0, 2)))
    return lines


def _between(result: TwoClocks, names: Names) -> Lines:
    """Return the other comparisons: between the clocks of a stratum, and between strata."""
    items = [item for item in result.differences if item not in result.rise]
    if not items:
        return []
    lines: Lines = [_heading("Differences of exponents")]
    for item in items[:MOST]:
        if item.a.stratum == item.b.stratum:
            pair = f"{names.stratum(item.a.stratum)}, {_short(item.a)} minus {_short(item.b)}"
        else:
            differs = ", ".join(column_words(name) for name in item.differs)
            pair = f"{names.fit(item.a)} minus {names.fit(item.b)} (differ in {differs})"
        lines.append(_bullet(f"{pair}: {difference_text(item)}"))
    return lines + _more(len(items), "--json or --out lists all")


def _more(n: int, where: str) -> Lines:
    return [_bullet(f"and {n - MOST:,} more: {where}", "dim")] if n > MOST else []


def _short(ref: object) -> str:
    clock, targets = getattr(ref, "clock", ""), getattr(ref, "targets", ())
    return f"{clock} to {target_text(targets[0])}" if targets else str(clock)


def _windows(result: TwoClocks, names: Names) -> Lines:
    if not result.safe_windows:
        return []
    level = per_cent(result.safe_windows[0].level)
    lines: Lines = [_heading(f"Safe window: responses to failure / to target [{level}]")]
    return lines + [_bullet(_window_text(window, names)) for window in result.safe_windows]


def _window_text(window: SafeWindow, names: Names) -> str:
    rows = list(zip(window.batch_size, window.ratio, window.lower, window.upper, strict=True))
    ends = rows if len(rows) <= 2 else [rows[0], rows[-1]]
    ratios = "; ".join(f"B = {b:,.0f}: {estimate_text(*r, least=1)}" for b, *r in ends)
    scale = estimate_text(window.exponent.estimate, window.exponent.lower, window.exponent.upper)
    head = f"{names.stratum(window.stratum)}, target {target_text(window.target)}"
    return f"{head}: {ratios}; goes as B^{scale}"


def _warnings(result: TwoClocks, _names: Names) -> Lines:
    """Return the warnings by code, the first of each in full."""
    if not result.notes:
        return []
    order = list(dict.fromkeys(note.code for note in result.notes))
    notes = sorted(result.notes, key=lambda note: order.index(note.code))
    groups = [(code, list(group)) for code, group in groupby(notes, key=lambda note: note.code)]
    total = sum(note.count for note in result.notes)
    lines: Lines = [_heading(f"Warnings ({total:,})")]
    for code, group in groups:
        text = Text(f"{code}: ", style="yellow")
        text.append(_note(group[0]), style="default")
        if len(group) > 1:
            text.append(f" (and {len(group) - 1:,} more like it)", style="dim")
        lines.append(Padding(text, (0, 0, 0, 2)))
    return lines


def _note(note: Note) -> str:
    where = f"{note.where}: " if note.where else ""
    times = f" ({note.count:,} times)" if note.count > 1 else ""
    return f"{where}{note.message}{times}"


def _refused(result: TwoClocks, _names: Names) -> Lines:
    if not result.refused:
        return []
    lines: Lines = [_heading(f"Not read ({len(result.refused):,})")]
    lines += [_refusal(item) for item in result.refused[:MOST]]
    return lines + _more(len(result.refused), "`twoclock runs` lists all")


def _refusal(item: Refusal) -> Padding:
    return _bullet(f"{item.path}: {item.reason}")
