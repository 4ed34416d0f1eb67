"""Differences, equivalence and the safe window against known truth."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from twoclock.compare import difference, equivalence, runs_to_settle, safe_window
from twoclock.errors import FitError
from twoclock.fit import FitSettings, fit_clock

SIZES = (64, 256, 1024)


def exact_events(log_r, sizes, seeds, *, clock="learning", prefix=""):
    """Make an events table of exact log responses."""
    n = len(log_r)
    return pd.DataFrame(
        {
            "run_id": [f"{prefix}{b}-{s}" for b, s in zip(sizes, seeds, strict=True)],
            "clock": clock,
            "target": 0.6 if clock == "learning" else np.nan,
            "batch_size": sizes,
            "seed": seeds,
            "lower": np.exp(log_r),
            "upper": np.exp(log_r),
            "censoring": "exact",
            "flags": [""] * n,
        }
    )


def grid(seeds, sizes=SIZES):
    """Return batch size and seed of every run of a full design."""
    return np.repeat(sizes, seeds), np.tile(np.arange(seeds), len(sizes))


def fit(events, stratum=None):
    """Fit without bootstrap draws."""
    return fit_clock(events, settings=FitSettings(draws=0), stratum=stratum or {})


def test_a_difference_of_disjoint_fits_adds_variances():
    """Independent strata: estimate is the difference, variance the sum."""
    rng = np.random.default_rng(1)
    sizes, seeds = grid(5)
    a = fit(exact_events(10 + 0.5 * np.log(sizes) + rng.normal(0, 0.3, 15), sizes, seeds))
    b = fit(
        exact_events(10 + 0.1 * np.log(sizes) + rng.normal(0, 0.3, 15), sizes, seeds, prefix="x")
    )
    found = difference(a, b)
    assert found.estimate == pytest.approx(a.exponent.estimate - b.exponent.estimate)
    assert found.se == pytest.approx(math.hypot(a.exponent.se, b.exponent.se))
    assert "independent" in found.method


def test_what_shared_runs_have_in_common_cancels():
    """Two clocks that share their seed noise differ almost without error when paired."""
    rng = np.random.default_rng(2)
    sizes, seeds = grid(5)
    noise = rng.normal(0, 0.5, 15)
    learning = fit(exact_events(8 + 0.3 * np.log(sizes) + noise, sizes, seeds))
    failure = fit(exact_events(10 + noise + rng.normal(0, 0.01, 15), sizes, seeds, clock="failure"))
    found = difference(failure, learning)
    assert found.method == "paired jackknife-t"
    assert found.se < 0.02 < failure.exponent.se
    assert found.lower < -0.3 < found.upper


@pytest.mark.slow
def test_the_paired_and_the_independent_interval_cover_the_true_difference():
    """Nominal 95 % intervals hold the difference in 88 % of 80 draws or more, no wider than due."""
    rng = np.random.default_rng(3)
    sizes, seeds = grid(4)
    hits = {"paired": 0, "independent": 0}
    widths = {"paired": [], "independent": []}
    spread = math.sqrt(((np.log(sizes) - np.log(sizes).mean()) ** 2).sum())
    for _ in range(80):
        shared = rng.normal(0, 0.3, 12)
        a = fit(exact_events(8 + 0.3 * np.log(sizes) + shared, sizes, seeds))
        own = shared + rng.normal(0, 0.2, 12)
        b = fit(exact_events(10 + own, sizes, seeds, clock="failure"))
        c = fit(exact_events(10 + rng.normal(0, 0.5, 12), sizes, seeds, prefix="c"))
        for name, other in (("paired", b), ("independent", c)):
            found = difference(a, other)
            hits[name] += found.lower <= 0.3 <= found.upper
            widths[name].append(found.upper - found.lower)
    assert min(hits.values()) / 80 >= 0.88
    # two t quantiles (10 and about 18 degrees of freedom) times the true standard error
    assert np.mean(widths["paired"]) < 1.25 * 2 * 2.23 * 0.2 / spread
    assert np.mean(widths["independent"]) < 1.25 * 2 * 2.10 * math.hypot(0.3, 0.5) / spread


def test_a_difference_without_an_exponent_has_no_number():
    """When a fit is not identified, nothing is invented."""
    sizes, seeds = grid(3)
    a = fit(exact_events(8 + 0.3 * np.log(sizes), sizes, seeds))
    b = fit(exact_events(np.full(3, 9.0), np.full(3, 64), np.arange(3), prefix="x"))
    found = difference(a, b)
    assert (found.estimate, found.lower, found.upper, found.p) == (None, None, None, None)


def with_interval(estimate, se):
    """Return a converged fit whose exponent and standard error are set."""
    sizes, seeds = grid(4)
    rng = np.random.default_rng(0)
    base = fit(exact_events(10 + rng.normal(0, 0.1, 12), sizes, seeds, clock="failure"))
    return with_se(replace(base, exponent=replace(base.exponent, estimate=estimate)), se)


def with_se(base, se):
    """Return a fit whose exponent has a standard error that is set."""
    covariance = base.covariance.copy()
    covariance[1, 1] = se**2
    return replace(base, covariance=covariance, exponent=replace(base.exponent, se=se))


@pytest.mark.parametrize(
    ("estimate", "se", "verdict"),
    [(0.0, 0.02, "supported"), (0.3, 0.02, "rejected"), (0.05, 0.05, "inconclusive"),
     (0.0, 0.5, "inconclusive"), (-0.3, 0.02, "rejected"), (0.0, 0.0, "not_identified")],
)  # fmt: skip
def test_equivalence_verdicts(estimate, se, verdict):
    """Inside the margin supports, wholly outside rejects, anything else settles nothing."""
    found = equivalence(with_interval(estimate, se), margin=0.10)
    assert found.verdict == verdict
    assert found.level == 0.90
    if verdict != "not_identified":
        assert found.smallest_margin == pytest.approx(max(abs(found.lower), abs(found.upper)))
        assert found.factor == pytest.approx(16**0.10)
    assert (found.runs_per_cell is not None) == (verdict == "inconclusive")


def test_a_margin_must_be_positive():
    """A margin of zero is refused in one line."""
    with pytest.raises(FitError, match="margin == 0, must be > 0"):
        equivalence(with_interval(0.0, 0.1), margin=0)


def test_runs_that_would_settle_equivalence():
    """At sigma 0.6 over a factor of 64 in B, about 36 runs per cell settle a margin of 0.10."""
    sizes, seeds = grid(10, (64, 512, 4096))
    events = exact_events(10 + np.random.default_rng(0).normal(0, 0.6, 30), sizes, seeds)
    base = fit(events)
    x = np.log(sizes) - np.log(sizes).mean()
    at_truth = with_se(base, 0.6 / math.sqrt((x**2).sum()))
    assert runs_to_settle(at_truth, margin=0.10) == pytest.approx(36, abs=1)


@pytest.mark.slow
def test_the_promised_runs_do_settle_it():
    """With the runs per cell that it asks for, a zero exponent is supported in about 80 %."""
    rng = np.random.default_rng(5)
    sizes, seeds = grid(36, (64, 512, 4096))
    verdicts = [
        equivalence(fit(exact_events(10 + rng.normal(0, 0.6, 108), sizes, seeds))).verdict
        for _ in range(60)
    ]
    assert 0.65 <= np.mean([v == "supported" for v in verdicts]) <= 0.93


def test_the_safe_window_is_the_ratio_of_the_two_medians():
    """At each shared B the window is R_fail / R_target, and its exponent the paired difference."""
    rng = np.random.default_rng(4)
    sizes, seeds = grid(5)
    learning = fit(exact_events(7 + 0.3 * np.log(sizes) + rng.normal(0, 0.1, 15), sizes, seeds))
    failure = fit(exact_events(11 + rng.normal(0, 0.1, 15), sizes, seeds, clock="failure"))
    window = safe_window(learning, failure)
    expected = (
        failure.predict(SIZES)["responses"].to_numpy()
        / learning.predict(SIZES)["responses"].to_numpy()
    )
    assert window.ratio == pytest.approx(tuple(expected))
    assert all(
        lo < r < hi for lo, r, hi in zip(window.lower, window.ratio, window.upper, strict=True)
    )
    assert window.exponent.estimate == pytest.approx(
        failure.exponent.estimate - learning.exponent.estimate
    )
    truth = [math.exp(4 - 0.3 * math.log(b)) for b in SIZES]
    assert all(lo < t < hi for lo, t, hi in zip(window.lower, truth, window.upper, strict=True))


def test_there_is_no_safe_window_across_strata():
    """Two strata never make a safe window, whatever their exponents."""
    sizes, seeds = grid(3)
    rng = np.random.default_rng(6)
    learning = fit(exact_events(7 + rng.normal(0, 0.1, 9), sizes, seeds), {"base_lr": 1e-5})
    failure = fit(
        exact_events(11 + rng.normal(0, 0.1, 9), sizes, seeds, clock="failure"), {"base_lr": 1e-4}
    )
    assert safe_window(learning, failure) is None


def test_a_bound_outside_the_margin_rejects_independence():
    """Perfect separation gives no number, but a bound that excludes the margin is a verdict."""
    low = {"lower": [1e6] * 3, "upper": [np.inf] * 3, "censoring": "right"}
    high = {"lower": [2.0e5, 2.2e5, 1.8e5], "upper": [2.0e5, 2.2e5, 1.8e5], "censoring": "exact"}
    parts = [pd.DataFrame({"batch_size": b, **v}) for b, v in ((64, low), (512, high))]
    events = pd.concat(parts, ignore_index=True).assign(
        run_id=[f"r{i}" for i in range(6)], clock="failure", target=np.nan, seed=[0, 1, 2] * 2
    )
    found = equivalence(fit(events), margin=0.10)
    assert (found.verdict, found.estimate) == ("rejected", None)
    assert equivalence(fit(events), margin=0.99).verdict == "not_identified"
