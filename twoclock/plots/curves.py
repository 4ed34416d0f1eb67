"""Validation curves of single runs with the events that were read off them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from twoclock.plots.style import (
    DOUBLE,
    FAILURE,
    GREY,
    SINGLE,
    TARGET,
    Floats,
    axes_or_new,
    legend_below,
    new_figure,
    responses_axis,
)
from twoclock.results import TwoClocks
from twoclock.words import target_text

Scale = Literal["log", "linear"]

SIZE = (SINGLE, 2.6)
"""Default size of one panel, inches."""

_RUN = "#8a8a8a"


@dataclass(frozen=True)
class Run:
    """One validation curve and its events.

    Parameters
    ----------
    responses, accuracy : ndarray, shape (n_validations,)
        The curve.
    reached, failed : tuple of float or None
        (lower, upper] in responses of target and failure; infinite upper: not by the end;
        lower 0: already so at the first validation; None: no such event row.
    dips : ndarray, shape (n_dips, 2)
        Responses and accuracy of dips that were no failures.
    """

    responses: Floats
    accuracy: Floats
    reached: tuple[float, float] | None
    failed: tuple[float, float] | None
    dips: Floats


def plot_validation_curves(
    result: TwoClocks,
    stratum: Mapping[str, Any],
    batch_size: int,
    ax: Axes | None = None,
    *,
    scale: Scale = "log",
) -> Axes:
    """Draw the validation curves of one batch size: one thin line per run, events marked.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found, with its `evals` table.
    stratum : dict
        The stratum, as in `ClockFit.stratum`.
    batch_size : int
        B in responses.
    ax : Axes, optional
        Where to draw; a new single-column figure by default.
    scale : {"log", "linear"}
        Scale of responses; log leaves out the validation at 0 responses.

    Returns
    -------
    Axes
        Circles: target reached inside the bar. Crosses: failed inside the bar. Open triangles
        pointing right: the run ended without failure.
    """
    runs = find_runs(result, stratum, batch_size)
    target = _target(result, stratum)
    ax = axes_or_new(ax, SIZE)
    draw_curves(ax, runs, target, scale=scale)
    _limit(ax, runs, scale)
    ax.set_xlabel("Responses generated")
    ax.set_ylabel("Validation accuracy")
    legend_below(ax, _keys(runs, target), columns=2)
    return ax


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
    columns = min(len(sizes), 4) or 1
    rows = math.ceil(len(sizes) / columns) or 1
    figure = figure or new_figure(*grid_size(len(sizes)))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    target = _target(result, stratum)
    everything: list[Run] = []
    for ax, size in zip(axes, sizes, strict=False):
        runs = find_runs(result, stratum, size)
        everything += runs
        draw_curves(ax, runs, target, scale=scale)
        ax.set_title(f"B = {size:,}", loc="left", pad=3)
    for ax in axes[len(sizes) :]:
        ax.set_visible(False)
    _limit(axes[0], everything, scale)
    for ax in axes[::columns]:
        ax.set_ylabel("Validation accuracy")
    for ax in axes[max(len(sizes) - columns, 0) : len(sizes)]:
        ax.set_xlabel("Responses generated")
        ax.xaxis.set_tick_params(labelbottom=True)
    handles = _keys(everything, target)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def grid_size(n: int) -> tuple[float, float]:
    """Return the size (inches) of a grid of `n` panels, four in a row at double-column width."""
    columns = min(n, 4) or 1
    width = DOUBLE if columns > 2 else DOUBLE * columns / 3 + 0.5
    return width, 0.75 + 1.45 * (math.ceil(n / columns) or 1)


def stratum_sizes(result: TwoClocks, stratum: Mapping[str, Any]) -> list[int]:
    """Return the batch sizes of a stratum that have validations, ascending."""
    events = _events(result, stratum)
    if not len(result.evals):  # an events table was read: there are no curves
        return []
    known = set(result.evals["run_id"].unique())
    sizes = events.loc[events["run_id"].isin(known), "batch_size"].unique()
    return sorted(int(size) for size in sizes)


def _events(result: TwoClocks, stratum: Mapping[str, Any]) -> pd.DataFrame:
    frames = [fit.events for fit in result.fits if fit.stratum == stratum]
    return pd.concat(frames, ignore_index=True) if frames else result.events.iloc[:0]


def _target(result: TwoClocks, stratum: Mapping[str, Any]) -> float | None:
    return next((fit.targets[0] for fit in result.learning if fit.stratum == stratum), None)


def find_runs(result: TwoClocks, stratum: Mapping[str, Any], batch_size: int) -> list[Run]:
    """Return the curves of one batch size in the order of seeds and names.

    A run validated on several metrics is drawn by the one with most validations in the stratum.
    """
    if not len(result.evals):
        return []
    events = _events(result, stratum)
    events = events[events["batch_size"] == batch_size].sort_values(["seed", "run_id"])
    evals = result.evals[result.evals["run_id"].isin(events["run_id"])]
    if evals["metric"].notna().any():
        evals = evals[evals["metric"] == evals["metric"].mode().iloc[0]]
    evals = evals[evals["accuracy"].notna()].sort_values("responses", kind="stable")
    target = _target(result, stratum)
    runs = []
    for run_id in events["run_id"].unique():
        curve = evals[evals["run_id"] == run_id]
        if not len(curve):  # events from a table: nothing to draw
            continue
        mine = events[events["run_id"] == run_id]
        marks = result.marks
        dips = (
            marks[(marks["run_id"] == run_id) & (marks["kind"] == "dip")] if len(marks) else marks
        )
        runs.append(
            Run(
                responses=curve["responses"].to_numpy(dtype=np.float64),
                accuracy=curve["accuracy"].to_numpy(dtype=np.float64),
                reached=_interval(mine[(mine["clock"] == "learning") & (mine["target"] == target)]),
                failed=_interval(mine[mine["clock"] == "failure"]),
                dips=dips[["responses", "value"]].to_numpy(dtype=np.float64)
                if len(dips)
                else np.empty((0, 2)),
            )
        )
    return runs


def _interval(rows: pd.DataFrame) -> tuple[float, float] | None:
    rows = rows[rows["censoring"] != "before_start"]
    if not len(rows):
        return None
    return float(rows["lower"].iloc[0]), float(rows["upper"].iloc[0])


def draw_curves(ax: Axes, runs: Sequence[Run], target: float | None, *, scale: Scale) -> None:
    """Draw curves, target line and event marks."""
    ax.set_xscale(scale)
    if target is not None:
        ax.axhline(target, color=TARGET, lw=0.7, ls=(0, (3, 2)), zorder=1)
    for run in runs:
        shown = run.responses > 0 if scale == "log" else np.isfinite(run.responses)
        ax.plot(run.responses[shown], run.accuracy[shown], color=_RUN, lw=0.6, zorder=2)
        if run.reached is not None and target is not None and math.isfinite(run.reached[1]):
            _mark(ax, run.reached, target, TARGET, "o")
        if run.failed is not None and math.isfinite(run.failed[1]):
            _mark(ax, run.failed, _value(run, run.failed[1]), FAILURE, "X")
        elif run.failed is not None and len(run.responses):
            end = max(run.failed[0], run.responses[shown].min(initial=np.inf))
            ax.plot([end], [_value(run, end)], marker=">", mfc="white", mec=GREY, ms=3.6, mew=0.8)
        if len(run.dips):
            ax.plot(*run.dips.T, ls="none", marker="v", mfc="white", mec=FAILURE, ms=3, mew=0.7)


def _value(run: Run, responses: float) -> float:
    """Return the accuracy at the validation nearest to `responses`."""
    return float(run.accuracy[int(np.argmin(np.abs(run.responses - responses)))])


def _mark(ax: Axes, interval: tuple[float, float], y: float, colour: str, marker: str) -> None:
    """Draw an event: a bar over its interval, with the marker at its end (the first it is seen)."""
    low, high = interval
    start = low if low > 0 or ax.get_xscale() == "linear" else high
    ax.plot([start, high], [y, y], color=colour, lw=2.2, solid_capstyle="butt", alpha=0.5, zorder=3)
    ax.plot([high], [y], marker=marker, color=colour, ms=3.4, mew=0.4, mec="white", zorder=4)


def _limit(ax: Axes, runs: Sequence[Run], scale: Scale) -> None:
    values = np.concatenate([run.accuracy for run in runs] or [np.zeros(1)])
    top = 1.02 if values.max(initial=0.0) <= 1.0 and values.min(initial=0.0) >= 0.0 else None
    if top is not None:
        ax.set_ylim(-0.02, top)
    points = np.concatenate([run.responses for run in runs] or [np.ones(1)])
    points = points[points > 0]
    if scale == "linear" or not len(points):
        ax.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
        return
    low, high = float(points.min()) / 1.2, float(points.max()) * 1.25
    ax.set_xlim(low, high)
    responses_axis(ax.xaxis, low, high)


def _keys(runs: Sequence[Run], target: float | None) -> list[Any]:
    keys = [Line2D([], [], color=_RUN, lw=0.8, label="one run")]
    if target is not None:
        line: dict[str, Any] = {"color": TARGET, "ls": (0, (3, 2)), "lw": 0.7}
        label = f"reached {target_text(target)}"
        keys.append(Line2D([], [], **line, marker="o", ms=3.4, label=label))
    failed = [run.failed for run in runs if run.failed is not None]
    if any(math.isfinite(upper) for _, upper in failed):
        line = {"color": FAILURE, "lw": 1.4, "alpha": 0.9}
        keys.append(Line2D([], [], **line, marker="X", ms=3.4, label="failed"))
    if any(math.isinf(upper) for _, upper in failed):
        open_: dict[str, Any] = {"marker": ">", "mfc": "white", "mec": GREY, "ms": 3.6}
        keys.append(Line2D([], [], ls="none", **open_, label="no failure by the end"))
    if any(len(run.dips) for run in runs):
        open_ = {"marker": "v", "mfc": "white", "mec": FAILURE, "ms": 3}
        keys.append(Line2D([], [], ls="none", **open_, label="dip, recovered"))
    return keys
