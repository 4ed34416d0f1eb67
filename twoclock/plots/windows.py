"""Both clocks of one stratum in one panel, with the safe window between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from twoclock.plots.clock import (
    censoring_keys,
    finish_axes,
)
from twoclock.plots.series import Curve, draw_curve, draw_points, fit_curve, fit_points, jitter
from twoclock.plots.style import (
    FAILURE,
    GREY,
    SINGLE,
    TARGET,
    Floats,
    Look,
    axes_or_new,
    legend_below,
)
from twoclock.results import ClockFit, SafeWindow, TwoClocks
from twoclock.words import count_text, event_text, exponent_text

SIZE = (SINGLE, 3.2)
"""Default size, inches."""

_LOOKS = {"learning": Look(TARGET, "o", "-"), "failure": Look(FAILURE, "s", (0, (5, 1.3)))}


def plot_two_clocks(
    result: TwoClocks,
    stratum: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    target: float | None = None,
) -> Axes:
    """Draw the learning and the failure clock of one stratum against batch size.

    Parameters
    ----------
    result : TwoClocks
        What `twoclock fit` found.
    stratum : dict
        The stratum, as in `ClockFit.stratum`.
    ax : Axes, optional
        Where to draw; a new single-column figure by default.
    target : float, optional
        Target of the learning clock; by default the first one with a safe window, else the first.

    Returns
    -------
    Axes
        The area between the lines is shaded only where `result.safe_windows` has this stratum and
        target, that is where both clocks have converged.
    """
    target, window = _choose(result, stratum, target)
    fits = [
        fit
        for fit in result.fits
        if fit.stratum == stratum and (fit.clock == "failure" or fit.targets == (target,))
    ]
    ax = axes_or_new(ax, SIZE)
    series = [fit_points(fit) for fit in fits]
    level = 0.95 if window is None else window.level
    curves = {fit.clock: fit_curve(fit, level) for fit in fits}
    for fit, points, shift in zip(fits, series, jitter(series), strict=True):
        draw_points(ax, points, _LOOKS[fit.clock], shift)
        curve = curves[fit.clock]
        if curve is not None:
            draw_curve(ax, curve, _LOOKS[fit.clock])
    if window is not None:
        draw_window(ax, curves.get("learning"), curves.get("failure"), window.batch_size)
    finish_axes(ax, series, "Responses generated")
    keys = censoring_keys(ax, series, list(curves.values()))
    legend_below(
        ax,
        [*_handles(fits, window), *keys],
        columns=1,
        title=f"Responses: exponent of B, {100 * level:g} % interval",
    )
    return ax


def _choose(
    result: TwoClocks, stratum: Mapping[str, Any], target: float | None
) -> tuple[float | None, SafeWindow | None]:
    windows = [w for w in result.safe_windows if w.stratum == stratum]
    if target is None:
        known = [fit.targets[0] for fit in result.learning if fit.stratum == stratum]
        target = next(iter([w.target for w in windows] or known), None)
    return target, next((w for w in windows if w.target == target), None)


def draw_window(
    ax: Axes, learning: Curve | None, failure: Curve | None, sizes: tuple[float, ...]
) -> None:
    """Shade where failure comes after the target, over the batch sizes of the safe window."""
    if learning is None or failure is None or not sizes:
        return
    grid = np.geomspace(min(sizes), max(sizes), 61)
    low, high = _at(learning, grid), _at(failure, grid)
    ax.fill_between(grid, low, high, where=high > low, color=GREY, alpha=0.18, lw=0, zorder=0.5)


def _at(curve: Curve, sizes: Floats) -> Floats:
    """Return the curve's responses at `sizes`, straight in logs between its points."""
    logs = np.interp(np.log(sizes), np.log(curve.batch_size), np.log(curve.responses))
    return np.asarray(np.exp(logs), dtype=np.float64)


def _handles(fits: list[ClockFit], window: SafeWindow | None) -> list[Any]:
    handles: list[Any] = []
    for fit in fits:
        look = _LOOKS[fit.clock]
        line = look.line if fit.status == "converged" else "none"
        name = event_text(fit.clock, fit.targets).removeprefix("Responses ")
        text = exponent_text(fit).replace("-", "\N{MINUS SIGN}")
        label = f"{name}: {text}"
        handles.append(Line2D([], [], color=look.colour, marker=look.marker, ls=line, label=label))
    if window is not None:
        handles.append(Patch(color=GREY, alpha=0.25, lw=0, label=_window_text(window)))
    return handles


def _window_text(window: SafeWindow) -> str:
    first, last = window.batch_size[0], window.batch_size[-1]
    ends = f"\N{MULTIPLICATION SIGN}{window.ratio[0]:.2g} at B = {count_text(first)}"
    if last != first:
        ends += f", \N{MULTIPLICATION SIGN}{window.ratio[-1]:.2g} at B = {count_text(last)}"
    return f"safe window: {ends}"
