"""Whether a maximum exists, and which set of exponents is left when it does not."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fit_tables import line_data
from twoclock.fit.censored import CensoredData
from twoclock.fit.identify import (
    DEGENERATE,
    DOWN,
    IDENTIFIED,
    OPEN,
    THREADED,
    UP,
    classify,
    exponent_set,
    has_maximum,
)
from twoclock.fit.likelihood import log_likelihood
from twoclock.fit.newton import solve

INF = np.inf


def code(x, lower, upper):
    """Return the class of a small data set."""
    data = line_data(np.array(x, float), np.array(lower, float), np.array(upper, float))
    return int(classify(data, np.ones((1, len(x)))).code[0])


@pytest.mark.parametrize(
    ("x", "lower", "upper", "expected"),
    [
        ([0, 0, 1, 1], [1, 2, 2, 3], [1, 2, 2, 3], IDENTIFIED),
        ([0, 1, 1], [9, 5, 6], [INF, 5, 6], DOWN),
        ([0, 0, 1], [5, 6, 9], [5, 6, INF], UP),
        ([0, 0, 1], [-INF, -INF, 9], [5, 6, INF], UP),
        ([0, 0], [5, 6], [5, 6], OPEN),
        ([0, 1], [5, 6], [INF, INF], OPEN),
        ([0, 1], [-INF, -INF], [5, 6], OPEN),
        ([0, 1, 2], [1, 2, 3], [2, 3, 4], THREADED),
        ([0, 1, 2], [1, 2, 3], [1, 2, 3], DEGENERATE),
        ([0, 1, 2, 2], [1, 2, 3, -INF], [1, 2, 3, 5], DEGENERATE),
        ([0, 0, 1, 1], [-INF, 4, -INF, 4], [5, INF, 5, INF], THREADED),
        ([0, 0, 1, 1], [-INF, 6, -INF, 6], [5, INF, 5, INF], IDENTIFIED),
        ([0, 0, 1], [1, 2, 3], [2, 3, 4], THREADED),
    ],
)
def test_small_cases(x, lower, upper, expected):
    """Each kind of data without a maximum is told apart."""
    assert code(x, lower, upper) == expected


def random_data(seed: int) -> CensoredData:
    """Return up to eight runs of any kind at up to four batch sizes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    x = rng.integers(0, 4, n).astype(float)
    y = np.round(rng.normal(size=n), 1)
    kind = rng.integers(0, 4, n)
    lower = np.where(kind == 2, -INF, np.where(kind == 1, y - 0.3, y))
    upper = np.where(kind == 3, INF, np.where(kind == 1, y + 0.5, y))
    return line_data(x, lower, upper)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=200, deadline=None)
def test_closed_form_agrees_with_the_linear_programmes(seed):
    """The closed form for lines says what the linear programmes for any design say."""
    data = random_data(seed)
    found = classify(data, np.ones((1, len(data))))
    assert (found.code[0] == IDENTIFIED) == has_maximum(data)
    if found.code[0] in (THREADED, DEGENERATE):
        ends = exponent_set(data)
        assert ends == pytest.approx((found.low[0], found.high[0]), abs=1e-6)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=100, deadline=None)
def test_a_weight_of_zero_is_an_absent_run(seed):
    """Classifying by weights is classifying the runs that remain."""
    data = random_data(seed)
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, (5, len(data))).astype(float)
    weights[:, 0] = 1.0
    together = classify(data, weights)
    for row, w in enumerate(weights):
        alone = classify(data.take(w > 0), np.ones((1, int((w > 0).sum()))))
        assert together.code[row] == alone.code[0]
        np.testing.assert_allclose(together.low[row], alone.low[0], atol=1e-9)
        np.testing.assert_allclose(together.high[row], alone.high[0], atol=1e-9)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=100, deadline=None)
def test_separated_likelihood_only_rises(seed):
    """Where the class is DOWN or UP, going on in that direction never lowers the likelihood."""
    data = random_data(seed)
    found = classify(data, np.ones((1, len(data))))
    if found.code[0] not in (DOWN, UP) or np.isfinite(found.low[0] + found.high[0]):
        return
    sign = -1.0 if found.code[0] == DOWN else 1.0
    bounded = data.exact | data.interval
    if not bounded.any() or not data.design[bounded, 1].any():
        return
    pivot = data.design[bounded, 1][0]
    values = []
    for slope in (0.0, 2.0, 4.0, 8.0):
        level = 0.0 - sign * slope * pivot
        values.append(log_likelihood(data, np.array([level, sign * slope, 0.0]))[0])
    assert all(b >= a - 1e-9 for a, b in pairwise(values))


def test_threaded_likelihood_reaches_its_supremum_only_at_sigma_zero():
    """Shrinking sigma on a threading line keeps raising the likelihood towards 1."""
    data = line_data(np.arange(3.0), np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    values = [log_likelihood(data, np.array([1.5, 1.0, s]))[0] for s in (0.0, -1.0, -2.0, -3.0)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(0.0, abs=1e-9)


def test_meeting_intervals_thread_too():
    """Runs that meet end to end have no maximum: the common end is approached with sigma to 0."""
    x = np.array([0.0, 0.0, 1.0, 1.0])
    data = line_data(x, np.array([1.0, 2.0, 1.0, 2.0]), np.array([2.0, 3.0, 2.0, 3.0]))
    found = classify(data, np.ones((1, 4)))
    assert found.code[0] == THREADED
    assert (found.low[0], found.high[0]) == pytest.approx((0.0, 0.0))
    assert not has_maximum(data)


def test_other_designs_are_classified_by_linear_programme():
    """A plane needs events off one line in its plane; draws that lack them are OPEN."""
    rng = np.random.default_rng(0)
    plane = rng.integers(0, 2, (8, 2)).astype(float)
    plane[:4] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    y = rng.normal(size=8)
    data = CensoredData(np.column_stack([np.ones(8), plane]), y, y, plane[:, 0])
    weights = np.ones((3, 8))
    weights[1] = plane[:, 0] == 0
    weights[2, -1] = 3.0
    assert classify(data, weights).code.tolist() == [IDENTIFIED, OPEN, IDENTIFIED]


def test_rank_deficient_design_has_no_maximum():
    """A column that the runs do not vary in cannot be estimated."""
    data = CensoredData(np.ones((4, 2)), np.arange(4.0), np.arange(4.0), np.zeros(4))
    assert not has_maximum(data)
    assert not solve(data, np.ones((1, 4))).converged[0]
