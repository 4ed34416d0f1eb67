"""The golden figures: what each shows, and how to draw them again.

    python -m tests.golden_figures      # on Linux; look at every changed image before committing it

Text and legends are removed, and axes are placed by hand, so that no font decides a pixel.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.synthetic import make_two_clocks
from twoclock.plots import (
    figure_style,
    plot_clock,
    plot_exponents,
    plot_two_clocks,
    plot_validation_curves,
    save_figure,
)

FOLDER = Path(__file__).with_name("golden")


def _stratum(result):
    return result.learning[0].stratum


FIGURES = {
    "learning": lambda result, ax: plot_clock(result.learning, ax),
    "failure": lambda result, ax: plot_clock(result.failure, ax),
    "exponents": lambda result, ax: plot_exponents(result, ax),
    "two_clocks": lambda result, ax: plot_two_clocks(result, _stratum(result), ax),
    "curves_log": lambda result, ax: plot_validation_curves(result, _stratum(result), 4096, ax),
    "curves_linear": lambda result, ax: plot_validation_curves(
        result, _stratum(result), 64, ax, scale="linear"
    ),
}


def draw_golden(name, path):
    """Draw one golden figure to `path`, 272 x 208 pixels."""
    with figure_style():
        figure = Figure(figsize=(3.4, 2.6), dpi=80)
        ax = figure.add_axes((0.15, 0.15, 0.8, 0.8))
        FIGURES[name](make_two_clocks(3), ax)
        if ax.get_legend() is not None:
            ax.get_legend().remove()
        figure.draw_without_rendering()  # makes the tick labels that are hidden next
        for text in figure.findobj(Text):
            text.set_visible(False)
        with mpl.rc_context({"savefig.dpi": "figure"}):
            save_figure(figure, path)


def main():
    """Draw all golden figures again."""
    if sys.platform != "linux":
        sys.exit("golden figures are drawn on Linux only: other systems round differently")
    FOLDER.mkdir(exist_ok=True)
    for name in FIGURES:
        draw_golden(name, FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
