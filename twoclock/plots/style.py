"""Colours, markers, axes and files that every figure shares.

No function changes matplotlib's global settings: `figure_style` is a context.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from twoclock.words import number_text

Floats = NDArray[np.float64]

SINGLE, DOUBLE = 3.4, 7.0
"""Widths of a single- and a double-column figure in a two-column paper, inches."""

GREY = "#6b6b6b"
TARGET, FAILURE = "#0072B2", "#D55E00"

# Okabe and Ito's palette without yellow (too pale on white), ordered so that the first few also
# differ in lightness.
_FEW = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.3)), (0, (5, 1.2, 1, 1.2)), (0, (5, 1, 1, 1, 1, 1)))
EXTRAPOLATED: Any = (0, (1.5, 1.5))

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same bytes on every machine
    "mathtext.fontset": "dejavusans",
    "font.size": 7.0,
    "axes.labelsize": 7.0,
    "axes.titlesize": 7.5,
    "axes.titley": 1.0,  # a fixed place; finding one means measuring every tick label again
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.title_fontsize": 6.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.minor.size": 1.6,
    "ytick.minor.size": 1.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "figure.dpi": 150.0,
    "savefig.dpi": 300.0,
    "pdf.fonttype": 42,  # whole TrueType fonts: editors and journals accept no type 3
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "twoclock",
    "path.simplify": True,
}


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of one series, distinct in greyscale too by marker and line."""

    colour: Any
    marker: str
    line: Any


def looks(n: int) -> tuple[Look, ...]:
    """Return `n` looks: Okabe-Ito colours up to seven, then steps of viridis.

    Examples
    --------
    >>> [look.marker for look in looks(3)]
    ['o', 's', '^']
    >>> len({(look.colour, look.marker) for look in looks(12)})
    12
    """
    if n <= len(_FEW):
        colours: Sequence[Any] = _FEW
    else:
        # The palest tenth of viridis cannot be read on white.
        colours = [mpl.colors.to_hex(c) for c in mpl.colormaps["viridis"](np.linspace(0, 0.9, n))]
    return tuple(
        Look(colours[i], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)]) for i in range(n)
    )


@contextmanager
def figure_style() -> Iterator[None]:
    """Give the context in which the report draws and saves its figures.

    Letters that the font lacks (names in other scripts) are drawn as boxes without a warning: the
    tables hold the names unbroken.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> before = mpl.rcParams["font.size"]
    >>> with figure_style():
    ...     print(mpl.rcParams["font.size"])
    7.0
    >>> mpl.rcParams["font.size"] == before
    True
    """
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure (inches) that lays itself out and belongs to no global registry."""
    return Figure(figsize=(width, height), layout="constrained")


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return `ax`, or the axes of a new pyplot figure of `size` (width, height in inches)."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def root_figure(ax: Axes) -> Figure:
    """Return the figure that holds `ax`, however deep in subfigures."""
    figure: Any = ax.figure
    while not isinstance(figure, Figure):
        figure = figure.figure
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write `figure` to `path` in the format of its suffix, with the same bytes every time.

    No time stamp and no program version goes into the file.
    """
    suffix = path.suffix.lower().lstrip(".")
    empty: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "svg": {"Date": None, "Creator": None},
    }
    figure.savefig(path, format=suffix, metadata=empty[suffix])


def short_number(value: float, _position: int | None = None) -> str:
    """Return a number of responses for an axis: 64, 256, 1,024, then 10k, 100k, 1.5M.

    Powers of two are written in full up to 65,536, because people know them by sight.

    Examples
    --------
    >>> [short_number(v) for v in (64, 1024, 4096, 10_000, 16384, 150_000, 1.5e6, 1e18)]
    ['64', '1,024', '4,096', '10k', '16,384', '150k', '1.5M', '1e18']
    """
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    whole = float(value).is_integer()
    if value < 10_000 or (whole and value <= 65_536 and math.log2(value).is_integer()):
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    if value >= 1e9:
        return number_text(value)
    return f"{value / 1e6:.6g}M" if value >= 1e6 else f"{value / 1e3:.6g}k"


