"""Interval methods by name, each against a calculation that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from tests.fit_tables import simulate, table
from twoclock.fit import FitSettings, fit_clock
from twoclock.fit.estimate import Problem, estimate
from twoclock.fit.methods import METHODS
from twoclock.fit.newton import solve
from twoclock.fit.resample import SeedWeights
from twoclock.fit.sandwich import influence_values
from twoclock.fit.settings import INTERVALS
from twoclock.laws import LAWS

SIZES = (64, 256, 1024, 4096)


@pytest.fixture(scope="module")
def events():
    """Twelve exact runs."""
    return simulate(np.random.default_rng(5), SIZES, 3, alpha=0.3)


@pytest.fixture(scope="module")
def found(events):
    """Their fit with all methods."""
    return fit_clock(events, settings=FitSettings(draws=2000))


def xy(events):
    """Return centred log B and log responses."""
    x = np.log(events["batch_size"].to_numpy(dtype=float))
    return x - x.mean(), np.log(events["upper"].to_numpy())


def ols(events, **kinds):
    """Return the statsmodels fit."""
    x, y = xy(events)
    return sm.OLS(y, sm.add_constant(x)).fit(**kinds)


def test_every_name_of_the_setting_is_a_method_and_takes_effect(events):
    """Registry and setting list the same names, and the headline has the ends of its own."""
    assert tuple(METHODS) == INTERVALS
    ends = set()
    for name in INTERVALS:
        point = fit_clock(events, settings=FitSettings(draws=300, interval=name)).exponent
        assert point.method == name
        assert (point.lower, point.upper) == (point.by(name).lower, point.by(name).upper)
        ends.add((point.lower, point.upper))
    assert len(ends) >= len(INTERVALS) - 1  # profile-t and model agree on exact runs


@pytest.mark.parametrize("name", ["model", "profile-t"])
def test_on_exact_runs_model_and_profile_are_least_squares(found, events, name):
    """Both reproduce the t interval of statsmodels' OLS."""
    item = found.exponent.by(name)
    assert (item.lower, item.upper) == pytest.approx(ols(events).conf_int()[1], abs=1e-5)
    assert item.se == pytest.approx(ols(events).bse[1])


def test_the_jackknife_is_the_one_done_by_hand(found, events):
    """Leave every run out, refit with statsmodels, add up; t on N - 2."""
    left = np.array([ols(events.drop(index=i)).params[1] for i in events.index])
    n = len(left)
    se = np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum())
    half = stats.t.ppf(0.975, n - 2) * se
    item = found.exponent.by("jackknife-t")
    assert item.se == pytest.approx(se)
    assert (item.lower, item.upper) == pytest.approx((item.estimate - half, item.estimate + half))


def test_cell_means_are_the_regression_of_the_means(found, events):
    """Statsmodels on the four mean log responses gives slope, error and interval."""
    logs = events.assign(y=np.log(events["upper"])).groupby("batch_size")["y"].mean()
    fit = sm.OLS(logs.to_numpy(), sm.add_constant(np.log(logs.index.to_numpy(float)))).fit()
    item = found.exponent.by("cell-means")
    assert (item.estimate, item.se) == pytest.approx((fit.params[1], fit.bse[1]))
    assert (item.lower, item.upper) == pytest.approx(fit.conf_int()[1])


def test_percentiles_are_those_of_scipy_within_their_noise(found, events):
    """scipy.stats.bootstrap, resampling within cells, gives the same ends up to its own noise."""
    cells = [np.log(g["upper"].to_numpy()) for _, g in events.groupby("batch_size")]
    x, _ = xy(events)
    levels = np.unique(x)

    def slope(*samples, axis):
        return np.tensordot(levels, np.stack([s.mean(axis=axis) for s in samples]), 1) / (
            levels @ levels
        )

    theirs = stats.bootstrap(
        cells, slope, n_resamples=20_000, method="percentile", vectorized=True,
        random_state=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    item = found.exponent.by("percentile")
    width = theirs.high - theirs.low
    assert abs(item.lower - theirs.low) < 0.05 * width
    assert abs(item.upper - theirs.high) < 0.05 * width


def test_bootstrap_t_is_the_studentised_bootstrap_with_hc0(events):
    """Draws refitted and studentised with statsmodels' HC0 errors give the same ends."""
    found = fit_clock(events, settings=FitSettings(draws=200), rng=3)
    item = found.exponent.by("bootstrap-t")
    rows = events.sort_values("run_id")
    weights = SeedWeights.of(rows, draws=200, rng=np.random.default_rng(3))
    fits = [
        ols(rows.iloc[np.repeat(np.arange(len(rows)), w.astype(int))], cov_type="HC0")
        for w in weights.columns_for(tuple(rows["run_id"]))
    ]
    full = ols(rows, cov_type="HC0")
    t = np.array([(f.params[1] - full.params[1]) / f.bse[1] for f in fits])
    low, high = np.quantile(t, [0.025, 0.975])
    expected = full.params[1] - full.bse[1] * high, full.params[1] - full.bse[1] * low
    assert (item.lower, item.upper) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loglinear", [False, True])
@pytest.mark.parametrize("error", ["lognormal", "loglogistic", "weibull"])
def test_influence_values_are_derivatives_of_the_exponent(error, loglinear):
    """A little more weight on a run moves the refitted exponent by its influence value."""
    rows = simulate(np.random.default_rng(8), SIZES, 4, alpha=0.2, grid=20_000.0, cap=1.4e5)
    rows.loc[0, ["lower", "upper"]] = rows.loc[0, "upper"]
    rows.loc[5, "lower"] = 0.0
    problem = Problem.of(rows, LAWS["power"], error=error).with_sigma(loglinear=loglinear)
    assert {"exact", "interval", "left", "right"} <= {
        kind for kind in ("exact", "interval", "left", "right") if getattr(problem.data, kind).any()
    }
    found = estimate(problem, problem.ones)
    values = influence_values(problem, found.fit, problem.ones)[0]
    step = 1e-5
    weights = 1.0 + step * np.eye(len(problem))
    at = found.fit.natural(0, loglinear=loglinear)
    up = solve(problem.data, weights, loglinear=loglinear, error=error, start=at).beta[:, 1]
    down = solve(problem.data, 2.0 - weights, loglinear=loglinear, error=error, start=at).beta[:, 1]
    assert values == pytest.approx((up - down) / (2 * step), abs=2e-6)


def test_a_method_that_the_data_do_not_allow_says_why_and_nothing_stands_in():
    """One seed a cell has no bootstrap: asked for by name, no ends; the default says so."""
    one = table({64: [1e5], 256: [9e4], 1024: [1.4e5], 4096: [1.3e5]})
    asked = fit_clock(one, settings=FitSettings(draws=300, interval="bootstrap-t"))
    assert asked.exponent.lower is None
    assert asked.exponent.method == "bootstrap-t"
    assert any("no bootstrap-t interval: one seed in every cell" in n.message for n in asked.notes)
    plain = fit_clock(one, settings=FitSettings(draws=300))
    assert plain.exponent.method == "profile-t"
    assert any("no seed interval exists" in note.message for note in plain.notes)


def test_the_order_of_rows_changes_nothing(found, events):
    """Shuffled rows and the same seed give the same ends of every method."""
    shuffled = events.sample(frac=1.0, random_state=1)
    again = fit_clock(shuffled, settings=FitSettings(draws=2000))
    for a, b in zip(found.exponent.methods, again.exponent.methods, strict=True):
        assert (a.lower, a.upper) == pytest.approx((b.lower, b.upper), rel=1e-12)
