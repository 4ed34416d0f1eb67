"""Fitting one clock: truth, the known troubles of such fits, and what the result must say."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.fit_tables import simulate, table
from twoclock.errors import FitError, SettingsError, TableError
from twoclock.fit import FitSettings, fit_clock, point_exponent
from twoclock.fit.bounds import separation_bound
from twoclock.fit.checks import leave_out
from twoclock.fit.estimate import Problem, estimate
from twoclock.fit.identify import DOWN
from twoclock.fit.intervals import jackknife
from twoclock.fit.resample import SeedWeights
from twoclock.laws import LAWS

QUICK = FitSettings(draws=300, floor="warn")
SIZES = (64, 256, 1024, 4096, 16384)


def fit(cells, **options):
    """Fit a small table with few draws."""
    return fit_clock(table(cells), settings=QUICK, **options)


def codes(result):
    """Return the codes of the notes."""
    return [note.code for note in result.notes]


def message(result, code):
    """Return the message of the first note with this code."""
    return next(note.message for note in result.notes if note.code == code)


# the group of fits, censoring and bootstrap among the known troubles


def test_exact_power_law():
    """88: points on a power law give it back, and say that the interval is degenerate."""
    found = fit({64: [500000], 128: [353553.390593], 256: [250000], 512: [176776.695297]})
    assert found.status == "converged"
    assert found.exponent.estimate == pytest.approx(-0.5, abs=1e-6)
    assert found.coefficient == pytest.approx(4.0e6, rel=1e-6)
    assert (found.exponent.method, found.sigma, found.loglik) == ("degenerate", 0.0, None)
    assert "degenerate" in codes(found)


def test_two_batch_sizes():
    """89: two B values have sixteen draws from -0.6315 to -0.3685, and no check of the law."""
    found = fit({64: [100000, 120000], 256: [50000, 60000]})
    assert found.exponent.estimate == pytest.approx(-0.5, abs=1e-9)
    slopes = np.unique(found.draws[:, 1].round(6))
    assert (slopes[0], slopes[-1]) == pytest.approx((-0.6315, -0.3685), abs=1e-4)
    assert len(slopes) <= 16
    assert "two B values" in message(found, "two_batch_sizes")
    assert np.isfinite([found.exponent.lower, found.exponent.upper]).all()


def test_one_batch_size():
    """90: one B value has no slope, but its cell is shown."""
    found = fit({256: [50000, 52000, 47000]})
    assert found.status == "not_identified"
    assert "slope not estimable" in message(found, "one_batch_size")
    assert found.cells[0].n_runs == 3


def test_every_run_censored():
    """92: without an event there is no slope, and the note says how long each run lasted."""
    found = fit({64: [">1e5"] * 3, 256: [">1e5"] * 3})
    assert (found.status, found.exponent, found.bound) == ("not_identified", None, None)
    assert "no event observed; each >= 100000" in message(found, "no_event")


def test_perfect_separation():
    """93: small B never fails, large B always: a one-sided bound, weaker than chi-square's."""
    found = fit({64: [">1e6"] * 3, 512: [2.0e5, 2.2e5, 1.8e5]})
    assert found.status == "bound"
    assert found.exponent is None
    assert found.bound.side == "upper"
    assert -0.78 < found.bound.value < -0.5
    assert "<= -0.779" in message(found, "separated")
    assert "B=64: > 1e+06 (x3)" in message(found, "what_runs_show")


def test_separation_upwards_mirrors():
    """93 turned round gives the same bound from below."""
    down = fit({64: [">1e6"] * 3, 512: [2.0e5, 2.2e5, 1.8e5]})
    up = fit({64: [2.0e5, 2.2e5, 1.8e5], 512: [">1e6"] * 3})
    assert up.bound.side == "lower"
    assert up.bound.value == pytest.approx(-down.bound.value, abs=1e-6)


def test_one_event_only_is_no_bound():
    """A single event among censored runs tells no sigma, so not even a bound."""
    assert fit({64: [">1e6"] * 3, 512: [2.0e5]}).status == "not_identified"


