"""The forest figure: exponents of both clocks with intervals, bounds and the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from twoclock.plots.style import DOUBLE, FAILURE, GREY, SINGLE, TARGET, axes_or_new, shorten
from twoclock.results import ClockFit, TwoClocks
from twoclock.words import (
    event_text,
    exponent_text,
    number_text,
    published_text,
    stratum_labels,
    stratum_order,
)

_FARTHEST = 2.0
"""No axis reaches beyond +-2 for the sake of an interval alone; such intervals end in an arrow."""


@dataclass(frozen=True)
class Row:
    """One line of the forest.

    Parameters
    ----------
    label, text : str
        What stands left and right of the axes.
    estimate : float or None
        The point; None for bounds and for what is not identified.
    lower, upper : float or None
        Ends of the interval or bound; infinite: open (arrow); both None: nothing is drawn.
    kind : {"fit", "set", "published", "heading"}
        Headings carry only a label; the ends of a set are certain, not an interval at a level.
    clock : str
        Clock of the row.
    noise : tuple of float or None
        How far seed noise widens a set.
    """

    label: str
    text: str = ""
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    kind: str = "fit"
    clock: str = "learning"
    noise: tuple[float, float] | None = None


def plot_exponents(result: TwoClocks, ax: Axes | None = None) -> Axes:
    """Draw the exponents of both clocks, stratum by stratum, beside the published ones.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    ax : Axes, optional
        Where to draw; a new single-column figure, as high as the rows need, by default.

    Returns
    -------
    Axes
        The exponent on x, one row per fit, estimates as text on the right; the margin within which
        the failure clock counts as independent of batch size is shaded.
    """
    rows = exponent_rows(result)
    ax = axes_or_new(ax, forest_size(rows))
    margin = max((item.margin for item in result.equivalence), default=None)
    draw_forest(ax, rows, margin=margin)
    return ax


def forest_size(rows: Sequence[Row], width: float = SINGLE) -> tuple[float, float]:
    """Return a figure size (inches) with an even line height, wider where labels need it."""
    columns = ([row.label for row in rows if row.kind != "heading"], [row.text for row in rows])
    letters = sum(max(map(len, column), default=0) for column in columns)
    # 0.055 inch a letter at 7 points; 1.2 inch is the least that a useful axis needs.
    needed = 1.2 + 0.055 * letters
    lines = any(row.kind == "set" for row in rows) + any(row.noise is not None for row in rows)
    return max(width, min(needed, DOUBLE)), 0.75 + 0.155 * len(rows) + 0.13 * lines


def exponent_rows(result: TwoClocks) -> tuple[Row, ...]:
    """Return the rows: for each clock and target a heading, our fits, then the published ones."""
    labels = _labels(result.fits)
    rows: list[Row] = []
    for clock in ("learning", "failure"):
        fits = [fit for fit in result.fits if fit.clock == clock]
        targets = list(dict.fromkeys(fit.targets for fit in fits))
        for target in targets:
            rows.append(Row(event_text(clock, target), kind="heading", clock=clock))
            group = [fit for fit in fits if fit.targets == target]
            group.sort(key=lambda fit: stratum_order(fit.stratum))
            rows.extend(_fit_row(fit, labels[id(fit)]) for fit in group)
        if targets:
            rows.extend(_published_rows(result.published, clock))
    return tuple(rows)


def _labels(fits: Sequence[ClockFit]) -> dict[int, str]:
    names, _ = stratum_labels([fit.stratum for fit in fits])
    return {id(fit): shorten(name) for fit, name in zip(fits, names, strict=True)}


def _fit_row(fit: ClockFit, label: str) -> Row:
    text = _minus(exponent_text(fit))
    if fit.exponent is not None:
        e = fit.exponent
        ends = (None, None) if e.method == "degenerate" else (e.lower, e.upper)
        return Row(label, text, e.estimate, *ends, clock=fit.clock)
    bound = fit.bound
    if bound is None:
        return Row(label, text, clock=fit.clock)
    if bound.side == "both":
        return Row(label, text, None, bound.lower, bound.upper, "set", fit.clock, bound.profile)
    low = bound.value if bound.side == "lower" else None
    high = bound.value if bound.side == "upper" else None
    return Row(
        label,
        text,
        lower=-math.inf if low is None else low,
        upper=math.inf if high is None else high,
        clock=fit.clock,
    )


def _published_rows(published: pd.DataFrame, clock: str) -> list[Row]:
    rows = []
    for record in published.to_dict("records"):
        if record["clock"] != clock:
            continue
        parts = []
        if not pd.isna(record.get("base_lr")):
            parts.append(f"lr {number_text(float(record['base_lr']))}")
        label = ", ".join(["published", *parts])
        value = float(record["exponent"])
        text = _minus(published_text(value, str(record["source"])))
        point = None if math.isnan(value) else value
        rows.append(Row(label, text, point, kind="published", clock=clock))
    return rows


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def draw_forest(ax: Axes, rows: Sequence[Row], *, margin: float | None) -> None:
    """Draw rows from top to bottom; `margin` is shaded behind the rows of the failure clock."""
    low, high = _limits(rows, margin)
    ax.set_xlim(low, high)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.axvline(0.0, color=GREY, lw=0.6, zorder=1)
    failure = [y for y, row in enumerate(rows) if row.clock == "failure" and row.kind != "heading"]
    if margin is not None and failure:
        corner = (-margin, failure[0] - 0.5)
        height = failure[-1] - failure[0] + 1
        ax.add_patch(Rectangle(corner, 2 * margin, height, color=GREY, alpha=0.18, lw=0, zorder=0))
    for y, row in enumerate(rows):
        _draw_row(ax, y, row, (low, high))
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    label = "Exponent of batch size B"
    if margin is not None and failure:
        label += f"\nshaded: within \N{PLUS-MINUS SIGN}{margin:.2f}, independent of B"
    if any(row.kind == "set" for row in rows):
        label += "\nopen box: set of exponents that fit every interval"
    if any(row.noise is not None for row in rows):
        label += ";\ndashed: the same with seed noise"
    ax.set_xlabel(label)


def _limits(rows: Sequence[Row], margin: float | None) -> tuple[float, float]:
    points = [row.estimate for row in rows if row.estimate is not None]
    ends = [
        min(max(end, -_FARTHEST), _FARTHEST)
        for row in rows
        for end in (row.lower, row.upper, *(row.noise or ()))
        if end is not None and math.isfinite(end)
    ]
    values = [*points, *ends, 0.0, -(margin or 0.0), margin or 0.0]
    low, high = min(values), max(values)
    pad = 0.06 * max(high - low, 0.2)
    return low - pad, high + pad


def _draw_row(ax: Axes, y: int, row: Row, limits: tuple[float, float]) -> None:
    side = ax.get_yaxis_transform()
    if row.kind == "heading":
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # above the zero line
        ax.text(0, y, row.label, transform=side, va="center", weight="bold", bbox=box)
        return
    text: dict[str, Any] = {"xycoords": side, "textcoords": "offset points", "va": "center"}
    quiet = GREY if row.kind == "published" else "black"
    ax.annotate(row.label, (0, y), xytext=(-4, 0), ha="right", color=quiet, **text)
    ax.annotate(row.text, (1, y), xytext=(4, 0), ha="left", color=quiet, **text)
    colour = FAILURE if row.clock == "failure" else TARGET
    if row.kind == "published":
        if row.estimate is None:
            return
        ax.plot([row.estimate], [y], marker="D", mfc="white", mec=GREY, ms=3.6, mew=0.9, zorder=3)
        return
    if row.lower is not None and row.upper is not None and row.kind == "set":
        _set(ax, y, row, limits, colour)
    elif row.lower is not None and row.upper is not None:
        _interval(ax, y, (row.lower, row.upper), limits, colour)
    if row.estimate is not None:
        marker = "s" if row.clock == "failure" else "o"
        ax.plot([row.estimate], [y], marker=marker, color=colour, ms=4, zorder=3)


def _set(ax: Axes, y: int, row: Row, limits: tuple[float, float], colour: str) -> None:
    """Draw a set of exponents: an open box, no point and no caps, seed noise as a dashed line."""
    ends = (row.lower or 0.0, row.upper or 0.0)
    low, high = (min(max(end, limits[0]), limits[1]) for end in ends)
    style: dict[str, Any] = {"facecolor": "white", "edgecolor": colour, "lw": 0.9, "zorder": 3}
    ax.add_patch(Rectangle((low, y - 0.2), high - low, 0.4, **style))
    if row.noise is not None:
        low, high = max(row.noise[0], limits[0]), min(row.noise[1], limits[1])
        ax.plot([low, high], [y, y], color=colour, lw=0.9, ls=(0, (2.5, 1.8)), zorder=2)


def _interval(
    ax: Axes, y: int, ends: tuple[float, float], limits: tuple[float, float], colour: str
) -> None:
    """Draw a bar with a cap at each end inside the axes and an arrow at each end beyond them."""
    low, high = max(ends[0], limits[0]), min(ends[1], limits[1])
    ax.plot([low, high], [y, y], color=colour, lw=1.2, solid_capstyle="butt", zorder=2)
    for end, shown, arrow in ((ends[0], low, "<"), (ends[1], high, ">")):
        marker = "|" if end == shown else arrow
        ax.plot([shown], [y], marker=marker, color=colour, ms=4, mew=1.0, zorder=2, clip_on=False)
