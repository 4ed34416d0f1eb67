"""Which figures a report has, and how big each is. The only report module that loads matplotlib."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from twoclock.plots.clock import clock_size, plot_clock
from twoclock.plots.curve_grid import grid_size, plot_validation_grid
from twoclock.plots.curves import stratum_sizes
from twoclock.plots.forest import exponent_rows, forest_size, plot_exponents
from twoclock.plots.style import new_figure
from twoclock.plots.windows import SIZE, plot_two_clocks
from twoclock.results import ClockFit, TwoClocks
from twoclock.words import stratum_labels, stratum_order, target_text

Draw = Callable[[], Figure]


def report_figures(result: TwoClocks) -> dict[str, Draw]:
    """Return every figure of the report by its file name, as a function that draws it.

    Call and save them inside `twoclock.plots.figure_style`.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    """
    result = replace(result, steps=result.steps.iloc[:0])  # not drawn, and each worker gets a copy
    figures: dict[str, Draw] = {}
    targets = list(dict.fromkeys(fit.targets for fit in result.learning))
    for target in targets:
        fits = [fit for fit in result.learning if fit.targets == target]
        more = "" if len(targets) == 1 else "_" + slug("_".join(target_text(t) for t in target))
        figures[f"learning{more}"] = partial(_clock, fits)
    if result.failure:
        figures["failure"] = partial(_clock, list(result.failure))
    if result.fits:
        figures["exponents"] = partial(_exponents, result)
    strata = _strata(result)
    names = _stratum_names(strata)
    for name, stratum in zip(names, strata, strict=True):
        clocks = {fit.clock for fit in result.fits if fit.stratum == stratum}
        if len(clocks) == 2:
            figures[f"two_clocks{name}"] = partial(_two_clocks, result, stratum)
        if stratum_sizes(result, stratum):
            figures[f"validation{name}"] = partial(_curves, result, stratum)
    return figures


def slug(text: str) -> str:
    """Return `text` as part of a file name without dots, which LaTeX takes for a suffix.

    Examples
    --------
    >>> slug("base lr 1e-5, task a/b"), slug("0.60")
    ('base_lr_1e-5_task_a_b', '0_60')
    """
    return re.sub(r"[^0-9A-Za-z-]+", "_", text).strip("_")[:80]


def _strata(result: TwoClocks) -> list[Mapping[str, Any]]:
    strata: list[Mapping[str, Any]] = []
    for fit in result.fits:
        if fit.stratum not in strata:
            strata.append(fit.stratum)
    return sorted(strata, key=stratum_order)


def _stratum_names(strata: list[Mapping[str, Any]]) -> list[str]:
    if len(strata) == 1:
        return [""]
    labels, _ = stratum_labels(strata)
    names: list[str] = []
    for i, label in enumerate(labels):
        name = f"_{slug(label)}"
        names.append(name if name not in names else f"{name}_{i + 1}")
    return names


def _clock(fits: list[ClockFit]) -> Figure:
    figure = new_figure(*clock_size(fits))
    plot_clock(fits, figure.subplots())
    return figure


def _exponents(result: TwoClocks) -> Figure:
    figure = new_figure(*forest_size(exponent_rows(result)))
    plot_exponents(result, figure.subplots())
    return figure


def _two_clocks(result: TwoClocks, stratum: Mapping[str, Any]) -> Figure:
    figure = new_figure(*SIZE)
    plot_two_clocks(result, stratum, figure.subplots())
    return figure


def _curves(result: TwoClocks, stratum: Mapping[str, Any]) -> Figure:
    figure = new_figure(*grid_size(len(stratum_sizes(result, stratum))))
    return plot_validation_grid(result, stratum, figure)
