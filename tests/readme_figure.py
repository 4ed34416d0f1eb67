"""Redraw the README's pictures from the shipped sweeps: ``make figures``."""

from pathlib import Path

from twoclock.job import Job, run
from twoclock.plots import figure_style, new_figure, plot_clock, save_figure
from twoclock.plots.clock import clock_size

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / ".readme"


def draw(folder):
    """Draw the learning clock of the learning sweep and the failure clock of the failure sweep."""
    folder.mkdir(exist_ok=True)
    for name in ("learning", "failure"):
        fits = getattr(run(Job((str(ROOT / "data" / name),))), name)
        with figure_style():
            figure = new_figure(*clock_size(fits))
            plot_clock(fits, figure.subplots())
            save_figure(figure, folder / f"{name}.png")


if __name__ == "__main__":
    draw(PICTURES)