def test_left_against_right_censored_is_a_bound_from_counting():
    """Only left- and right-censored runs: the edge is a bound when chance is small enough."""
    found = fit({64: [">1e6"] * 4, 512: [(0, 2e5)] * 4})
    assert found.bound.value == pytest.approx(np.log(0.2) / np.log(8), abs=1e-6)
    assert fit({64: [">1e6"], 512: [(0, 2e5)] * 2}).status == "not_identified"


def test_zero_variance():
    """94: equal seeds give -0.5 with a degenerate interval, no NaN."""
    found = fit({64: [1e5] * 3, 256: [5e4] * 3})
    exponent = found.exponent
    assert exponent.estimate == pytest.approx(-0.5)
    assert (exponent.lower, exponent.upper) == pytest.approx((-0.5, -0.5))
    assert exponent.method == "degenerate"
    assert "degenerate" in message(found, "degenerate")


def test_two_runs_have_no_interval():
    """Two points always lie on a line: an estimate, no interval."""
    found = fit({64: [1e5], 256: [5e4]})
    assert found.exponent.estimate == pytest.approx(-0.5)
    assert (found.exponent.lower, found.exponent.upper) == (None, None)


@pytest.mark.parametrize(
    ("cells", "lost"),
    [
        ({64: [1e5, (9e4, 1.1e5)], 256: [5e4]}, ("b64s0", "b256s0")),
        ({64: [1e5], 256: [5e4] * 3}, ("b64s0",)),
        ({64: [1e5] * 3, 256: [5e4] * 2, 1024: [">1e4"]}, ()),
    ],
)
def test_degenerate_claims_equality_only_where_it_holds(cells, lost):
    """Exact runs that pin a line give no interval where the data allow other lines."""
    found = fit(cells)
    assert (found.status, found.sigma) == ("converged", 0.0)
    assert found.exponent.estimate == pytest.approx(-0.5)
    assert (found.exponent.se, found.exponent.lower, found.exponent.upper) == (None, None, None)
    note = next(note for note in found.notes if note.code == "degenerate")
    assert "are equal" not in note.message
    assert note.runs == lost
    assert found.predict([64])["lower"].isna().all()


def test_degenerate_with_a_wider_bootstrap_has_no_headline_interval():
    """A bootstrap interval of some width never stands beside a headline of none."""
    found = fit({64: [1e5, (9e4, 1.1e5)], 256: [5e4]})
    assert found.exponent.percentile[1] - found.exponent.percentile[0] > 0.1


def test_outlier_seed_is_named():
    """95: the run that flips the slope is named with the slope without it, and kept."""
    cells = {64: [100000, 110000, 90000], 128: [70000, 77000, 63000], 256: [50000, 55000, 400000]}
    found = fit(cells)
    assert found.exponent.estimate == pytest.approx(0.025, abs=1e-3)
    driver = next(note for note in found.notes if note.code == "driven_by_run")
    assert driver.runs == ("b256s2",)
    assert "-0.467 without" in driver.message
    without = next(i for i in found.influence if i.drop == {"run_id": "b256s2"})
    assert without.exponent == pytest.approx(-0.467, abs=1e-3)
    assert len(found.used) == 9


def size_drivers(events):
    """Return the messages that name a batch size as the driver."""
    found = fit_clock(events, settings=FitSettings(draws=0, floor="warn"))
    return [note.message for note in found.notes if note.code == "driven_by_batch_size"]


def test_batch_size_that_drives_the_slope_is_named():
    """A far B=65536 off the line of the others is named, and nothing else is."""
    rng = np.random.default_rng(0)
    cells = {}
    for size in (256, 512, 1024, 2048, 4096, 8192, 65536):
        level = np.log(1e5) + 0.27 * np.log(size / 512) + (1.5 if size == 65536 else 0.0)
        cells[size] = np.exp(level + 0.25 * rng.normal(size=3)).tolist()
    (told,) = size_drivers(table(cells))
    assert told.startswith("B=65536 drives the slope")


