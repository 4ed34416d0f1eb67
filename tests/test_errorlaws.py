"""The error laws: values against scipy, derivatives against differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from twoclock.fit.errorlaws import ERROR_LAWS, Normal

SCIPY = {"lognormal": stats.norm, "loglogistic": stats.logistic, "weibull": stats.gumbel_l}


@pytest.mark.parametrize("name", list(ERROR_LAWS))
def test_values_agree_with_scipy(name):
    """Density, tails and intervals are those of scipy.stats."""
    law, known, z = ERROR_LAWS[name], SCIPY[name], np.linspace(-6.0, 3.0, 19)
    np.testing.assert_allclose(law.density(z).value, known.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(law.survival(z).value, known.logsf(z), rtol=1e-9)
    np.testing.assert_allclose(law.distribution(z).value, known.logcdf(z), rtol=1e-9, atol=1e-15)
    h = np.full_like(z, 0.7)
    expected = np.log(known.cdf(z + 0.35) - known.cdf(z - 0.35))
    np.testing.assert_allclose(law.interval(z, h).value, expected, rtol=1e-8)


@pytest.mark.parametrize("name", list(ERROR_LAWS))
@given(z=st.floats(-6, 3), h=st.sampled_from([1e-9, 1e-4, 0.019, 0.021, 0.3, 2.0, 30.0]))
@settings(max_examples=60, deadline=None)
def test_derivatives_agree_with_differences(name, z, h):
    """First and second derivatives match central differences of the ones before them."""
    law, eps = ERROR_LAWS[name], 1e-5
    for call in (law.density, law.survival, law.distribution):
        up, down, here = (call(np.array([z + d])) for d in (eps, -eps, 0.0))
        np.testing.assert_allclose(here.d1, (up.value - down.value) / (2 * eps), atol=2e-6)
        np.testing.assert_allclose(here.d2, (up.d1 - down.d1) / (2 * eps), atol=2e-6)
    m, width, step = np.array([z]), np.array([h]), h * 1e-4
    here = law.interval(m, width)
    # the two narrow branches differ by their (documented) truncation, so stay on one side
    wide, slim = law.interval(m, width + step), law.interval(m, width - step)
    right, left = law.interval(m + eps, width), law.interval(m - eps, width)
    np.testing.assert_allclose(here.m, (right.value - left.value) / (2 * eps), atol=2e-5)
    np.testing.assert_allclose(here.mm, (right.m - left.m) / (2 * eps), atol=2e-5)
    np.testing.assert_allclose(here.h, (wide.value - slim.value) / (2 * step), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(here.hh, (wide.h - slim.h) / (2 * step), rtol=2e-5, atol=1e-4)


def test_narrow_normal_interval_is_the_density():
    """An interval of 1e-9 sigma has the density times its width, to rounding."""
    m = np.linspace(-8, 8, 9)
    terms = Normal().interval(m, np.full(9, 1e-9))
    np.testing.assert_allclose(terms.value, stats.norm.logpdf(m) + np.log(1e-9), rtol=1e-13)
    np.testing.assert_allclose(terms.m, -m, atol=1e-12)
    np.testing.assert_allclose(terms.mm, -1.0, atol=1e-12)


def test_series_and_direct_meet():
    """Either side of the switch at 0.02 sigma gives the same value and derivatives."""
    m = np.linspace(-6, 6, 13)
    below = Normal().interval(m, np.full(13, 0.02 - 1e-13))
    above = Normal().interval(m, np.full(13, 0.02))
    for one, two in zip(below, above, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-8)


def test_far_tail_stays_finite():
    """An interval 60 sigma out has the log of its tail, not minus infinity."""
    terms = Normal().interval(np.array([60.0, -60.0]), np.array([0.5, 0.5]))
    expected = stats.norm.logsf(59.75)  # the far end adds exp(-30)
    np.testing.assert_allclose(terms.value, expected, rtol=1e-9)
    np.testing.assert_allclose(terms.m, [-59.77, 59.77], atol=0.01)
