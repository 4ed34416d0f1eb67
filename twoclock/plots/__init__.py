"""Figures of results: ``plot_*(result, ax=None) -> Axes``.

Each has two layers: a chooser that reads the result and a drawer that gets arrays. None saves,
shows or changes a style; `figure_style` is a context for those who write figures to files.
"""

from __future__ import annotations

from twoclock.plots.clock import plot_clock
from twoclock.plots.curve_grid import plot_validation_grid
from twoclock.plots.curves import plot_validation_curves
from twoclock.plots.forest import plot_exponents
from twoclock.plots.style import figure_style, new_figure, save_figure
from twoclock.plots.windows import plot_two_clocks

__all__ = [
    "figure_style",
    "new_figure",
    "plot_clock",
    "plot_exponents",
    "plot_two_clocks",
    "plot_validation_curves",
    "plot_validation_grid",
    "save_figure",
]