def test_batch_size_without_which_nothing_is_identified_is_named():
    """Where the other sizes give no exponent at all, the slope hangs on the one."""
    told = size_drivers(table({64: [">1e6"] * 2, 256: [4e5, 5e5, 4.5e5], 1024: [1e5, 1.2e5, 9e4]}))
    assert any("not identified without it" in message for message in told)


@pytest.mark.parametrize("sizes", [SIZES[:3], SIZES[:4], SIZES])
def test_noise_does_not_drive_the_slope(sizes):
    """Of data sets from a true power law at most 10 % name a batch size (0 to 3 % measured)."""
    rng = np.random.default_rng(0)
    named = [bool(size_drivers(simulate(rng, sizes, 3, alpha=0.2))) for _ in range(40)]
    assert sum(named) <= 4


def test_sign_change_within_noise_is_no_driver():
    """An exponent near zero changes its sign without an end: that alone names nothing."""
    cells = {64: [1e5, 1.6e5], 256: [2.2e5, 1.4e5], 1024: [1.3e5, 1e5]}
    found = fit(cells)
    without = [i.exponent for i in found.influence if "batch_size" in i.drop]
    assert min(without) < -0.05 < 0.05 < max(without)
    assert "driven_by_batch_size" not in codes(found)


def test_stratified_draws_never_lose_a_batch_size():
    """96: single-seed cells are named and never lost; percentiles exist."""
    found = fit({64: [1e5], 128: [9e4], 256: [5e4, 6e4, 4e4, 5.5e4, 4.5e4, 5e4]})
    assert np.isfinite(found.draws).all()
    assert "B=64, B=128" in message(found, "single_seed")
    assert found.exponent.method == "jackknife-t, pooled over cells"
    assert [c.flags for c in found.cells] == [("single_seed",), ("single_seed",), ()]


def test_fit_is_in_logs():
    """99: the slope is that of log R, -0.6066, not of R."""
    cells = {64: [7e5, 4.5e5], 128: [4e6 * 128**-0.5] * 2, 256: [2.5e5] * 2}
    cells[512] = [0.7 * 4e6 * 512**-0.5, 1.1 * 4e6 * 512**-0.5]
    assert fit(cells).exponent.estimate == pytest.approx(-0.6066, abs=1e-4)


def test_censoring_is_neither_dropped_nor_an_event():
    """100: -0.698 by censoring; the two wrong answers stand beside it under their names."""
    found = fit({64: [">120000"] * 3, 256: [80000, 100000, ">120000"], 1024: [30000, 40000, 50000]})
    assert found.exponent.estimate == pytest.approx(-0.698, abs=1e-3)
    assert found.sensitivity["without_censored"] == pytest.approx(-0.596, abs=1e-3)
    assert found.sensitivity["caps_as_events"] == pytest.approx(-0.404, abs=1e-3)
    assert (found.count("exact"), found.count("right")) == (5, 4)


def test_one_line_through_every_interval_is_a_set():
    """102: late detection that grows with B gives the set [-0.13, 0.03], never +0.233."""
    seen = {64: [(29440, 30720)], 256: [(25600, 30720)], 1024: [(20480, 40960)], 4096: [(0, 81920)]}
    found = fit(seen)
    assert (found.status, found.bound.side) == ("bound", "both")
    assert found.bound.lower == pytest.approx(-0.13, abs=0.005)
    assert found.bound.upper == pytest.approx(0.03, abs=0.005)
    assert "0 is inside" in message(found, "exponent_is_a_set")


def test_a_set_has_its_profile_interval_as_numbers():
    """The range that allows for seed noise is a field: it holds the set, in the note's numbers."""
    cells = {64: [(29440, 30720)], 256: [(25600, 30720)], 1024: [(20480, 40960)]}
    found = fit(cells)
    bound = found.bound
    assert bound.profile[0] < bound.lower < bound.upper < bound.profile[1]
    told = found.to_dict()["bound"]
    assert (told["profile"], told["profile_level"]) == (list(bound.profile), 0.95)
    assert (told["level"], told["lower"]) == (1.0, bound.lower)
    noise = f"[{bound.profile[0]:+.2f}, {bound.profile[1]:+.2f}]"
    assert noise in message(found, "exponent_is_a_set")
    other = fit_clock(table(cells), settings=FitSettings(draws=0, error="loglogistic"))
    assert other.bound.profile != bound.profile