def batch_axis(ax: Axes, sizes: Sequence[float]) -> None:
    """Make x a log axis of batch sizes with a tick at each size, thinned out where they crowd."""
    ax.set_xscale("log")
    ax.set_xlabel("Rollout batch size B (responses)")
    ticks = sorted({float(size) for size in sizes})
    if not ticks:
        return
    # A label is about 0.3 inch wide; sizes nearer than that in log B would overlap.
    width = root_figure(ax).get_figwidth() * 0.75
    span = math.log(ticks[-1] / ticks[0]) or 1.0
    kept = [ticks[0]]
    kept.extend(t for t in ticks[1:] if math.log(t / kept[-1]) / span * width > 0.3)
    ax.xaxis.set_major_locator(mpl.ticker.FixedLocator(kept))
    ax.xaxis.set_major_formatter(FuncFormatter(short_number))
    ax.xaxis.set_minor_locator(mpl.ticker.FixedLocator([t for t in ticks if t not in kept]))
    ax.xaxis.set_minor_formatter(NullFormatter())
    # Room for runs standing side by side at the first and the last batch size (see `jitter`).
    gap = float(np.min(np.diff(np.log(ticks)), initial=math.log(4.0)))
    margin = math.exp(max(0.16 * gap, 0.05 * span))
    ax.set_xlim(ticks[0] / margin, ticks[-1] * margin)


def responses_axis(axis: Any, low: float, high: float, *, inches: float = math.inf) -> None:
    """Give a log axis of responses plain numbers, with enough ticks for its range.

    An axis whose decades are narrower than two labels (`inches` long in all) has decades only.
    """
    decades = math.log10(high / low) if high > low > 0 else 1.0
    subs: Sequence[float] = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.4 else (1, 2, 5)
    if inches / decades < 0.67:
        subs = (1.0,)
    elif decades < 0.5:
        subs = (1, 1.5, 2, 3, 4, 5, 6, 8)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(short_number))
    axis.set_minor_locator(
        LogLocator(base=10, subs=range(1, 10), numticks=60) if decades < 5 else NullLocator()
    )
    axis.set_minor_formatter(NullFormatter())


def shorten(label: str, most: int = 70) -> str:
    """Return a name as a label: cut in its middle where it is longer than a page is wide.

    Dollar signs are escaped, else matplotlib would read what is between two of them as a formula.

    Examples
    --------
    >>> shorten("base lr 1e-5"), shorten("a" * 5 + "b" * 5, most=5), len(shorten("$x"))
    ('base lr 1e-5', 'aa…bb', 3)
    """
    if len(label) > most:
        half = (most - 1) // 2
        label = f"{label[: most - 1 - half]}\N{HORIZONTAL ELLIPSIS}{label[-half:]}"
    return label.replace("$", r"\$")


def legend_columns(texts: Sequence[str], width: float) -> int:
    """Return how many legend entries fit side by side under a figure `width` inches wide.

    Examples
    --------
    >>> legend_columns(["1e-5: 0.14 [0.10, 0.18]"] * 3, 3.4), legend_columns(["x" * 60], 3.4)
    (2, 1)
    """
    return max(1, min(int((width - 0.05) / (legend_width(texts) - 0.05)), len(texts)))


def legend_width(texts: Sequence[str]) -> float:
    """Return how wide (inches) a figure must be for a legend of one column under it."""
    # At the style's 6.5 points a letter takes 0.05 inch on average, the handle and gaps 0.47 inch.
    return 0.52 + 0.05 * max((len(text) for text in texts), default=1)


def legend_below(ax: Axes, handles: Sequence[Any], *, columns: int, title: str = "") -> Any:
    """Put a legend under the x label, at a distance in points: right for any height of axes."""
    down = ScaledTranslation(-22 / 72, -29 / 72, root_figure(ax).dpi_scale_trans)
    return ax.legend(
        handles=list(handles),
        title=title or None,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes + down,
        borderaxespad=0.0,
        ncols=columns,
        columnspacing=1.4,
        handlelength=2.7,
        labelspacing=0.35,
        frameon=False,
        alignment="left",
    )
