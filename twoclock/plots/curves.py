"""Validation curves of single runs with the events that were read off them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from twoclock.plots.style import (
    FAILURE,
    GREY,
    SINGLE,
    TARGET,
    Floats,
    axes_or_new,
    legend_below,
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
    target = target_of(result, stratum)
    ax = axes_or_new(ax, SIZE)
    draw_curves(ax, runs, target, scale=scale)
    set_limits(ax, runs, scale)
    ax.set_xlabel("Responses generated")
    ax.set_ylabel("Validation accuracy")
    legend_below(ax, legend_keys(runs, target), columns=2)
    return ax


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


def target_of(result: TwoClocks, stratum: Mapping[str, Any]) -> float | None:
    """Return the first target that the stratum was fitted for; None without a learning fit."""
    return next((fit.targets[0] for fit in result.learning if fit.stratum == stratum), None)


def find_runs(result: TwoClocks, stratum: Mapping[str, Any], batch_size: int) -> list[Run]:
    """Return the curves of one batch size in the order of seeds and names.

    A run validated on several metrics is drawn by the one with most validations in the stratum.
    """
    if not len(result.evals):
        return []
    events = _events(result, stratum)
    events = events[events["batch_size"] == batch_size].sort_values(["seed", "run_id"])
    events = events[["run_id", "clock", "target", "lower", "upper", "censoring"]]
    evals = result.evals[["run_id", "metric", "responses", "accuracy"]]
    evals = evals[evals["run_id"].isin(events["run_id"])]
    if evals["metric"].notna().any():
        evals = evals[evals["metric"] == evals["metric"].mode().iloc[0]]
    evals = evals[evals["accuracy"].notna()].sort_values("responses", kind="stable")
    reached = _intervals(events, "learning", target_of(result, stratum))
    failed = _intervals(events, "failure", None)
    curves = dict(iter(evals.groupby("run_id")[["responses", "accuracy"]]))
    marks = result.marks
    dips = marks[marks["kind"] == "dip"] if len(marks) else marks
    dips_of = dict(iter(dips.groupby("run_id"))) if len(dips) else {}
    runs = []
    for run_id in events["run_id"].unique():
        if run_id not in curves:  # events from a table: nothing to draw
            continue
        responses, accuracy = curves[run_id].to_numpy(dtype=np.float64).T
        found = dips_of.get(run_id)
        points = np.empty((0, 2)) if found is None else found[["responses", "value"]].to_numpy()
        runs.append(
            Run(
                responses=responses,
                accuracy=accuracy,
                reached=reached.get(run_id),
                failed=failed.get(run_id),
                dips=points.astype(np.float64),
            )
        )
    return runs


def _intervals(
    events: pd.DataFrame, clock: str, target: float | None
) -> dict[str, tuple[float, float]]:
    """Return the interval of each run's event, by run; none where it was there at the start."""
    mine = (events["clock"] == clock) & (events["censoring"] != "before_start")
    if clock == "learning":
        mine &= events["target"] == target
    rows = events.loc[mine, ["run_id", "lower", "upper"]].drop_duplicates("run_id")
    return {run_id: (float(low), float(up)) for run_id, low, up in rows.itertuples(index=False)}


def draw_curves(ax: Axes, runs: Sequence[Run], target: float | None, *, scale: Scale) -> None:
    """Draw curves, target line and event marks."""
    ax.set_xscale(scale)
    if target is not None:
        ax.axhline(target, color=TARGET, lw=0.7, ls=(0, (3, 2)), zorder=1)
    seen = [run.responses > 0 if scale == "log" else run.responses >= 0 for run in runs]
    curves = [
        np.column_stack((run.responses[on], run.accuracy[on]))
        for run, on in zip(runs, seen, strict=True)
    ]
    ax.add_collection(LineCollection(curves, colors=_RUN, linewidths=0.6, zorder=2))
    reached = [(run.reached, target) for run in runs if target is not None and _ends(run.reached)]
    _mark(ax, reached, TARGET, "o")
    failed = [run for run in runs if _ends(run.failed)]
    _mark(ax, [(run.failed, _value(run, _upper(run))) for run in failed], FAILURE, "X")
    healthy = [
        (max(run.failed[0], run.responses[on].min(initial=np.inf)), run)
        for run, on in zip(runs, seen, strict=True)
        if run.failed is not None and not _ends(run.failed) and len(run.responses)
    ]
    ends = [(end, _value(run, end)) for end, run in healthy]
    _scatter(ax, ends, marker=">", mfc="white", mec=GREY, ms=3.6, mew=0.8)
    dips = [tuple(point) for run in runs for point in run.dips.tolist()]
    _scatter(ax, dips, marker="v", mfc="white", mec=FAILURE, ms=3, mew=0.7)
    ax.autoscale_view()


def _ends(interval: tuple[float, float] | None) -> bool:
    """Return whether an event was seen."""
    return interval is not None and math.isfinite(interval[1])


def _upper(run: Run) -> float:
    return math.inf if run.failed is None else run.failed[1]


def _scatter(ax: Axes, points: Sequence[tuple[float, ...]], **style: Any) -> None:
    """Draw marks as one artist: a grid has thousands."""
    if points:
        ax.plot(*zip(*points, strict=True), ls="none", **style)


def _value(run: Run, responses: float) -> float:
    """Return the accuracy at the validation nearest to `responses`."""
    return float(run.accuracy[int(np.argmin(np.abs(run.responses - responses)))])


def _mark(
    ax: Axes,
    events: Sequence[tuple[tuple[float, float] | None, float]],
    colour: str,
    marker: str,
) -> None:
    """Draw events: bars over their intervals, the markers at their ends (the first they are seen).

    `events` are pairs of an interval of responses and the accuracy to draw it at.
    """
    linear = ax.get_xscale() == "linear"
    known = [(*interval, y) for interval, y in events if interval is not None]
    bars = [[(low if low > 0 or linear else high, y), (high, y)] for low, high, y in known]
    look: dict[str, Any] = {"colors": colour, "linewidths": 2.2, "alpha": 0.5, "zorder": 3}
    ax.add_collection(LineCollection(bars, capstyle="butt", **look))
    ends = [(high, y) for _, high, y in known]
    _scatter(ax, ends, marker=marker, color=colour, ms=3.4, mew=0.4, mec="white", zorder=4)


def set_limits(ax: Axes, runs: Sequence[Run], scale: Scale, inches: float = math.inf) -> None:
    """Set the axes to what the runs show; `inches` is the width of the panel."""
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
    responses_axis(ax.xaxis, low, high, inches=inches)


def legend_keys(runs: Sequence[Run], target: float | None) -> list[Any]:
    """Return the legend entries for what the runs show, and nothing else."""
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