def test_a_one_sided_bound_has_no_profile():
    """Only a set has a profile interval beside it."""
    told = fit({64: [">1e6"] * 3, 512: [2.0e5, 2.2e5, 1.8e5]}).to_dict()["bound"]
    assert (told["profile"], told["profile_level"]) == (None, None)


def test_copied_seed_counts_once():
    """106: a run that repeats another's seed and event is named and left out."""
    events = table({64: [1e5, 1e5, 1.2e5], 256: [5e4, 6e4, 7e4]})
    events.loc[events["run_id"] == "b64s1", "seed"] = 0
    found = fit_clock(events, settings=QUICK)
    note = next(note for note in found.notes if note.code == "duplicate_run")
    assert note.runs == ("b64s1",)
    assert found.cells[0].n_runs == 2
    assert found.used.loc[found.used["batch_size"] == 64, "seed"].nunique() == 2


def test_same_seed_same_bytes_whatever_the_order():
    """107: the same seed gives the same bytes, also from shuffled rows; another seed does not."""
    events = simulate(np.random.default_rng(0), SIZES[:3], 3, alpha=0.3, grid=8192)
    one = fit_clock(events, settings=QUICK, rng=7)
    two = fit_clock(events.sample(frac=1, random_state=1), settings=QUICK, rng=7)
    other = fit_clock(events, settings=QUICK, rng=8)
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert one.draws.tobytes() == two.draws.tobytes()
    assert one.draws.tobytes() != other.draws.tobytes()


def test_unequal_seeds_say_how_they_are_weighted():
    """108: run-weighted -0.556, cell-weighted -0.500, and the seeds of each B are listed."""
    found = fit({64: [100000], 128: [90000], 256: [50000] * 6})
    assert found.exponent.estimate == pytest.approx(-0.556, abs=1e-3)
    assert found.sensitivity["cell_means"] == pytest.approx(-0.5, abs=1e-9)
    told = message(found, "unequal_cells")
    assert "B=64: 1, B=128: 1, B=256: 6" in told
    assert "-0.500" in told


def test_curved_law_is_noticed_without_replicates():
    """109: a floor plus linear growth gives +0.479 and a lack-of-fit warning with its signs."""
    cells = {32: 232000, 64: 264000, 128: 328000, 256: 456000, 512: 712000, 1024: 1224000}
    found = fit({size: [value] for size, value in cells.items()})
    assert found.exponent.estimate == pytest.approx(0.479, abs=1e-3)
    assert "+ - - - - +" in message(found, "lack_of_fit")
    assert found.exponent.method == "profile-t"
    assert "no seed interval exists" in message(found, "no_replicates")
    assert found.lack_of_fit is None
    assert "holds locally" in message(found, "lack_of_fit")
    told = found.to_dict()["curvature"]
    assert told["p"] < 1e-4
    assert (told["pattern"], told["df1"], told["df2"]) == ("+ - - - - +", 1, 3)


@pytest.mark.parametrize(
    "cells",
    [
        {64: [1e5] * 3, 256: [5e4] * 2, 1024: [2e5] * 2},
        {64: [1e5] * 2, 256: [5e4], 1024: [2e5, (1.9e5, 2.1e5)]},
        {64: [1e5] * 2, 256: [5e4] * 2, 1024: [">1e5"] * 2},
    ],
)
def test_lack_of_fit_without_spread_is_infinite(cells):
    """Seeds that agree exactly at sizes off the line are the strongest lack of fit, not none."""
    found = fit(cells)
    told = found.to_dict()["lack_of_fit"]
    assert (told["statistic"], told["p"]) == (None, 0.0)
    assert np.isinf(found.lack_of_fit.statistic)
    assert "agree exactly" in message(found, "lack_of_fit")


def test_lack_of_fit_needs_exact_runs_that_agree():
    """A free level per size fits one exact run each for nothing: that is no lack of fit."""
    found = fit({64: [1e5], 256: [5e4], 1024: [2e5, (1.9e5, 2.1e5)]})
    assert found.status == "converged"
    assert found.lack_of_fit is None
    assert "lack_of_fit" not in codes(found)


