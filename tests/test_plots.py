"""Figures show what the results say, look as they looked, and leave matplotlib's settings alone."""

import dataclasses
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images

from tests.golden_figures import FIGURES, FOLDER, draw_golden
from tests.synthetic import make_two_clocks
from twoclock import plots
from twoclock.plots.clock import clock_size
from twoclock.plots.curve_grid import grid_size
from twoclock.plots.forest import Row, draw_forest, exponent_rows, forest_size
from twoclock.plots.series import fit_points, jitter
from twoclock.plots.style import DOUBLE, SINGLE, looks, short_number
from twoclock.results import Bound

TOLERANCE = 1.5
"""Root-mean-square difference of 8-bit colours; one moved marker gives 2.7 and more."""


@pytest.fixture(scope="module")
def result():
    """Three strata: a converged learning fit, a bound, and one that is not identified."""
    return make_two_clocks(3)


@pytest.fixture
def ax():
    """Axes of a figure outside pyplot's registry."""
    return Figure(figsize=(3.4, 2.6)).subplots()


def _legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("name", FIGURES)
def test_figure_looks_as_before(name, tmp_path):
    """Each figure equals its golden image, text apart."""
    draw_golden(name, tmp_path / f"{name}.png")
    difference = compare_images(
        str(FOLDER / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE
    )
    assert difference is None


@pytest.mark.parametrize("name", FIGURES)
def test_plot_draws_on_given_axes_and_changes_no_setting(name, result, ax):
    """A plot function returns the axes it was given and leaves rcParams as they were."""
    before = dict(mpl.rcParams)
    assert FIGURES[name](result, ax) is ax
    assert dict(mpl.rcParams) == before


def test_plot_without_axes_makes_a_new_figure(result):
    """Without axes each call draws on a figure of its own."""
    from matplotlib import pyplot as plt

    first, second = plots.plot_exponents(result), plots.plot_clock(result.failure)
    assert first.figure is not second.figure
    plt.close(first.figure)
    plt.close(second.figure)


def test_legend_says_what_is_not_identified(result, ax):
    """The legend gives the exponent, the bound, or the words "not identified"."""
    texts = _legend(plots.plot_clock(result.learning, ax))
    assert texts[0] == "1e-5: 0.14 [0.10, 0.18]"
    assert texts[1].endswith("at most 0.31")
    assert texts[2].endswith("not identified")


def test_only_converged_fits_have_a_line(result, ax):
    """A fit that did not converge is drawn as data without a line or a band."""
    plots.plot_clock(result.learning[1:], ax)
    assert not ax.collections or all(len(c.get_paths()) != 1 for c in ax.collections)
    solid = [line for line in ax.lines if len(line.get_xdata()) > 2 and line.get_marker() == "None"]
    assert not solid


def test_line_outside_the_fitted_sizes_is_drawn_apart(ax):
    """The part of the line over cells that the fit leaves out is dashed finely and thinner."""
    fit = make_two_clocks(3, last="converged").learning[-1]
    assert fit.batch_sizes == (64, 256, 1024)
    plots.plot_clock([fit], ax)
    lines = [line for line in ax.lines if len(line.get_xdata()) > 2 and line.get_marker() == "None"]
    assert [line.get_xdata().max() for line in lines[:1]] == [pytest.approx(1024)]
    assert lines[-1].get_xdata().max() == pytest.approx(4096)
    assert lines[-1].get_linewidth() < lines[0].get_linewidth()
    assert "extrapolated" in _legend(ax)


def test_every_run_is_drawn_once(result, ax):
    """Markers stand for all runs, censored ones too: none is dropped."""
    fits = result.failure
    plots.plot_clock(fits, ax)
    markers = {look.marker for look in looks(3)}
    drawn = sum(len(line.get_xdata()) for line in ax.lines if line.get_marker() in markers)
    assert drawn == sum(len(fit.events) for fit in fits)


def test_jitter_keeps_order_and_separates_runs(result):
    """Runs of a batch size stand side by side and are still read at their batch size."""
    series = [fit_points(fit) for fit in result.learning]
    first, second = jitter(series), jitter(series)
    for points, shift, again in zip(series, first, second, strict=True):
        assert np.array_equal(shift, again)
        x = points.batch_size * shift
        assert len(np.unique(x)) == len(x)
        assert shift.max() / shift.min() <= 1.12
    near = [dataclasses.replace(points, batch_size=points.batch_size**0.5) for points in series]
    for shift in jitter(near):  # sizes a factor of two apart: 12 % of the way
        assert shift.max() / shift.min() <= 2**0.12


def test_forest_rows(result):
    """Each clock has its heading, its fits in order of base lr, then the published exponents."""
    rows = exponent_rows(result)
    assert [row.kind for row in rows] == (
        ["heading"] + ["fit"] * 3 + ["published"] * 2 + ["heading"] + ["fit"] * 3 + ["published"]
    )
    bound = rows[2]
    assert (bound.estimate, bound.lower, bound.upper) == (None, -np.inf, 0.31)
    assert (rows[3].lower, rows[3].text) == (None, "not identified")


def test_forest_draws_a_set_as_an_open_box(result, ax):
    """A bound on both sides is no interval at a level: a box, without point, caps or line."""
    fit = dataclasses.replace(result.learning[1], bound=Bound("both", None, -0.1, 0.2, 1.0))
    other = dataclasses.replace(result, learning=(fit,), failure=(), equivalence=())
    row = exponent_rows(other)[1]
    assert (row.kind, row.estimate, row.lower, row.upper) == ("set", None, -0.1, 0.2)
    assert row.text == "set [\N{MINUS SIGN}0.10, 0.20]"
    draw_forest(ax, [row], margin=None)
    (box,) = ax.patches
    assert box.get_x() == pytest.approx(-0.1)
    assert box.get_width() == pytest.approx(0.3)
    assert len(ax.lines) == 1  # the one at zero
    assert "open box" in ax.get_xlabel()


def test_forest_draws_seed_noise_of_a_set_dashed(ax):
    """How far seed noise widens a set is a dashed line through its box, named below the axis."""
    draw_forest(ax, [Row("a", "", None, -0.1, 0.2, "set", noise=(-0.3, np.inf))], margin=None)
    noise = ax.lines[-1]
    assert noise.get_linestyle() == "--"
    assert list(noise.get_xdata()) == pytest.approx([-0.3, ax.get_xlim()[1]])
    assert "dashed: the same with seed noise" in ax.get_xlabel()


def test_wide_interval_does_not_squash_the_axis(result, ax):
    """An interval far beyond the exponents ends in an arrow instead of stretching the axis."""
    fit = result.learning[0]
    wide = dataclasses.replace(fit.exponent, lower=-40.0, upper=60.0)
    other = dataclasses.replace(result, learning=(dataclasses.replace(fit, exponent=wide),))
    low, high = plots.plot_exponents(other, ax).get_xlim()
    assert low > -2.5
    assert high < 2.5


def test_window_is_shaded_only_where_there_is_one(result):
    """Without a safe window in the result nothing between the clocks is shaded or so called."""
    stratum = result.learning[0].stratum
    with_window = plots.plot_two_clocks(result, stratum, Figure().subplots())
    none = dataclasses.replace(result, safe_windows=())
    without = plots.plot_two_clocks(none, stratum, Figure().subplots())
    assert any(text.startswith("safe window") for text in _legend(with_window))
    assert not any("window" in text for text in _legend(without))
    assert len(with_window.collections) == len(without.collections) + 1


def test_curves_show_every_run_with_validations(result, ax):
    """One thin line per run, and the censored run marked as such."""
    stratum = result.learning[0].stratum
    plots.plot_validation_curves(result, stratum, 4096, ax)
    assert sum(len(path.vertices) > 5 for path in ax.collections[0].get_paths()) == 5
    assert "no failure by the end" in _legend(ax)


def test_curves_of_a_run_without_validations_do_not_fail(result, ax):
    """A stratum read from an events table has no curves: the axes stay empty."""
    bare = dataclasses.replace(result, evals=pd.DataFrame(), marks=pd.DataFrame())
    plots.plot_validation_curves(bare, result.learning[0].stratum, 64, ax)
    assert not any(len(line.get_xdata()) > 2 for line in ax.lines)
    assert not ax.collections[0].get_paths()


@pytest.mark.parametrize(("n", "labelled"), [(5, 5), (6, 3), (7, 7), (8, 4)])
def test_grid_labels_its_ticks_consistently(result, n, labelled):
    """Ticks are labelled below the last row, or below all panels where that row is not full."""
    stratum = result.learning[0].stratum
    fits = tuple(
        dataclasses.replace(
            fit, events=fit.events.assign(batch_size=64 + np.arange(len(fit.events)) % n)
        )
        for fit in result.fits
        if fit.stratum == stratum
    )
    other = dataclasses.replace(result, learning=fits[:1], failure=())
    with plots.figure_style():
        figure = plots.new_figure(*grid_size(n))
        plots.plot_validation_grid(other, stratum, figure)
        figure.draw_without_rendering()
    shown = [ax for ax in figure.axes if ax.get_visible()]
    with_labels = [ax for ax in shown if ax.xaxis.get_tick_params()["labelbottom"]]
    assert (len(shown), len(with_labels)) == (n, labelled)
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["Responses generated", "Validation accuracy"]
    for ax in with_labels:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("n", [1, 3, 12])
@pytest.mark.parametrize("width", [SINGLE, DOUBLE])
def test_legend_stays_inside_the_figure(n, width):
    """With one stratum or twelve the legend fits the figure and does not cover the axes."""
    result = make_two_clocks(n)
    with plots.figure_style():
        figure = plots.new_figure(*clock_size(result.learning, width))
        ax = plots.plot_clock(result.learning, figure.subplots())
        figure.draw_without_rendering()
        legend = ax.get_legend().get_window_extent()
        axes = ax.get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1 + 1
    assert legend.y0 >= -1
    assert legend.y1 < axes.y0
    assert axes.width > 0.7 * figure.bbox.width
    assert axes.height > 1.6 * figure.dpi


@pytest.mark.parametrize("n", [1, 12])
def test_forest_labels_do_not_overlap(n):
    """Rows of the forest keep their distance at single-column width, text included."""
    result = make_two_clocks(n)
    with plots.figure_style():
        figure = plots.new_figure(*forest_size(exponent_rows(result)))
        ax = plots.plot_exponents(result, figure.subplots())
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
        overlaps = sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert overlaps == 0


def test_long_labels_widen_the_figure_and_keep_the_axes():
    """Strata that differ in several columns get a wider figure, not squashed axes."""
    result = make_two_clocks(3)
    tasks = ("sorting six digits in order", "adding two numbers")
    fits = tuple(
        dataclasses.replace(fit, stratum={**fit.stratum, "task": task})
        for fit in result.learning
        for task in tasks
    )
    result = dataclasses.replace(result, learning=fits)
    rows = exponent_rows(result)
    sizes = {"clock": clock_size(fits), "forest": forest_size(rows)}
    with plots.figure_style():
        for name, size in sizes.items():
            figure = plots.new_figure(*size)
            ax = figure.subplots()
            plots.plot_clock(fits, ax) if name == "clock" else plots.plot_exponents(result, ax)
            figure.draw_without_rendering()
            assert SINGLE < size[0] <= DOUBLE
            assert ax.get_window_extent().width > 1.0 * figure.dpi


def test_looks_differ_without_colour():
    """Twelve series differ by marker alone; seven also by colour from Okabe and Ito's palette."""
    assert len({look.marker for look in looks(12)}) == 12
    assert len({look.colour for look in looks(7)}) == 7


@pytest.mark.parametrize(
    ("value", "text"),
    [(100_000, "100k"), (131_072, "131.072k"), (0.5, "0.5"), (2e6, "2M"), (1e18, "1e18")],
)
def test_axis_numbers_are_plain(value, text):
    """Axis numbers carry no powers of ten."""
    assert short_number(value) == text


def test_same_bytes_every_time(result, tmp_path):
    """PNG, SVG and PDF come out byte by byte the same, also under another hash seed."""
    for suffix in ("png", "svg", "pdf"):
        for name in ("a", "b"):
            with plots.figure_style():
                figure = plots.new_figure(3.4, 2.6)
                plots.plot_exponents(result, figure.subplots())
                plots.save_figure(figure, tmp_path / f"{name}.{suffix}")
        one, other = (tmp_path / f"a.{suffix}"), (tmp_path / f"b.{suffix}")
        assert one.read_bytes() == other.read_bytes()
    assert b"Type3" not in (tmp_path / "a.pdf").read_bytes()


def test_plots_import_no_torch_and_choose_no_backend():
    """Importing the plots loads neither torch nor pyplot."""
    code = (
        "import sys, twoclock.plots; "
        "print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
