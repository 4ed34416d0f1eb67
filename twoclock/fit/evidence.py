"""Everything that an interval of the exponent can be made from: deletions, draws, profile.

Computed when a method asks for it, once, so that a study of one method pays for that one alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.fit.checks import leave_out
from twoclock.fit.estimate import Estimates, Problem, estimate, model_covariance
from twoclock.fit.identify import IDENTIFIED
from twoclock.fit.intervals import Pair, profile_interval, threshold
from twoclock.fit.resample import SeedWeights
from twoclock.fit.sandwich import influence_values
from twoclock.fit.settings import FitSettings

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """A converged fit and what can be refitted from it.

    Parameters
    ----------
    problem, found : Problem, Estimates
        The runs and their fit.
    rows : DataFrame
        Their rows of the events table, in the order of the problem.
    weights : SeedWeights or None
        Bootstrap weights; None for no bootstrap.
    settings : FitSettings
        Resampling.
    """

    problem: Problem
    found: Estimates
    rows: pd.DataFrame
    weights: SeedWeights | None
    settings: FitSettings

    @property
    def value(self) -> float:
        """The exponent."""
        return float(self.found.fit.beta[0, self.problem.column])

    @property
    def spare(self) -> int:
        """Runs beyond the coefficients of the mean: N - p."""
        return len(self.problem) - int(self.problem.data.design.shape[1])

    @property
    def degenerate(self) -> bool:
        """Whether sigma went to 0 on exact runs."""
        return bool(np.isneginf(self.found.fit.log_sigma[0]))

    @cached_property
    def by_run(self) -> tuple[list[object], Estimates]:
        """Refits without each run."""
        return leave_out(self.problem, self.found, None)

    @cached_property
    def by_size(self) -> tuple[list[object], Estimates]:
        """Refits without each batch size."""
        return leave_out(self.problem, self.found, self.problem.batch_size)

    @cached_property
    def deleted(self) -> tuple[list[object], Estimates, float]:
        """Refits without each unit that is resampled, with the degrees of freedom of t."""
        seeds = self.rows["seed"] if self.settings.resample == "seeds" else None
        if seeds is None or seeds.isna().any():
            names, found = self.by_run
            return names, found, float(self.spare)
        names, found = leave_out(self.problem, self.found, seeds.to_numpy(dtype=np.int64))
        return names, found, float(len(names) - 1)

    @cached_property
    def drawn(self) -> Estimates | None:
        """Refits of the bootstrap draws."""
        if self.weights is None:
            return None
        at = self.found.fit.natural(0, loglinear=self.problem.loglinear)
        start = at if np.isfinite(at).all() else None
        return estimate(self.problem, self._draw_weights, start=start)

    @property
    def _draw_weights(self) -> Floats:
        assert self.weights is not None
        return self.weights.columns_for(self.problem.run_ids)

    @cached_property
    def usable(self) -> int:
        """How many draws have an exponent or a set of them."""
        if self.drawn is None:
            return 0
        return int((self.drawn.ok | (self.drawn.classes.code != IDENTIFIED)).sum())

    @cached_property
    def drawn_se(self) -> Floats:
        """Sandwich standard error of each draw, shape (draws,); NaN where it has no maximum."""
        assert self.drawn is not None
        return sandwich_se(self.problem, self.drawn, self._draw_weights)

    @cached_property
    def se(self) -> float:
        """Sandwich standard error of the fit."""
        return float(sandwich_se(self.problem, self.found, self.problem.ones)[0])

    @cached_property
    def information(self) -> Floats | None:
        """Inverse observed information of the coefficients."""
        return None if self.degenerate else model_covariance(self.problem, self.found)

    def profile(self, level: float) -> Pair | None:
        """Return the t-calibrated profile interval; None where there is no run to spare."""
        if self.spare <= 0 or self.degenerate:
            return None
        problem, model = self.problem, self.information
        column = problem.column
        guess = 1.0 if model is None else 2.0 * float(np.sqrt(model[column, column]))
        return profile_interval(
            problem.data,
            column,
            self.value,
            float(self.found.fit.loglik[0]),
            threshold(float(len(problem)), float(self.spare), level),
            scale=guess,
            loglinear=problem.loglinear,
            error=problem.error,
        )


def sandwich_se(problem: Problem, found: Estimates, weights: Floats) -> Floats:
    """Return ``sqrt(sum_i w_i u_i^2)`` of every fit, with u from `influence_values`."""
    moved = influence_values(problem, found.fit, weights)
    out: Floats = np.sqrt(np.einsum("dn,dn->d", weights, moved**2))
    return out