def test_exact_bend_is_infinite_curvature():
    """Exact runs on a parabola in logs, with runs to spare, have p 0 and keep their pattern."""
    found = fit({64: [1e5], 256: [5e4], 1024: [5e4], 4096: [1e5], 16384: [4e5]})
    assert found.to_dict()["curvature"] == {
        "statistic": None, "df1": 1.0, "df2": 2.0, "p": 0.0, "pattern": "+ - - - +"
    }  # fmt: skip


# intervals


def test_profile_of_exact_runs_is_the_t_interval():
    """For exact runs the t-calibrated profile is the least-squares t interval."""
    import statsmodels.api as sm

    events = simulate(np.random.default_rng(3), SIZES, 3, alpha=0.2)
    found = fit_clock(events, settings=QUICK)
    x = np.log(found.used["batch_size"].to_numpy(float))
    ols = sm.OLS(np.log(found.used["lower"].to_numpy(float)), sm.add_constant(x)).fit()
    assert found.exponent.estimate == pytest.approx(ols.params[1])
    assert found.exponent.profile == pytest.approx(tuple(ols.conf_int()[1]), abs=1e-6)
    assert found.sigma == pytest.approx(np.sqrt(ols.ssr / len(x)))


def test_lack_of_fit_of_exact_runs_is_the_classical_f():
    """With replicates and exact runs the test is the textbook replicate F."""
    events = simulate(np.random.default_rng(4), SIZES, 3, alpha=0.2)
    found = fit_clock(events, settings=QUICK)
    y = np.log(found.used["lower"].to_numpy(float)).reshape(5, 3)
    pure = ((y - y.mean(axis=1, keepdims=True)) ** 2).sum()
    rest = 15 * found.sigma**2
    expected = (rest - pure) / 3 / (pure / 10)
    assert found.lack_of_fit.statistic == pytest.approx(expected)
    assert (found.lack_of_fit.df1, found.lack_of_fit.df2) == (3, 10)


def test_percentile_takes_draws_without_exponent_by_their_ends():
    """Draws that separate widen the percentile interval to infinity instead of vanishing."""
    found = fit({64: [">120000"] * 3, 256: [80000, 100000, ">120000"], 1024: [30000, 40000, 50000]})
    assert "draws_not_identified" in codes(found)
    assert found.exponent.percentile[0] == -np.inf
    assert found.to_dict()["exponent"]["percentile"][0] is None
    assert np.isnan(found.draws[:, 1]).sum() > 0


@pytest.mark.parametrize("draws", [0, 1, 99, 100])
def test_few_draws_give_no_percentile_interval(draws):
    """Under 100 draws there is no percentile interval and a note says so; none asked is silent."""
    events = table({64: [1e5, 1.2e5], 256: [5e4, 6e4], 1024: [3e4, 2.5e4]})
    found = fit_clock(events, settings=FitSettings(draws=draws, floor="warn"))
    assert (found.exponent.percentile is None) == (draws < 100)
    assert (found.draws is None) == (draws < 100)
    assert found.exponent.lower < found.exponent.estimate < found.exponent.upper
    assert ("few_draws" in codes(found)) == (0 < draws < 100)


def test_no_weights_at_all_are_silent_too():
    """Shared weights without a draw, as --draws 0 gives them, are no few draws."""
    events = table({64: [1e5, 1.2e5], 256: [5e4, 6e4], 1024: [3e4, 2.5e4]})
    weights = SeedWeights.of(events, draws=0, rng=np.random.default_rng(0))
    found = fit_clock(events, settings=QUICK, weights=weights)
    assert found.exponent.percentile is None
    assert "few_draws" not in codes(found)


def test_crossed_seeds_use_their_own_jackknife():
    """resample='seeds' deletes and draws seed numbers, with t on seeds - 1."""
    events = simulate(np.random.default_rng(5), SIZES[:3], 4, alpha=0.2)
    found = fit_clock(events, settings=FitSettings(draws=200, floor="warn", resample="seeds"))
    assert found.exponent.method == "jackknife-t over seed numbers"
    assert found.exponent.df == 3.0


