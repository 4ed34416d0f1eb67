"""Published estimates of censored fits are recovered from the tables beside the checkout."""

import numpy as np
import pandas as pd
import pytest

from tests.fit_tables import TABLES, gsm8k, needs_tables
from twoclock.fit import FitSettings, fit_clock
from twoclock.fit.censored import CensoredData
from twoclock.fit.estimate import Problem, estimate, model_covariance
from twoclock.fit.likelihood import log_likelihood
from twoclock.fit.newton import solve
from twoclock.laws import LAWS

pytestmark = needs_tables


def published(test: str) -> pd.DataFrame:
    """Return the published rows of one example, by parameter."""
    table = pd.read_csv(TABLES / "published_estimates.csv")
    return table[table["test"] == test].set_index("parameter")


def standard_errors(data, fit, weights, error):
    """Return standard errors from the observed information."""
    at = fit.natural(0, loglinear=False)
    _, _, hessian = log_likelihood(data, at, weights=weights, error=error)
    return np.sqrt(np.diag(np.linalg.inv(-hessian)))


def test_weibull_power_law_of_an_accelerated_life_test():
    """alt_load2: a right-censored Weibull power law of life in stress (exponent -1.4173)."""
    raw = pd.read_csv(TABLES / "reliability_ALT_load2.csv")
    y = np.log(raw["time"].to_numpy(float))
    x = np.log(raw["stress"].to_numpy(float))
    upper = np.where(raw["event"] == 1, y, np.inf)
    data = CensoredData(np.column_stack([np.ones_like(x), x]), y, upper, x - x.mean())
    weights = np.ones((1, len(y)))
    fit = solve(data, weights, error="weibull")
    se = standard_errors(data, fit, weights, "weibull")
    known = published("alt_load2")
    assert fit.beta[0, 1] == pytest.approx(known.loc["exponent n", "recomputed_here"], abs=1e-5)
    assert se[1] == pytest.approx(known.loc["exponent n", "recomputed_se"], abs=1e-4)
    assert np.exp(-fit.log_sigma[0]) == pytest.approx(
        known.loc["beta (=1/scale)", "recomputed_here"], abs=1e-4
    )
    loglik = fit.loglik[0] - y[data.exact].sum()  # published densities are of time, not of its log
    assert loglik == pytest.approx(known.loc["log-likelihood", "recomputed_here"], abs=1e-4)


def test_lognormal_motorettes():
    """imotor: SAS LIFEREG's right-censored log-normal example, with standard errors."""
    raw = pd.read_csv(TABLES / "r_survival_imotor.csv")
    raw = raw[raw["temp"] > 150]
    y = np.log(raw["time"].to_numpy(float))
    x = 1000.0 / (273.2 + raw["temp"].to_numpy(float))
    upper = np.where(raw["status"] == 1, y, np.inf)
    data = CensoredData(np.column_stack([np.ones_like(x), x]), y, upper, x - x.mean())
    weights = np.ones((1, len(y)))
    fit = solve(data, weights)
    se = standard_errors(data, fit, weights, "lognormal")
    found = {
        "Intercept": (fit.beta[0, 0], se[0]),
        "slope": (fit.beta[0, 1], se[1]),
        "Log(scale)": (fit.log_sigma[0], se[2]),
    }
    known = published("imotor")
    for name, (value, error) in found.items():
        assert value == pytest.approx(known.loc[name, "recomputed_here"], abs=1e-4)
        assert error == pytest.approx(known.loc[name, "recomputed_se"], abs=1e-4)
    loglik = fit.loglik[0] - y[data.exact].sum()
    assert loglik == pytest.approx(known.loc["log-likelihood", "recomputed_here"], abs=1e-4)


def location_fit(lower, upper, weights, error):
    """Fit a location and a scale to weighted intervals of time."""
    with np.errstate(divide="ignore"):
        ends = np.log(np.asarray(lower, float)), np.log(np.asarray(upper, float))
    data = CensoredData(np.ones((len(ends[0]), 1)), *ends, np.zeros(len(ends[0])))
    w = np.asarray(weights, float)[None, :]
    fit = solve(data, w, error=error)
    return fit, standard_errors(data, fit, w, error)


