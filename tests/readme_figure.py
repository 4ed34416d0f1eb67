"""Redraw the README's picture from the shipped sweeps: ``make figures``."""

from pathlib import Path

from twoclock.job import Job, run
from twoclock.plots import figure_style, new_figure, plot_clock, save_figure

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / ".readme" / "two-clocks.png"


def draw(path):
    """Draw the learning clock of the learning sweep beside the failure clock."""
    learning = run(Job((str(ROOT / "data" / "learning"),))).learning
    failure = run(Job((str(ROOT / "data" / "failure"),))).failure
    with figure_style():
        figure = new_figure(7.0, 3.1)
        left, right = figure.subplots(1, 2)
        plot_clock(learning, left)
        plot_clock(failure, right)
        left.set_title("Learning clock", loc="left", weight="bold")
        right.set_title("Failure clock (no clipping)", loc="left", weight="bold")
        path.parent.mkdir(exist_ok=True)
        save_figure(figure, path)


if __name__ == "__main__":
    draw(PICTURE)