def coverage(seeds, *, grid, reps, seed=0, **options):
    """Return the share of simulated jackknife-t intervals at 95 % that hold the truth."""
    rng, inside = np.random.default_rng(seed), 0
    for _ in range(reps):
        events = simulate(rng, SIZES, seeds, alpha=0.3, grid=grid, **options)
        problem = Problem.of(events, LAWS["power"])
        found = estimate(problem, problem.ones)
        _, deleted = leave_out(problem, found, None)
        made = jackknife(deleted.fit.beta, len(problem) - 2.0)
        _, (lower, upper) = made.interval(float(found.fit.beta[0, 1]), 1, 0.95)
        inside += lower <= 0.3 <= upper
    return inside / reps


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("grid", [None, 8192.0])
def test_jackknife_t_covers(seeds, grid):
    """Nominal 95 % covers 93 to 97 % at equal seeds (600 draws: give or take 2 standard errors)."""
    share = coverage(seeds, grid=grid, reps=600)
    noise = 2 * np.sqrt(0.95 * 0.05 / 600)
    assert 0.93 - noise <= share <= 0.97 + noise


@pytest.mark.slow
def test_separation_bound_covers():
    """Given that runs separate, the 95 % bound holds the truth in at least 93 % (minus noise)."""
    rng, truth, cap, held, seen = np.random.default_rng(2), -0.8, np.log(1e6), 0, 0
    size = np.repeat([64, 512], 3)
    level = cap + 0.15 + truth * np.log(size / 64)  # the small size fails late, often after the cap
    while seen < 200:
        y = level + 0.5 * rng.normal(size=6)
        late = y > cap
        if not late[:3].all() or late[3:].any():
            continue
        cells = {64: [">1e6"] * 3, 512: np.exp(y[3:]).tolist()}
        problem = Problem.of(table(cells), LAWS["power"])
        seen += 1
        held += truth <= separation_bound(problem, DOWN, 0.95)
    assert held / seen >= 0.93 - 2 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_recovers_the_truth_without_bias():
    """Interval- and right-censored runs give the simulated exponent back on average."""
    rng = np.random.default_rng(1)
    found = [
        point_exponent(simulate(rng, SIZES, 3, alpha=0.3, grid=8192.0, cap=2.5e5), settings=QUICK)
        for _ in range(200)
    ]
    values = np.array([value for value in found if value is not None])
    assert len(values) > 195
    assert values.mean() == pytest.approx(0.3, abs=3 * values.std() / np.sqrt(len(values)) + 0.01)


# cells, floor, sigma


def test_floor_bound_cells_leave_the_headline():
    """Cells under five rollouts are shown but not in the headline; all_cells has them."""
    cells = {64: [1000, 1200], 256: [2000, 2200], 512: [3000, 3300], 1024: [4000, 5000]}
    found = fit_clock(table(cells), settings=FitSettings(draws=100))
    assert found.batch_sizes == (64, 256, 512)
    assert found.cells[-1].flags == ("floor_bound",)
    assert found.sensitivity["all_cells"] != pytest.approx(found.exponent.estimate, abs=1e-4)
    assert "left out" in message(found, "floor_bound")
    out = found.events[~found.events["used"]]
    assert out["why_not"].str.startswith("floor_bound").all()


def test_floor_never_leaves_fewer_than_three_sizes():
    """Where fewer than three sizes would remain, all are used and the headline is warned."""
    cells = {64: [1000, 1200], 256: [2000, 2200], 1024: [4000, 5000]}
    found = fit_clock(table(cells), settings=FitSettings(draws=100))
    assert found.batch_sizes == (64, 256, 1024)
    assert "used all the same" in message(found, "floor_bound")


def test_batch_sizes_restrict_the_headline():
    """batch_sizes= keeps the others out, with the reason in why_not."""
    events = simulate(np.random.default_rng(6), SIZES, 2, alpha=0.2)
    found = fit_clock(events, settings=QUICK, batch_sizes=(64, 256, 1024))
    assert found.batch_sizes == (64, 256, 1024)
    assert (found.events["used"] == found.events["batch_size"].isin((64, 256, 1024))).all()
    assert point_exponent(events, batch_sizes=(64, 256, 1024)) == found.exponent.estimate


