"""The clock figure: responses to an event against batch size, one series per stratum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from twoclock.plots.series import (
    DOWN_KEY,
    KINDS,
    UP_KEY,
    Curve,
    Points,
    draw_curve,
    draw_points,
    fit_curve,
    fit_points,
    jitter,
)
from twoclock.plots.style import (
    DOUBLE,
    EXTRAPOLATED,
    GREY,
    SINGLE,
    axes_or_new,
    batch_axis,
    legend_below,
    legend_columns,
    legend_width,
    looks,
    responses_axis,
    root_figure,
    shorten,
)
from twoclock.results import ClockFit
from twoclock.words import common_column, event_text, exponent_text, stratum_labels, stratum_order


def plot_clock(fits: Sequence[ClockFit], ax: Axes | None = None, *, level: float = 0.95) -> Axes:
    """Draw one clock: every run, and the fitted law where the data identify it.

    Parameters
    ----------
    fits : sequence of ClockFit
        Fits of one clock and target, one per stratum.
    ax : Axes, optional
        Where to draw; a new single-column figure by default.
    level : float
        Confidence level of the band.

    Returns
    -------
    Axes
        Log-log axes; the legend below them gives each exponent with its interval.
    """
    fits = sorted(fits, key=lambda fit: stratum_order(fit.stratum))
    ax = axes_or_new(ax, clock_size(fits))
    series = [fit_points(fit) for fit in fits]
    shifts = jitter(series)
    curves = [fit_curve(fit, level) for fit in fits]
    for points, curve, look, shift in zip(series, curves, looks(len(fits)), shifts, strict=True):
        draw_points(ax, points, look, shift)
        if curve is not None:
            draw_curve(ax, curve, look, band=min(0.13, 0.5 / len(fits)))
    finish_axes(ax, series, event_text(fits[0].clock, fits[0].targets) if fits else "Responses")
    _legend(ax, fits, series, curves)
    return ax


def clock_size(fits: Sequence[ClockFit], width: float = SINGLE) -> tuple[float, float]:
    """Return the figure size (inches) that leaves the axes the same height for any legend.

    It is wider than `width` only where a single legend entry is.
    """
    _, texts = _entries(fits)
    kinds = set().union(*(fit.events["censoring"] for fit in fits))
    keys = ["not in the fit"] * (2 + len(kinds & set(KINDS)))
    width = max(width, min(legend_width(texts), DOUBLE))
    columns = legend_columns([*texts, *keys], width)
    return width, 2.45 + 0.13 * (math.ceil((len(texts) + len(keys)) / columns) + 1)


def finish_axes(ax: Axes, series: Sequence[Points], label: str) -> None:
    """Set scales, limits (by the data, never by the bands), ticks, labels and the floor R = B."""
    sizes = np.concatenate([points.batch_size for points in series] or [np.array([])])
    known = [
        np.concatenate([points.lower[points.lower > 0], points.upper[np.isfinite(points.upper)]])
        for points in series
    ]
    values = np.concatenate(known or [np.array([])])
    values = values[np.isfinite(values) & (values > 0)]
    batch_axis(ax, sizes.tolist())
    ax.set_yscale("log")
    ax.set_ylabel(label)
    if not len(values):
        return
    low, high = float(values.min()) / 1.5, float(values.max()) * 1.7
    if high / low < 8:  # less than a decade: no steep look from a narrow axis
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(8), middle * math.sqrt(8)
    ax.set_ylim(low, high)
    ends = np.asarray(ax.get_xlim())
    ax.plot(ends, ends, color=GREY, lw=0.6, zorder=1)
    ax.set_xlim(*ends)
    ax.set_ylim(low, high)
    responses_axis(ax.yaxis, low, high)


def _legend(
    ax: Axes,
    fits: Sequence[ClockFit],
    series: Sequence[Points],
    curves: Sequence[Curve | None],
) -> None:
    named, texts = _entries(fits)
    handles: list[Any] = []
    for text, curve, look in zip(texts, curves, looks(len(fits)), strict=True):
        line = "none" if curve is None else look.line
        handles.append(Line2D([], [], color=look.colour, marker=look.marker, ls=line, label=text))
    handles.extend(censoring_keys(ax, series, curves))
    level = next((fit.exponent.level for fit in fits if fit.exponent), 0.95)
    title = f"{named}: exponent of B, {100 * level:g} % interval" if fits else ""
    width = root_figure(ax).get_figwidth()
    columns = legend_columns([handle.get_label() for handle in handles], width)
    legend_below(ax, handles, columns=columns, title=title)


def _entries(fits: Sequence[ClockFit]) -> tuple[str, list[str]]:
    """Return the word for the title and one legend entry per fit.

    Where only one column varies it is named once, in the title, so that entries are short enough
    to stand side by side.
    """
    labels, _ = stratum_labels([fit.stratum for fit in fits])
    column, labels = common_column(labels)
    exponents = [exponent_text(fit).replace("-", "\N{MINUS SIGN}") for fit in fits]
    return column, [
        f"{shorten(label)}: {text}" for label, text in zip(labels, exponents, strict=True)
    ]


def censoring_keys(ax: Axes, series: Sequence[Points], curves: Sequence[Curve | None]) -> list[Any]:
    """Return legend handles for the signs that this figure really contains."""
    kinds = {kind for points in series for kind in points.kind.tolist()}
    grey: dict[str, Any] = {"color": GREY, "ls": "none", "mew": 0.8}
    keys = []
    if "interval" in kinds:
        keys.append(Line2D([], [], **grey, marker="|", ms=6.5, label="event in this interval"))
    if "right" in kinds:
        keys.append(Line2D([], [], **grey, marker=UP_KEY, ms=7, label="not by the end"))
    if "left" in kinds:
        keys.append(Line2D([], [], **grey, marker=DOWN_KEY, ms=7, label="by first validation"))
    if any((~points.used).any() for points in series):
        keys.append(Line2D([], [], **grey, marker="o", mfc="white", label="not in the fit"))
    if any(c is not None and c.extrapolated.any() for c in curves):
        keys.append(Line2D([], [], color=GREY, ls=EXTRAPOLATED, lw=0.8, label="extrapolated"))
    if ax.get_xlim()[1] > ax.get_ylim()[0]:
        keys.append(Line2D([], [], color=GREY, lw=0.6, label="floor: one rollout"))
    return keys
