"""Redraw the README's pictures from the shipped studies: ``make figures``."""

from pathlib import Path

from twoclock.job import Job, run
from twoclock.plots import figure_style, new_figure, plot_clock, save_figure
from twoclock.plots.clock import clock_size
from twoclock.settings import Settings

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / ".readme"
STUDIES = {
    "learning": ("learning/sorting-transformer", Settings(task_targets={"sorting-6": 0.80})),
    "failure": ("failure/main", Settings()),
}
"""Clock, and what it is drawn from."""


def draw(folder):
    """Draw the learning clock of a clipped study and the failure clock of an unclipped one."""
    folder.mkdir(exist_ok=True)
    for name, (study, settings) in STUDIES.items():
        fits = getattr(run(Job((str(ROOT / "data" / study),), settings=settings)), name)
        with figure_style():
            figure = new_figure(*clock_size(fits))
            plot_clock(fits, figure.subplots())
            save_figure(figure, folder / f"{name}.png")


if __name__ == "__main__":
    draw(PICTURES)