def test_unequal_sigma_is_followed_when_censoring_makes_it_matter():
    """With heavy right-censoring and sigma growing with B, the log-linear sigma is the headline."""
    rng = np.random.default_rng(8)
    cells = {}
    for size, sigma in zip(SIZES, (0.1, 0.2, 0.4, 0.8, 1.6), strict=True):
        values = 1e5 * (size / 1024) ** 0.3 * np.exp(sigma * rng.normal(size=8))
        cells[size] = [">1.5e5" if v > 1.5e5 else v for v in values]
    found = fit(cells)
    assert found.exponent.estimate == pytest.approx(found.sensitivity["sigma_loglinear"])
    assert found.sensitivity["sigma_constant"] != pytest.approx(found.exponent.estimate, abs=0.01)
    fixed = fit_clock(table(cells), settings=FitSettings(draws=50, floor="warn", sigma="constant"))
    assert fixed.exponent.estimate == pytest.approx(found.sensitivity["sigma_constant"])
    assert fixed.aicc > found.aicc
    assert "sigma_loglinear" in codes(found)


def test_runs_that_failed_before_the_target_are_warned_about():
    """A share of failed-before-target runs over 20 % of a cell is said."""
    events = table({64: [1e5, 1.1e5, 1.2e5], 256: [1.3e5, 1.5e5, ">5e4"], 1024: [2e5, 2.2e5, 2e5]})
    flags = np.where(events["upper"] == np.inf, "failed_before_target", "")
    found = fit_clock(events.assign(flags=flags), settings=QUICK)
    assert "B=256: 33%" in message(found, "failed_before_target")


def test_rows_left_out_upstream_stay_out():
    """used=False rows keep their reason and do not count."""
    events = table({64: [1e5, 1.1e5], 256: [1.3e5, 1.5e5], 1024: [2e5, 9e9]})
    used = events["run_id"] != "b1024s1"
    events = events.assign(used=used, why_not=np.where(used, "", "clipping can act"))
    found = fit_clock(events, settings=QUICK)
    assert found.cells[-1].n_runs == 1
    assert found.events.set_index("run_id").loc["b1024s1", "why_not"] == "clipping can act"
    assert "b1024s1" not in set(found.jackknife["run_id"])


def test_run_without_information_is_named_and_not_counted():
    """A run known only to lie in (0, inf] is named, not fitted, and changes nothing."""
    cells = {64: [1e5, 1.1e5], 256: [1.3e5, 1.5e5], 1024: [2e5, 2.1e5]}
    found = fit({**cells, 256: [*cells[256], (0, np.inf)]})
    assert next(n for n in found.notes if n.code == "no_information").runs == ("b256s2",)
    row = found.events.set_index("run_id").loc["b256s2"]
    assert not row["used"]
    assert row["why_not"].startswith("no validation")
    assert (found.cells[1].n_runs, len(found.used)) == (2, 6)
    assert found.exponent.estimate == fit(cells).exponent.estimate
    alone = fit({64: [(0, np.inf)], 256: [(0, np.inf)]})
    assert (alone.status, alone.exponent) == ("not_identified", None)
    assert "no_information" in codes(alone)


def test_before_start_has_no_likelihood_term():
    """A run that met the target at 0 responses is named and not fitted."""
    events = table({64: [1e5, 1.1e5], 256: [1.3e5, 1.5e5], 1024: [2e5, 2.1e5]})
    events.loc[0, ["lower", "upper", "censoring"]] = [0.0, 0.0, "before_start"]
    found = fit_clock(events, settings=QUICK)
    assert next(n for n in found.notes if n.code == "before_start").runs == ("b64s0",)
    assert len(found.used) == 5


# contract


