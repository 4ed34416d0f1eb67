"""Laws of responses against batch size: names, units, design and closed forms.

A law says what the median of ``log R`` is as a function of the rollout batch size B. It does not
know about censoring (`twoclock.fit.likelihood`) or about seeds (`twoclock.fit.resample`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PowerLaw:
    """The power law ``R = c * B**alpha``.

    In logs, with x the centred log batch size, ``log R = a + alpha * x``, ``x = log B - center``,
    so that ``c = exp(a - alpha * center)`` with R and B in responses.

    Examples
    --------
    >>> law = PowerLaw()
    >>> round(float(law.responses(np.array([0.0, 0.5]), np.array([64.0, 256.0]), center=0.0)[1]), 3)
    16.0
    """

    name: str = "power"
    parameter_names: tuple[str, ...] = ("a", "alpha")

    def design(self, batch_size: Floats, *, center: float) -> Floats:
        """Return the design matrix of ``log R``.

        Parameters
        ----------
        batch_size : ndarray, shape (n,)
            Rollout batch sizes in responses.
        center : float
            Mean of log B over the runs of the fit (nats).

        Returns
        -------
        ndarray, shape (n, 2)
            Columns 1 and ``log B - center``.
        """
        logs = np.log(np.asarray(batch_size, dtype=np.float64)) - center
        return np.column_stack([np.ones_like(logs), logs])

    def responses(self, parameters: Floats, batch_size: Floats, *, center: float) -> Floats:
        """Return the median responses ``exp(a + alpha * (log B - center))``, shape (..., n).

        `parameters` has shape (..., 2) with (a, alpha) last.
        """
        out: Floats = np.exp(parameters[..., :2] @ self.design(batch_size, center=center).T)
        return out

    def coefficient(self, parameters: Floats, *, center: float) -> float:
        """Return c of ``R = c * B**alpha``, in responses.

        Examples
        --------
        >>> law = PowerLaw()
        >>> round(law.coefficient(np.array([math.log(1000.0), 0.5]), center=math.log(100.0)), 6)
        100.0
        """
        return math.exp(float(parameters[0]) - float(parameters[1]) * center)


LAWS: dict[str, Any] = {"power": PowerLaw()}
"""Every law by name; adding a law is one class and one line here."""
