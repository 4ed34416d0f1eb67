"""Validation curves of a stratum as small multiples, one panel per batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from twoclock.plots.curves import (
    Run,
    Scale,
    draw_curves,
    find_runs,
    legend_keys,
    set_limits,
    stratum_sizes,
    target_of,
)
from twoclock.plots.style import DOUBLE, new_figure
from twoclock.results import TwoClocks
from twoclock.words import count_text

_LEFT, _BELOW, _ABOVE = 0.52, 0.62, 0.24
_ACROSS, _BETWEEN, _PANEL = 0.12, 0.36, (1.5, 1.15)
"""Margins, gaps and (about) the panels of a grid, inches."""


def plot_validation_grid(
    result: TwoClocks,
    stratum: Mapping[str, Any],
    figure: Figure | None = None,
    *,
    scale: Scale = "log",
) -> Figure:
    """Draw one small panel per batch size with common axes and return the figure.

    Parameters are those of `plot_validation_curves`; `figure` must be empty.
    """
    sizes = stratum_sizes(result, stratum)
    rows, columns = grid_shape(len(sizes))
    figure = figure or new_figure(*grid_size(len(sizes)))
    axes = _panels(figure, rows, columns, full=rows * columns == len(sizes))
    target = target_of(result, stratum)
    everything: list[Run] = []
    for ax, size in zip(axes, sizes, strict=False):
        runs = find_runs(result, stratum, size)
        everything += runs
        draw_curves(ax, runs, target, scale=scale)
        ax.set_title(f"B = {count_text(size)}", loc="left", pad=3)
    for ax in axes[len(sizes) :]:
        ax.set_visible(False)
    panel = axes[0].get_position().width * figure.get_figwidth()
    set_limits(axes[0], everything, scale, panel)
    for ax in axes:  # small panels: minor ticks would only crowd them
        ax.xaxis.set_minor_locator(NullLocator())
    handles = legend_keys(everything, target)
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    return figure


def _panels(figure: Figure, rows: int, columns: int, *, full: bool) -> list[Axes]:
    """Return panels with common axes in reading order, placed in inches: no layout to solve.

    Tick labels stand below the last row, or below every row where the last one is not full.
    """
    width, height = figure.get_size_inches()
    figure.set_layout_engine("none")
    places = {
        "left": _LEFT / width,
        "right": 1 - 0.12 / width,
        "bottom": _BELOW / height,
        "top": 1 - _ABOVE / height,
        "wspace": _ACROSS / _PANEL[0],
        "hspace": _BETWEEN / _PANEL[1],
    }
    shared: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False}
    grid: Any = figure.subplots(rows, columns, gridspec_kw=places, **shared)
    for ax in grid.ravel():
        ax.xaxis.set_tick_params(labelbottom=not full or ax in grid[-1])
    middle = {"x": (_LEFT + width - 0.12) / 2 / width, "y": (_BELOW + height - _ABOVE) / 2 / height}
    font = mpl.rcParams["axes.labelsize"]
    below = (_BELOW - 0.25) / height
    figure.text(middle["x"], below, "Responses generated", ha="center", va="top", fontsize=font)
    style: dict[str, Any] = {"ha": "left", "va": "center", "rotation": 90, "fontsize": font}
    figure.text(0.05 / width, middle["y"], "Validation accuracy", **style)
    return list(grid.ravel())


def grid_shape(n: int) -> tuple[int, int]:
    """Return rows and columns for `n` panels: up to four (or three, or five) in a row, few gaps.

    Examples
    --------
    >>> [grid_shape(n) for n in (1, 4, 5, 6, 7, 8, 10, 12)]
    [(1, 1), (1, 4), (1, 5), (2, 3), (2, 4), (2, 4), (2, 5), (3, 4)]
    """
    if n <= 4:
        return 1, max(n, 1)
    columns = min((4, 3, 5), key=lambda across: -n % across)
    return math.ceil(n / columns), columns


def grid_size(n: int) -> tuple[float, float]:
    """Return the size (inches) of a grid of `n` panels, at most double-column width."""
    rows, columns = grid_shape(n)
    width = DOUBLE if columns > 2 else _LEFT + 0.12 + columns * 2.2 + (columns - 1) * _ACROSS
    return width, _ABOVE + _BELOW + rows * _PANEL[1] + (rows - 1) * _BETWEEN