def test_shared_weights_pair_the_draws():
    """Weights drawn from a union of runs give both fits the same draws of the same runs."""
    events = simulate(np.random.default_rng(9), SIZES[:3], 3, alpha=0.2)
    weights = SeedWeights.of(events, draws=200, rng=np.random.default_rng(0))
    part = events[events["run_id"] != "b64s0"]
    one = fit_clock(events, settings=QUICK, weights=weights)
    two = fit_clock(part, settings=QUICK, weights=weights)
    assert np.corrcoef(one.draws[:, 1], two.draws[:, 1])[0, 1] > 0.5
    assert len(one.draws) == len(two.draws) == 200


@pytest.mark.parametrize(
    "cells",
    [
        {64: [1e5, 1.2e5], 256: [5e4, 6e4], 1024: [3e4, ">4e4"]},
        {64: [">1e6"] * 3, 512: [2.0e5, 2.2e5, 1.8e5]},
        {64: [(0, 100)], 256: [(0, 300)]},
        {64: [(100, 200)], 256: [(150, 300)]},
    ],
)
def test_json_is_plain(cells):
    """Whatever the status, to_dict() is JSON without NaN, and summary has one row."""
    found = fit(cells)
    json.dumps(found.to_dict(), allow_nan=False)
    assert len(found.summary()) == 1
    assert (found.exponent is not None) == (found.status == "converged")
    assert (found.bound is not None) == (found.status == "bound")


def test_inputs_are_not_changed():
    """The events that are given stay as they are."""
    events = table({64: [1e5, 1.2e5], 256: [5e4, 6e4]})
    before = events.copy()
    fit_clock(events, settings=QUICK)
    pd.testing.assert_frame_equal(events, before)


def test_progress_is_told():
    """Progress gets (done, total) up to the end."""
    seen = []
    fit(
        {64: [1e5, 1.2e5], 256: [5e4, 6e4]}, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1][0] == seen[-1][1]


def test_misuse_is_refused():
    """Mixed targets, repeated runs, impossible intervals and missing columns are errors."""
    events = table({64: [1e5], 256: [5e4]})
    with pytest.raises(FitError, match="one fit takes one target"):
        fit_clock(pd.concat([events, events.assign(target=0.7, run_id="x")]))
    with pytest.raises(FitError, match="stands in two rows"):
        fit_clock(pd.concat([events, events]))
    with pytest.raises(FitError, match="0 <= lower <= upper"):
        fit_clock(events.assign(lower=9e9))
    with pytest.raises(TableError, match="'batch_size'"):
        fit_clock(events.drop(columns="batch_size"))


@pytest.mark.parametrize(
    "bad",
    [
        {"level": 1.0},
        {"draws": -1},
        {"sigma": "x"},
        {"resample": "x"},
        {"floor": "x"},
        {"floor_rollouts": -1.0},
        {"error": "cauchy"},
    ],
)
def test_settings_are_checked(bad):
    """A value outside its range is a SettingsError that names it."""
    with pytest.raises(SettingsError, match=next(iter(bad))):
        FitSettings(**bad)


def test_empty_table_is_a_result():
    """No usable run is not identified, not a crash."""
    events = table({64: [1e5]}).assign(used=False, why_not="clipping can act")
    found = fit_clock(events, settings=QUICK)
    assert found.status == "not_identified"
    assert point_exponent(events) is None


def test_choice_of_sigma_that_matters_is_said():
    """Censored runs whose exponent hangs on how seeds spread get a note with both exponents."""
    rng, seen = np.random.default_rng(11), 0
    for _ in range(8):
        cells = {}
        for size, sigma in zip(SIZES, (0.2, 0.28, 0.4, 0.56, 0.8), strict=True):
            values = 1e5 * (size / 512) ** 0.3 * np.exp(sigma * rng.normal(size=3))
            cells[size] = [">1.5e5" if v > 1.5e5 else v for v in values]
        found = fit_clock(table(cells), settings=FitSettings(draws=0, floor="warn"))
        if "sigma_sensitive" in codes(found):
            seen += 1
            pair = found.sensitivity["sigma_constant"], found.sensitivity["sigma_loglinear"]
            assert abs(pair[0] - pair[1]) > 0.5 * found.exponent.se
            assert found.exponent.estimate == pytest.approx(pair[0])
    assert seen > 0
