"""The clock part of the terminal text: exponents by stratum, and the same by other choices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from twoclock.report.grid import Column, Grid, Row
from twoclock.report.names import Names, per_cent
from twoclock.report.parts import Lines, bullet
from twoclock.results import ClockFit
from twoclock.words import (
    common_column,
    count_text,
    estimate_text,
    event_text,
    exponent_text,
    number_text,
    published_text,
    set_text,
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


def clock_lines(fits: Sequence[ClockFit], published: pd.DataFrame, names: Names) -> Lines:
    """Return the table of one clock and target, and what other methods and choices give."""
    word, labels = common_column([names.stratum(fit.stratum) for fit in fits])
    table = _clock_table(fits, published, (word, labels))
    lines: Lines = [table]
    for fit, label in zip(fits, labels, strict=True):
        text = "; ".join(filter(None, (set_text(fit.bound), beside_text(fit))))
        if text:
            lines.append(bullet(f"{label}: {text}", "dim"))
    return lines


def _clock_table(
    fits: Sequence[ClockFit], published: pd.DataFrame, named: tuple[str, tuple[str, ...]]
) -> Grid:
    word, labels = named
    level = next((fit.exponent.level for fit in fits if fit.exponent), 0.95)
    columns = [
        Column(word),
        Column(f"exponent [{per_cent(level)}]"),
        Column("reached" if fits[0].clock == "learning" else "failed", right=True),
        Column("batch sizes"),
        Column("rollouts", right=True),
    ]
    rows = []
    for fit, label in zip(fits, labels, strict=True):
        style = "" if fit.status == "converged" else "yellow"
        cells = (label, exponent_text(fit), _reached(fit), _sizes(fit), _rollouts(fit))
        rows.append(Row(cells, style))
    for name, exponent in _published(published, fits[0].clock):
        rows.append(Row((name, exponent, "", "", ""), "dim"))
    return Grid(columns, rows, f"{event_text(fits[0].clock, fits[0].targets)}, R = c * B^exponent")


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
    text = "-".join(count_text(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    cells = len(fit.cells)
    return f"{text} ({len(sizes)} of {cells})" if cells > len(sizes) else f"{text} ({cells})"


def _rollouts(fit: ClockFit) -> str:
    """Return the range over cells of the median rollouts to the event."""
    known = [c.rollouts_to_event for c in fit.cells if c.rollouts_to_event is not None]
    if not known:
        return ""
    low, high = count_text(round(min(known))), count_text(round(max(known)))
    return low if low == high else f"{low}-{high}"
