"""The censored likelihood and its batch solver, against differences, scipy and other libraries."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import LogNormalAFTFitter
from scipy.optimize import minimize

from tests.fit_tables import line_data
from twoclock.fit.censored import CensoredData
from twoclock.fit.identify import IDENTIFIED, classify
from twoclock.fit.likelihood import log_likelihood
from twoclock.fit.newton import solve

LAWS = ["lognormal", "loglogistic", "weibull"]


def mixed(seed: int, n: int = 40, widths: tuple[float, ...] = (1e-9, 0.01, 0.4, 3.0)):
    """Return n runs of every censoring kind about the line 1 + 0.5 x."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = 1.0 + 0.5 * x + 0.5 * rng.normal(size=n)
    kind = rng.integers(0, 4, n)
    lower, upper = y.copy(), y.copy()
    lower[kind == 1] -= rng.choice(widths, (kind == 1).sum())
    lower[kind == 2], upper[kind == 2] = -np.inf, y[kind == 2] + 0.3
    upper[kind == 3], lower[kind == 3] = np.inf, y[kind == 3] - 0.3
    return line_data(x, lower, upper)


@pytest.mark.parametrize("error", LAWS)
@given(
    seed=st.integers(0, 10_000),
    at=st.tuples(*[st.floats(-1, 1)] * 3, st.floats(-0.5, 0.5)),
    loglinear=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_gradient_and_hessian_match_differences(error, seed, at, loglinear):
    """Analytic derivatives in (a, alpha, log sigma, delta) match central differences."""
    data = mixed(seed)
    point = np.array(at[: 4 if loglinear else 3])
    _, gradient, hessian = log_likelihood(data, point, error=error)
    eps = 1e-5
    for j, unit in enumerate(np.eye(len(point))):
        up = log_likelihood(data, point + eps * unit, error=error)
        down = log_likelihood(data, point - eps * unit, error=error)
        size = 1.0 + np.abs(gradient).max()
        assert abs(gradient[j] - (up[0] - down[0]) / (2 * eps)) < 1e-5 * size
        size = 1.0 + np.abs(hessian).max()
        np.testing.assert_allclose(
            hessian[j], (up[1] - down[1]) / (2 * eps), atol=1e-5 * size, rtol=0
        )


@pytest.mark.parametrize("error", LAWS)
@pytest.mark.parametrize("loglinear", [False, True])
def test_batch_solver_equals_one_at_a_time_optimiser(error, loglinear):
    """Every draw of the batch solver is the maximum that scipy finds for it alone."""
    data = mixed(3, n=120, widths=(0.05, 0.4, 3.0))
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(data), np.full(len(data), 1 / len(data)), size=6).astype(float)
    weights[0] = 1.0
    fit = solve(data, weights, loglinear=loglinear, error=error)
    assert fit.converged.all()
    for row, w in enumerate(weights):

        def minus(point, w=w):
            value, gradient, _ = log_likelihood(data, point, weights=w, error=error)
            return -value, -gradient

        # a log-linear sigma can have several maxima: look at the one next to the answer
        start = fit.natural(row, loglinear=loglinear) + 0.05
        best = minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(fit.natural(row, loglinear=loglinear), best.x, atol=1e-5)
        assert fit.loglik[row] == pytest.approx(-best.fun, abs=1e-8)


def test_a_weight_is_a_repeated_run():
    """A run of weight 2 counts as the same run twice."""
    data = mixed(5, n=20)
    weights = np.ones((1, 20))
    weights[0, :4] = 2.0
    twice = data.take(np.concatenate([np.arange(20), np.arange(4)]))
    one, two = solve(data, weights), solve(twice, np.ones((1, 24)))
    np.testing.assert_allclose(one.beta, two.beta, atol=1e-9)
    assert one.loglik[0] == pytest.approx(two.loglik[0])