def check_location(fit, se, known):
    """Assert that location, scale, their errors and the likelihood are the published ones."""
    assert fit.beta[0, 0] == pytest.approx(known.loc["Intercept", "recomputed_here"], abs=1e-4)
    assert se[0] == pytest.approx(known.loc["Intercept", "recomputed_se"], abs=1e-4)
    assert fit.log_sigma[0] == pytest.approx(known.loc["Log(scale)", "recomputed_here"], abs=1e-4)
    assert se[1] == pytest.approx(known.loc["Log(scale)", "recomputed_se"], abs=1e-4)
    assert fit.loglik[0] == pytest.approx(known.loc["log-likelihood", "recomputed_here"], abs=1e-4)


def test_weibull_cracks_seen_at_inspections():
    """Cracks: 167 parts, interval-censored Weibull with weights; the rest is right-censored."""
    raw = pd.read_csv(TABLES / "r_survival_cracks.csv")
    days, fail = raw["days"].to_numpy(float), raw["fail"].to_numpy(float)
    lower = np.concatenate([[0.0], days])
    upper = np.concatenate([days, [np.inf]])
    fit, se = location_fit(lower, upper, [*fail, 167 - fail.sum()], "weibull")
    check_location(fit, se, published("cracks"))


def test_lognormal_turbine_wheels():
    """Turbine: only left- and right-censored runs, weighted, still give a fit."""
    raw = pd.read_csv(TABLES / "r_survival_turbine_intervals.csv")
    raw = raw[raw["n"] > 0]
    fit, se = location_fit(raw["lower"], raw["upper"], raw["n"], "lognormal")
    check_location(fit, se, published("turbine"))


@pytest.mark.parametrize(
    ("threshold", "interval", "largest", "expected"),
    [
        (0.65, False, True, 0.370),
        (0.65, False, False, 0.266),
        (0.60, False, True, 0.401),
        (0.60, False, False, 0.336),
        (0.65, True, True, 0.370),
        (0.60, True, True, 0.371),
    ],
)
def test_gsm8k_exponents(threshold, interval, largest, expected):
    """A public sweep: exponents with right-censored runs, with and without B = 65,536."""
    problem = Problem.of(gsm8k(threshold, interval=interval, largest=largest), LAWS["power"])
    found = estimate(problem, problem.ones)
    assert found.fit.beta[0, 1] == pytest.approx(expected, abs=6e-4)


def test_gsm8k_standard_error_and_method():
    """The Hessian standard error is 0.071; with one run per size but one, seeds are pooled."""
    events = gsm8k(0.65)
    problem = Problem.of(events, LAWS["power"])
    covariance = model_covariance(problem, estimate(problem, problem.ones))
    assert np.sqrt(covariance[1, 1]) == pytest.approx(0.071, abs=5e-4)
    fit = fit_clock(events, settings=FitSettings(draws=200, floor="warn"))
    assert fit.exponent.method == "jackknife-t, pooled over cells"
    assert fit.exponent.model_se == pytest.approx(0.071, abs=5e-4)
    assert (fit.count("exact"), fit.count("right")) == (5, 3)
    driver = next(note for note in fit.notes if note.code == "driven_by_run")
    assert driver.runs == ("cbs_p1_np8192_nr8_lr1e-6",)


def test_gsm8k_table_of_recomputed_slopes():
    """Least squares over the runs that reached each threshold gives the recomputed slopes."""
    known = pd.read_csv(TABLES / "grpo_gsm8k_published_critical_batch_fits.csv")
    column = "loglog_ols_exponent_of_responses_recomputed_here"
    for threshold, slope in zip(known["gsm8k_threshold"], known[column], strict=True):
        events = gsm8k(threshold)
        problem = Problem.of(events[events["censoring"] == "exact"], LAWS["power"])
        found = estimate(problem, problem.ones)
        assert found.fit.beta[0, 1] == pytest.approx(slope, abs=1e-6)


def test_mlperf_is_not_identified():
    """Every crossing at the first validation: no exponent and no bound, where OLS says 0.319."""
    raw = pd.read_csv(TABLES / "mlperf_grpo_397b_crossings.csv")
    names = [f"{b}-{s}" for b, s in zip(raw["global_batch_size"], raw["seed_index"], strict=True)]
    events = pd.DataFrame(
        {
            "run_id": names,
            "clock": "learning",
            "target": 0.69,
            "batch_size": raw["global_batch_size"],
            "seed": raw["seed_index"],
            "lower": 0.0,
            "upper": raw["first_eval_samples"].astype(float),
            "censoring": "left",
        }
    )
    fit = fit_clock(events)
    assert fit.status == "not_identified"
    assert fit.exponent is None
    assert fit.bound is None
    assert fit.parameters is None
    assert "all_left_censored" in [note.code for note in fit.notes]
