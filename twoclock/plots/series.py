"""Series of the clock figures: what is known of each run, and the fitted line with its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Shape
from numpy.typing import NDArray

from twoclock.plots.style import EXTRAPOLATED, GREY, Floats, Look
from twoclock.results import ClockFit

KINDS = ("exact", "interval", "left", "right")
"""Kinds of censoring that have a place on a log axis; `before_start` has none."""


SPREAD, WIDEST = 0.12, 1.12
"""How wide the runs of one batch size may stand: share of the smallest gap of log B, factor."""


def _arrow(tip: float, start: float) -> MarkerStyle:
    """Return an arrow from `start` to `tip` above (below if negative) the point it marks."""
    barb = tip - 0.8 if tip > start else tip + 0.8
    corners = [(0, start), (0, tip), (-0.6, barb), (0, tip), (0.6, barb)]
    return MarkerStyle(Shape(corners, [1, 2, 1, 2, 2]))


UP, DOWN = _arrow(2, 0), _arrow(-2, 0)
UP_KEY, DOWN_KEY = _arrow(1, -1), _arrow(-1, 1)
"""Arrows of right- and left-censored runs, and the same centred, for legends."""


@dataclass(frozen=True)
class Points:
    """What is known of each run, arrays of shape (n_runs,).

    Parameters
    ----------
    batch_size, lower, upper : ndarray
        Responses; the event lies in (lower, upper].
    kind : ndarray of str
        One of `KINDS`.
    used : ndarray of bool
        False: not part of the headline fit.
    """

    batch_size: Floats
    lower: Floats
    upper: Floats
    kind: NDArray[np.str_]
    used: NDArray[np.bool_]


@dataclass(frozen=True)
class Curve:
    """A fitted line with its pointwise band, arrays of shape (n_points,) in responses."""

    batch_size: Floats
    responses: Floats
    lower: Floats
    upper: Floats
    extrapolated: NDArray[np.bool_]


def fit_points(fit: ClockFit) -> Points:
    """Return the runs of a fit that have a place on a log axis, by batch size, seed and name."""
    events = fit.events
    events = events[events["censoring"].isin(KINDS)]
    order = [name for name in ("batch_size", "seed", "run_id") if name in events.columns]
    events = events.sort_values(order, kind="stable")
    return Points(
        batch_size=_floats(events["batch_size"]),
        lower=_floats(events["lower"]),
        upper=_floats(events["upper"]),
        kind=events["censoring"].to_numpy(dtype=str),
        used=events["used"].to_numpy(dtype=bool),
    )


def _floats(values: pd.Series[Any]) -> Floats:
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def fit_curve(fit: ClockFit, level: float) -> Curve | None:
    """Return the fitted line over all batch sizes of the stratum; None when there is none."""
    if fit.status != "converged" or not fit.cells:
        return None
    sizes = [cell.batch_size for cell in fit.cells]
    grid = np.geomspace(min(sizes), max(sizes), 121)
    inner = [size for size in fit.batch_sizes if min(sizes) <= size <= max(sizes)]
    grid = np.unique(np.concatenate([grid, np.asarray(inner, dtype=np.float64)]))
    table = fit.predict(grid, level=level)
    return Curve(
        batch_size=grid,
        responses=_floats(table["responses"]),
        lower=_floats(table["lower"]),
        upper=_floats(table["upper"]),
        extrapolated=table["extrapolated"].to_numpy(dtype=bool),
    )


def jitter(series: Sequence[Points]) -> list[Floats]:
    """Return a factor on x for each run, so that runs of one batch size stand side by side.

    Strata take neighbouring blocks, runs neighbouring places in their block. The whole is so
    narrow that each run is still read at its batch size: `SPREAD` of the way to the next batch
    size, and never more than the factor `WIDEST`.
    """
    sizes = np.unique(np.concatenate([points.batch_size for points in series] or [np.array([])]))
    gap = float(np.min(np.diff(np.log(sizes)), initial=np.log(4.0)))
    width = min(gap * SPREAD, float(np.log(WIDEST)))
    block = width / max(len(series), 1)
    out = []
    for i, points in enumerate(series):
        shift = np.zeros(len(points.batch_size))
        for size in np.unique(points.batch_size):
            cell = np.flatnonzero(points.batch_size == size)
            places = (np.arange(len(cell)) + 0.5) / len(cell) - 0.5
            shift[cell] = (i - (len(series) - 1) / 2) * block + places * block * 0.8
        out.append(np.exp(shift))
    return out


def draw_points(ax: Axes, points: Points, look: Look, shift: Floats) -> None:
    """Draw each run as what is known of it: a point, an interval, or an arrow."""
    x = points.batch_size * shift
    for used in (True, False):
        colour, face = (look.colour, look.colour) if used else (GREY, "white")
        style: dict[str, Any] = {"linestyle": "none", "mew": 0.7, "zorder": 3}
        if not used:
            style["zorder"] = 2.5
        for kind in KINDS:
            on = (points.kind == kind) & (points.used == used)
            if not on.any():
                continue
            y = _place(points, on, kind)
            if kind == "interval":
                ax.vlines(x[on], points.lower[on], points.upper[on], colour, lw=0.8, zorder=3.2)
            if kind in ("left", "right"):
                arrow = UP if kind == "right" else DOWN
                ax.plot(x[on], y, marker=arrow, color=colour, ms=14, **{**style, "mew": 0.9})
            seen = used and kind in ("exact", "interval")
            solid, edge = (face, "white") if seen else ("white", colour)
            style["mew"] = 0.4 if seen else 0.8
            ax.plot(x[on], y, marker=look.marker, ms=3.8, mfc=solid, mec=edge, **style)


def _place(points: Points, on: NDArray[np.bool_], kind: str) -> Floats:
    """Return where the marker of a run stands: inside what is known of its event."""
    if kind == "interval":
        middle: Floats = np.sqrt(np.maximum(points.lower[on], 1.0) * points.upper[on])
        return middle
    if kind == "right":  # an event needs one rollout, so it is never before B
        return np.maximum(points.lower[on], points.batch_size[on])
    return points.upper[on]


def draw_curve(ax: Axes, curve: Curve, look: Look, *, band: float = 0.13) -> None:
    """Draw a fitted line with its band; outside the fitted batch sizes thin and finely dashed.

    `band` is the opacity of the band: less where many overlap.
    """
    inside = ~curve.extrapolated
    ax.plot(
        curve.batch_size[inside], curve.responses[inside], color=look.colour, ls=look.line, zorder=4
    )
    edge = np.flatnonzero(inside)
    if not len(edge):
        return
    for part in (slice(0, edge[0] + 1), slice(edge[-1], None)):
        ax.plot(
            curve.batch_size[part],
            curve.responses[part],
            color=look.colour,
            ls=EXTRAPOLATED,
            lw=0.8,
            zorder=4,
        )
    if np.isfinite(curve.lower).all():
        ax.fill_between(
            curve.batch_size, curve.lower, curve.upper, color=look.colour, alpha=band, lw=0
        )