def test_exact_runs_are_least_squares():
    """With exact runs only, the fit is ordinary least squares with the ML sigma."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=12)
    y = 2.0 - 0.3 * x + rng.normal(size=12)
    fit = solve(line_data(x, y, y), np.ones((1, 12)))
    slope, intercept = np.polyfit(x, y, 1)
    np.testing.assert_allclose(fit.beta[0], [intercept, slope])
    rest = y - intercept - slope * x
    assert np.exp(fit.log_sigma[0]) == pytest.approx(np.sqrt(rest @ rest / 12))


def test_intervals_that_shrink_become_exact():
    """Intervals of 1e-9 in log responses give the exact fit and its loglik plus the log widths."""
    rng = np.random.default_rng(2)
    x = np.repeat([0.0, 1.0, 2.0], 4)
    y = 11.0 + 0.4 * x + 0.3 * rng.normal(size=12)
    exact = solve(line_data(x, y, y), np.ones((1, 12)))
    data = line_data(x, y - 0.5e-9, y + 0.5e-9)
    narrow = solve(data, np.ones((1, 12)))
    np.testing.assert_allclose(narrow.beta, exact.beta, atol=1e-8)
    widths = np.log(data.upper - data.lower).sum()
    assert narrow.loglik[0] == pytest.approx(exact.loglik[0] + widths, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_agrees_with_lifelines(seed):
    """Interval- and right-censored log-normal fits are those of lifelines."""
    data = mixed(seed, n=80, widths=(0.2, 0.4, 1.0))
    data = data.take(data.interval if seed else data.exact | data.right)
    fit = solve(data, np.ones((1, len(data))))
    frame = pd.DataFrame({"x": data.design[:, 1], "lo": np.exp(data.lower)})
    if seed:
        frame["hi"] = np.exp(data.upper)
        other = LogNormalAFTFitter().fit_interval_censoring(frame, "lo", "hi")
    else:
        other = LogNormalAFTFitter().fit(frame.assign(event=data.exact), "lo", "event")
    assert fit.beta[0, 1] == pytest.approx(other.params_["mu_", "x"], abs=2e-4)
    assert fit.beta[0, 0] == pytest.approx(other.params_["mu_", "Intercept"], abs=2e-4)
    assert fit.log_sigma[0] == pytest.approx(other.params_["sigma_", "Intercept"], abs=2e-4)
    on_times = data.lower[data.exact].sum()  # lifelines' densities are of R, ours of log R
    assert fit.loglik[0] == pytest.approx(other.log_likelihood_ + on_times, abs=1e-3)


def test_loglinear_sigma_recovers_its_slope():
    """The slope of log sigma is recovered from many runs."""
    rng = np.random.default_rng(4)
    x = np.repeat(np.linspace(-2, 2, 5), 400)
    y = 10.0 + 0.3 * x + np.exp(-1.0 + 0.3 * x) * rng.normal(size=len(x))
    upper = np.where(y > 10.8, np.inf, y)
    fit = solve(line_data(x, np.minimum(y, 10.8), upper), np.ones((1, len(x))), loglinear=True)
    assert fit.slope[0] == pytest.approx(0.3, abs=0.03)
    assert fit.beta[0, 1] == pytest.approx(0.3, abs=0.02)


def test_converges_from_a_bad_start_far_away():
    """The concave form reaches the maximum from a start that is wrong by 20 sigma."""
    data = mixed(7)
    good = solve(data, np.ones((1, len(data))))
    bad = solve(data, np.ones((1, len(data))), start=np.array([15.0, -8.0, 1.5]))
    np.testing.assert_allclose(bad.beta, good.beta, atol=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_identified_draws_always_converge(seed):
    """Whatever the data, a draw classified as identified with bounded runs converges."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    x = rng.integers(0, 4, n).astype(float)
    y = np.round(10.0 + rng.normal(size=n), 1)
    kind = rng.integers(0, 4, n)
    lower = np.where(kind == 2, -np.inf, np.where(kind == 1, y - 0.4, y))
    upper = np.where(kind == 3, np.inf, np.where(kind == 1, y + 0.3, y))
    data = line_data(x, lower, upper)
    code = int(classify(data, np.ones((1, n))).code[0])
    if code != IDENTIFIED or not (data.exact | data.interval).any():
        return
    fit = solve(data, np.ones((1, n)))
    assert fit.converged[0]
    gradient = log_likelihood(data, fit.natural(0, loglinear=False))[1]
    assert np.abs(gradient[:2]).max() * np.exp(fit.log_sigma[0]) < 1e-4


def test_more_columns_are_fitted_too():
    """The solver takes any design: a plane with an interaction is recovered."""
    rng = np.random.default_rng(6)
    x, z = rng.normal(size=(2, 300))
    design = np.column_stack([np.ones(300), x, z, x * z])
    y = design @ [9.0, 0.3, -0.5, 0.2] + 0.2 * rng.normal(size=300)
    data = CensoredData(design, np.floor(y * 4) / 4, np.floor(y * 4) / 4 + 0.25, x)
    fit = solve(data, np.ones((1, 300)))
    np.testing.assert_allclose(fit.beta[0], [9.0, 0.3, -0.5, 0.2], atol=0.05)
