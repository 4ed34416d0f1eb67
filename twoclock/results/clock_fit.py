"""The result of one fit: one clock of one stratum and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from twoclock.laws import PowerLaw
from twoclock.notes import Note
from twoclock.results.numbers import Floats, number, plain
from twoclock.results.parts import Bound, Cell, Curvature, Exponent, Influence, LackOfFit


@dataclass(frozen=True, eq=False)
class ClockFit:
    """One clock of one stratum (and one target): the fit and all that qualifies it.

    Parameters
    ----------
    clock : {"learning", "failure"}
        Which clock.
    stratum : dict
        The stratum columns that the runs share (plain scalars; missing left out).
    targets : tuple of float
        One target for the learning clock, none for the failure clock.
    law : PowerLaw
        The law.
    status : {"converged", "bound", "not_identified", "failed"}
        ``converged``: the data bound the exponent on both sides.
    exponent : Exponent or None
        Present exactly when `status` is ``converged``.
    bound : Bound or None
        Present exactly when `status` is ``bound``.
    parameters : ndarray, shape (p,) or None
        (a, alpha) of the law, centred at `center`.
    sigma : float or None
        Standard deviation of log R between runs (at the mean log B when it varies with B).
    coefficient : float or None
        c of ``R = c * B**alpha``, responses.
    loglik, aicc : float or None
        Log-likelihood (responses scale: densities of log R) and small-sample AIC.
    cells : tuple of Cell
        By batch size, ascending.
    lack_of_fit : LackOfFit or None
        None when there are no replicates or no spare batch size.
    influence : tuple of Influence
        Leave-one-batch-size-out, then leave-one-run-out.
    sensitivity : dict of str to (float or None)
        The exponent under other choices (``crossing_first``, ``all_cells``, ...).
    notes : tuple of Note
        Warnings about this fit.
    events : DataFrame
        The rows of this stratum, used or not (columns ``used``: bool, ``why_not``: str).
    center : float
        Mean log B of the fitted runs.
    covariance : ndarray, shape (p, p) or None
        Covariance of `parameters` behind the headline interval.
    df : float or None
        Degrees of freedom that go with it.
    draws : ndarray, shape (n_draws, p) or None
        Seed-bootstrap parameters, one row a draw; NaN where a draw could not be fitted.
    jackknife : DataFrame or None
        One row per deleted run: run_id, batch_size and one column a parameter (a, alpha).
    curvature : Curvature or None
        Test for a bend in log B; None with fewer than four batch sizes.
    """

    clock: str
    stratum: Mapping[str, Any]
    targets: tuple[float, ...]
    law: PowerLaw
    status: str
    exponent: Exponent | None
    bound: Bound | None
    parameters: Floats | None
    sigma: float | None
    coefficient: float | None
    loglik: float | None
    aicc: float | None
    cells: tuple[Cell, ...]
    lack_of_fit: LackOfFit | None
    influence: tuple[Influence, ...]
    sensitivity: Mapping[str, float | None]
    notes: tuple[Note, ...]
    events: pd.DataFrame = field(repr=False)
    center: float = 0.0
    covariance: Floats | None = field(default=None, repr=False)
    df: float | None = None
    draws: Floats | None = field(default=None, repr=False)
    jackknife: pd.DataFrame | None = field(default=None, repr=False)
    curvature: Curvature | None = None

    @property
    def used(self) -> pd.DataFrame:
        """The events that entered the headline fit."""
        return self.events[self.events["used"].to_numpy(dtype=bool)]

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Batch sizes of the headline fit, ascending."""
        return tuple(cell.batch_size for cell in self.cells if cell.in_headline)

    @property
    def seed_se(self) -> float | None:
        """Standard error of the exponent by `covariance`: what comparisons rest on."""
        if self.covariance is None:
            return None
        column = self.law.parameter_names.index("alpha")
        return float(np.sqrt(self.covariance[column, column]))

    def count(self, censoring: str) -> int:
        """Return how many runs of the headline are known as `censoring` (exact, interval, ...)."""
        return int((self.used["censoring"] == censoring).sum())

    def predict(self, batch_size: Sequence[float] | Floats, *, level: float = 0.95) -> pd.DataFrame:
        """Predict the median responses at each batch size, with a band.

        The band is ``exp(mu +- t * sqrt(x' V x))`` with V the covariance behind the headline
        interval and t on its degrees of freedom: pointwise, for the median over seeds, not for a
        new seed.

        Parameters
        ----------
        batch_size : sequence of float, shape (n,)
            Rollout batch sizes, responses.
        level : float
            Confidence level.

        Returns
        -------
        DataFrame
            batch_size, responses, lower, upper, extrapolated (outside the fitted sizes). All
            numbers are missing when the fit did not converge.
        """
        sizes = np.asarray(batch_size, dtype=np.float64)
        out = pd.DataFrame({"batch_size": sizes})
        fitted = self.batch_sizes
        inside = (sizes >= min(fitted, default=np.inf)) & (sizes <= max(fitted, default=-np.inf))
        if self.parameters is None or self.status != "converged":
            return out.assign(responses=np.nan, lower=np.nan, upper=np.nan, extrapolated=~inside)
        design = self.law.design(sizes, center=self.center)
        mean = design @ self.parameters[: design.shape[1]]
        if self.covariance is None:
            half = np.full_like(mean, np.nan)
        else:
            variance = np.einsum("np,pq,nq->n", design, self.covariance, design)
            df = np.inf if self.df is None else self.df
            half = stats.t.ppf(0.5 + level / 2, df) * np.sqrt(np.maximum(variance, 0.0))
        return out.assign(
            responses=np.exp(mean),
            lower=np.exp(mean - half),
            upper=np.exp(mean + half),
            extrapolated=~inside,
        )

    def summary(self) -> pd.DataFrame:
        """Return a one-row table: stratum, counts, exponent, interval, status."""
        return pd.DataFrame([self.row()])

    def row(self) -> dict[str, Any]:
        """Return the row of `summary` as a dict (None where absent)."""
        exponent, bound = self.exponent, self.bound
        return {
            "clock": self.clock,
            "target": self.targets[0] if self.targets else None,
            **self.stratum,
            "status": self.status,
            "exponent": exponent.estimate if exponent else None,
            "se": exponent.se if exponent else None,
            "lower": exponent.lower if exponent else (bound.lower if bound else None),
            "upper": exponent.upper if exponent else (bound.upper if bound else None),
            "bound": bound.value if bound else None,
            "method": exponent.method if exponent else None,
            "coefficient": number(self.coefficient),
            "sigma": number(self.sigma),
            "runs": len(self.used),
            "events": len(self.used) - self.count("right"),
            "right_censored": self.count("right"),
            "batch_sizes": len(self.batch_sizes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object FIT of DESIGN section 8."""
        return {
            "clock": self.clock,
            "stratum": {key: plain(value) for key, value in self.stratum.items()},
            "targets": list(self.targets),
            "law": self.law.name,
            "status": self.status,
            "exponent": self.exponent.to_dict() if self.exponent else None,
            "bound": self.bound.to_dict() if self.bound else None,
            "coefficient": number(self.coefficient),
            "sigma": number(self.sigma),
            "loglik": number(self.loglik),
            "aicc": number(self.aicc),
            "n_runs": len(self.used),
            "n_seeds": int(self.used["seed"].nunique()),
            "n_batch_sizes": len(self.batch_sizes),
            "n_exact": self.count("exact"),
            "n_interval": self.count("interval"),
            "n_left": self.count("left"),
            "n_right": self.count("right"),
            "batch_sizes": list(self.batch_sizes),
            "cells": [cell.to_dict() for cell in self.cells],
            "lack_of_fit": self.lack_of_fit.to_dict() if self.lack_of_fit else None,
            "curvature": self.curvature.to_dict() if self.curvature else None,
            "influence": [item.to_dict() for item in self.influence],
            "sensitivity": {key: number(value) for key, value in self.sensitivity.items()},
            "notes": [note.message for note in self.notes],
        }
