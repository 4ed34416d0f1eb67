"""The verdicts of the terminal text: differences, independence of batch size, safe windows.

Says no more than the results: a difference whose interval holds zero is "not shown", never
"absent".
"""

from __future__ import annotations

from rich.text import Text

from twoclock.report.names import Names, fit_of, per_cent
from twoclock.report.parts import MOST, Lines, bullet, heading, more
from twoclock.results import Difference, FitRef, SafeWindow, TwoClocks
from twoclock.words import (
    column_words,
    count_text,
    equivalence_text,
    estimate_text,
    margin_text,
    target_text,
)


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
    return ", over B = " + ", ".join(map(count_text, item.batch_sizes))


def rise(result: TwoClocks, names: Names) -> Lines:
    """Return the section on exponents at the highest against the lowest base learning rate."""
    if not result.rise:
        return []
    lines: Lines = [heading("Does the exponent rise with the base learning rate?")]
    for item in result.rise:
        clock = f"{item.a.clock}{_target(item)}"
        pair = f"{names.stratum(item.a.stratum)} minus {names.stratum(item.b.stratum)}"
        lines.append(bullet(f"{clock}, {pair}{_over(item)}: {difference_text(item)}"))
    return lines


def _target(item: Difference) -> str:
    return f" to {target_text(item.a.targets[0])}" if item.a.targets else ""


def independence(result: TwoClocks, names: Names) -> Lines:
    """Return the section on the failure clock's independence of batch size."""
    if not result.equivalence:
        return []
    margins = dict.fromkeys(margin_text(item.margin, None) for item in result.equivalence)
    lines: Lines = [heading(f"Is failure independent of batch size? Within {', '.join(margins)}")]
    styles = {"supported": "green", "rejected": "red"}
    for item in result.equivalence:
        text = Text(f"{names.stratum(item.fit.stratum)}: ")
        style = styles.get(item.verdict, "yellow")
        text.append(equivalence_text(item, fit_of(result, item.fit)), style=style)
        lines.append(bullet(text))
    return lines


def between(result: TwoClocks, names: Names) -> Lines:
    """Return the other comparisons: between the clocks of a stratum, and between strata."""
    items = [item for item in result.differences if item not in result.rise]
    if not items:
        return []
    lines: Lines = [heading("Differences of exponents")]
    for item in items[:MOST]:
        if item.a.stratum == item.b.stratum:
            pair = f"{names.stratum(item.a.stratum)}, {_short(item.a)} minus {_short(item.b)}"
        else:
            differs = ", ".join(column_words(name) for name in item.differs)
            pair = f"{names.fit(item.a)} minus {names.fit(item.b)} (differ in {differs})"
        lines.append(bullet(f"{pair}: {difference_text(item)}"))
    return lines + more(len(items), "--json or --out lists all")


def _short(ref: FitRef) -> str:
    return f"{ref.clock} to {target_text(ref.targets[0])}" if ref.targets else ref.clock


def windows(result: TwoClocks, names: Names) -> Lines:
    """Return the section on safe windows."""
    if not result.safe_windows:
        return []
    level = per_cent(result.safe_windows[0].level)
    lines: Lines = [heading(f"Safe window: responses to failure / to target [{level}]")]
    return lines + [bullet(_window_text(window, names)) for window in result.safe_windows]


def _window_text(window: SafeWindow, names: Names) -> str:
    rows = list(zip(window.batch_size, window.ratio, window.lower, window.upper, strict=True))
    ends = rows if len(rows) <= 2 else [rows[0], rows[-1]]
    ratios = "; ".join(f"B = {count_text(b)}: {estimate_text(*r, least=1)}" for b, *r in ends)
    scale = estimate_text(window.exponent.estimate, window.exponent.lower, window.exponent.upper)
    head = f"{names.stratum(window.stratum)}, target {target_text(window.target)}"
    return f"{head}: {ratios}; goes as B^{scale}"
