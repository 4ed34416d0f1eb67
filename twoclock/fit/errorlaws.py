"""Laws of the standardised error e in ``log R = mean + sigma * e``: density, tails, intervals.

Every method returns values and derivatives with respect to its standardised arguments, elementwise.
All three laws have log-concave densities, on which the solver's convergence rests
(`twoclock.fit.newton`). Nothing here knows about runs, designs or weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr

Floats = NDArray[np.float64]

_LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))
_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_NARROW = 0.02  # widths below this many sigma use a series: differences would cancel
_FAR = -30.0  # beyond this many sigma probabilities are formed in logs


class Terms(NamedTuple):
    """A log contribution and its first two derivatives, each of the shape of the argument."""

    value: Floats
    d1: Floats
    d2: Floats


class IntervalTerms(NamedTuple):
    """A log interval probability with derivatives in its middle m and width h (in sigmas)."""

    value: Floats
    m: Floats
    h: Floats
    mm: Floats
    mh: Floats
    hh: Floats


class ErrorLaw:
    """A standardised error law; subclasses give `density`, `survival` and `distribution`.

    Examples
    --------
    >>> float(ERROR_LAWS["lognormal"].survival(np.array([0.0])).value[0])  # log 1/2
    -0.6931471805599453
    """

    name = ""
    narrow = 0.005

    def density(self, z: Floats) -> Terms:
        """Return ``log f(z)`` with derivatives."""
        raise NotImplementedError

    def survival(self, z: Floats) -> Terms:
        """Return ``log P(e > z)`` with derivatives."""
        raise NotImplementedError

    def distribution(self, z: Floats) -> Terms:
        """Return ``log P(e <= z)`` with derivatives."""
        raise NotImplementedError

    def interval(self, m: Floats, h: Floats) -> IntervalTerms:
        """Return ``log P(m - h/2 < e <= m + h/2)`` with derivatives in m and h.

        Widths below `narrow` are taken as ``h * f(m)``, whose relative error is ``h**2/24`` times a
        number of order one.
        """
        a, b = m - 0.5 * h, m + 0.5 * h
        below, above = self.distribution(b).value, self.survival(a).value
        # the smaller tail, so that the difference keeps its digits
        gap_below = self.distribution(a).value - below
        gap_above = self.survival(b).value - above
        with np.errstate(divide="ignore"):
            value = np.where(
                below < above,
                below + np.log(-np.expm1(np.minimum(gap_below, 0.0))),
                above + np.log(-np.expm1(np.minimum(gap_above, 0.0))),
            )
        thin = (h < self.narrow) | ~np.isfinite(value)
        safe = np.where(thin, 0.0, value)
        fa, fb = self.density(a), self.density(b)
        left, right = np.exp(fa.value - safe), np.exp(fb.value - safe)
        terms = _interval_terms(safe, left, right, left * fa.d1, right * fb.d1)
        return _patch(terms, thin, self._thin(m[thin], h[thin])) if thin.any() else terms

    def _thin(self, m: Floats, h: Floats) -> IntervalTerms:
        f, zero = self.density(m), np.zeros_like(m)
        return IntervalTerms(f.value + np.log(h), f.d1, 1.0 / h, f.d2, zero, -1.0 / h**2)


def _interval_terms(
    value: Floats, left: Floats, right: Floats, left1: Floats, right1: Floats
) -> IntervalTerms:
    """Assemble the derivatives from densities (and their slopes) at the ends, divided by P."""
    m, h = right - left, 0.5 * (right + left)
    change = right1 - left1
    return IntervalTerms(
        value, m, h, change - m * m, 0.5 * (right1 + left1) - m * h, 0.25 * change - h * h
    )


def _patch(terms: IntervalTerms, where: NDArray[np.bool_], new: IntervalTerms) -> IntervalTerms:
    for old, values in zip(terms, new, strict=True):
        old[where] = values
    return terms


class Normal(ErrorLaw):
    """The standard normal law: R is log-normal.

    Narrow intervals (h < 0.02) use the midpoint series
    ``P = h f(m) (1 + h^2 (m^2 - 1)/24 + h^4 (m^4 - 6 m^2 + 3)/1920)``; intervals beyond 30 sigma
    are formed from `scipy.special.log_ndtr`.

    Examples
    --------
    >>> terms = Normal().interval(np.array([0.0]), np.array([1e-9]))
    >>> bool(np.isclose(terms.value[0], np.log(1e-9) - 0.9189385332046727))
    True
    """

    name = "lognormal"
    narrow = _NARROW

    def density(self, z: Floats) -> Terms:
        """Return ``-z^2/2 - log sqrt(2 pi)`` with derivatives."""
        return Terms(-0.5 * z * z - _LOG_ROOT_2PI, -z, np.full_like(z, -1.0))

    def survival(self, z: Floats) -> Terms:
        """Return ``log Phi(-z)`` with derivatives (the hazard with a minus sign first)."""
        value = log_ndtr(-z)
        hazard = np.exp(-0.5 * z * z - _LOG_ROOT_2PI - value)
        return Terms(value, -hazard, hazard * (z - hazard))

    def distribution(self, z: Floats) -> Terms:
        """Return ``log Phi(z)`` with derivatives."""
        mirror = self.survival(-z)
        return Terms(mirror.value, -mirror.d1, mirror.d2)

    def interval(self, m: Floats, h: Floats) -> IntervalTerms:
        """Return the log interval probability and derivatives; two `ndtr` and two `exp` a call."""
        side = np.where(m > 0.0, -1.0, 1.0)
        low = -np.abs(m)  # mirrored into the lower tail, where differences keep their digits
        a, b = low - 0.5 * h, low + 0.5 * h
        special = (h < _NARROW) | (b < _FAR)
        any_special = bool(special.any())
        p = ndtr(b) - ndtr(a)
        if any_special:
            p[special] = 1.0
        scale = 1.0 / (_ROOT_2PI * p)
        left, right = np.exp(-0.5 * a * a) * scale, np.exp(-0.5 * b * b) * scale
        terms = _interval_terms(np.log(p), left, right, -a * left, -b * right)
        if any_special:
            _patch(terms, special, self._special(low[special], h[special]))
        terms.m[...] *= side
        terms.mh[...] *= side
        return terms

    def _special(self, m: Floats, h: Floats) -> IntervalTerms:
        """Return the terms of narrow intervals by series and of far ones by logs."""
        out = IntervalTerms(*(np.empty_like(m) for _ in range(6)))
        thin = h < _NARROW
        _patch(out, thin, _series(m[thin], h[thin]))
        far = ~thin
        a, b = m[far] - 0.5 * h[far], m[far] + 0.5 * h[far]
        top = log_ndtr(b)
        value = top + np.log1p(-np.exp(log_ndtr(a) - top))
        left = np.exp(-0.5 * a * a - _LOG_ROOT_2PI - value)
        right = np.exp(-0.5 * b * b - _LOG_ROOT_2PI - value)
        return _patch(out, far, _interval_terms(value, left, right, -a * left, -b * right))


def _series(m: Floats, h: Floats) -> IntervalTerms:
    """Return the midpoint series of a narrow normal interval, with derivatives.

    With ``q = 1 + A h^2 + C h^4``, ``A = (m^2 - 1)/24``, ``C = (m^4 - 6 m^2 + 3)/1920``:
    ``log P = log h + log f(m) + log q``.
    """
    h2 = h * h
    big, small = (m * m - 1.0) / 24.0, (m**4 - 6.0 * m * m + 3.0) / 1920.0
    big1, small1 = m / 12.0, (4.0 * m**3 - 12.0 * m) / 1920.0
    big2, small2 = 1.0 / 12.0, (12.0 * m * m - 12.0) / 1920.0
    q = 1.0 + big * h2 + small * h2 * h2
    qm, qh = (big1 * h2 + small1 * h2 * h2) / q, (2.0 * big * h + 4.0 * small * h2 * h) / q
    qmm = (big2 * h2 + small2 * h2 * h2) / q - qm * qm
    qmh = (2.0 * big1 * h + 4.0 * small1 * h2 * h) / q - qm * qh
    qhh = (2.0 * big + 12.0 * small * h2) / q - qh * qh
    value = np.log(h) - 0.5 * m * m - _LOG_ROOT_2PI + np.log(q)
    return IntervalTerms(value, -m + qm, 1.0 / h + qh, -1.0 + qmm, qmh, -1.0 / h2 + qhh)


class Logistic(ErrorLaw):
    """The standard logistic law: R is log-logistic."""

    name = "loglogistic"

    def density(self, z: Floats) -> Terms:
        """Return ``z - 2 log(1 + e^z)`` with derivatives."""
        share = expit(z)
        return Terms(
            z - 2.0 * np.logaddexp(0.0, z), 1.0 - 2.0 * share, -2.0 * share * (1.0 - share)
        )

    def survival(self, z: Floats) -> Terms:
        """Return ``-log(1 + e^z)`` with derivatives."""
        share = expit(z)
        return Terms(-np.logaddexp(0.0, z), -share, -share * (1.0 - share))

    def distribution(self, z: Floats) -> Terms:
        """Return ``-log(1 + e^-z)`` with derivatives."""
        mirror = self.survival(-z)
        return Terms(mirror.value, -mirror.d1, mirror.d2)


class ExtremeValue(ErrorLaw):
    """The standard law of smallest extremes: R is Weibull with shape 1/sigma."""

    name = "weibull"

    def density(self, z: Floats) -> Terms:
        """Return ``z - e^z`` with derivatives."""
        grow = np.exp(np.minimum(z, 700.0))
        return Terms(z - grow, 1.0 - grow, -grow)

    def survival(self, z: Floats) -> Terms:
        """Return ``-e^z`` with derivatives."""
        grow = np.exp(np.minimum(z, 700.0))
        return Terms(-grow, -grow, -grow)

    def distribution(self, z: Floats) -> Terms:
        """Return ``log(1 - exp(-e^z))`` with derivatives."""
        grow = np.exp(np.minimum(z, 700.0))
        with np.errstate(divide="ignore"):
            value = np.where(grow < 1e-300, z, np.log(-np.expm1(-grow)))
        ratio = np.exp(z - grow - value)
        return Terms(value, ratio, ratio * (1.0 - grow - ratio))


ERROR_LAWS: dict[str, ErrorLaw] = {law.name: law for law in (Normal(), Logistic(), ExtremeValue())}
"""Every error law by name; adding one is one class and one entry."""
