"""The clock part of the terminal text: exponents by stratum, and the same by other choices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from twoclock.report.names import Names, per_cent
from twoclock.report.parts import Lines, bullet
from twoclock.results import ClockFit
from twoclock.words import (
    common_column,
    estimate_text,
    event_text,
    exponent_text,
    number_text,
    published_text,
    stratum_order,
)


def by_event(fits: Sequence[ClockFit]) -> list[list[ClockFit]]:
    """Return the fits of each clock and target, by base learning rate."""
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


def clock_lines(fits: Sequence[ClockFit], published: pd.DataFrame, names: Names) -> Lines:
    """Return the table of one clock and target, and what other methods and choices give."""
    word, labels = common_column([names.stratum(fit.stratum) for fit in fits])
    table = _clock_table(fits, published, (word, labels))
    lines: Lines = [table]
    for fit, label in zip(fits, labels, strict=True):
        text = beside_text(fit)
        if text:
            lines.append(bullet(f"{label}: {text}", "dim"))
    return lines


def _clock_table(
    fits: Sequence[ClockFit], published: pd.DataFrame, named: tuple[str, tuple[str, ...]]
) -> Table:
    word, labels = named
    level = next((fit.exponent.level for fit in fits if fit.exponent), 0.95)
    title = f"{event_text(fits[0].clock, fits[0].targets)}, R = c * B^exponent"
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
            _reached(fit),
            Text(_sizes(fit)),
            _rollouts(fit),
        )
    for name, exponent in _published(published, fits[0].clock):
        table.add_row(Text(name), Text(exponent), style="dim")
    return table


def _published(published: pd.DataFrame, clock: str) -> list[tuple[str, str]]:
    """Return name and exponent, or words, of what was published for a clock."""
    found = []
    for record in published.to_dict("records"):
        if record["clock"] == clock:
            rate = float(record["base_lr"])
            name = "published" if math.isnan(rate) else f"published {number_text(rate)}"
            text = published_text(float(record["exponent"]), str(record["source"]))
            found.append((name, text))
    return found


CHOICES = {
    "all_cells": "all batch sizes",
    "sigma_constant": "constant spread",
    "sigma_loglinear": "spread varying with B",
    "cell_means": "cell means",
    "crossing_first": "first crossing",
    "crossing_sustain2": "two in a row",
    "crossing_isotonic": "isotonic crossing",
    "native_grid": "each run's own validations",
}
"""Words for the other choices in `ClockFit.sensitivity`; others lose their underscores."""


def beside_text(fit: ClockFit) -> str:
    """Return the exponent by other intervals and other choices; choices without effect left out."""
    parts = []
    exponent = fit.exponent
    if exponent is not None:
        parts.append(exponent.method)
        for kind, pair in (("bootstrap", exponent.percentile), ("profile", exponent.profile)):
            if pair is not None:
                interval = estimate_text(exponent.estimate, *pair).partition(" ")[2]
                parts.append(f"{kind} {interval}")
    full = None if exponent is None else exponent.estimate
    others = [
        f"{CHOICES.get(name, name.replace('_', ' '))} {value:.2f}"
        for name, value in fit.sensitivity.items()
        if value is not None and (full is None or abs(value - full) >= 0.005)
    ]
    return "; ".join([", ".join(parts), ", ".join(others)]).strip("; ")


def _reached(fit: ClockFit) -> str:
    """Return how many of the runs have an event, and how many of these are left-censored."""
    left = fit.count("left")
    text = f"{len(fit.used) - fit.count('right'):,} of {len(fit.used):,}"
    return f"{text}, {left:,} left" if left else text


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
