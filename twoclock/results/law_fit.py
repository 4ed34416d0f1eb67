"""The fit of a law other than the two clocks' power law: parameters, checks, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from twoclock.notes import Note
from twoclock.results.numbers import Floats, number, plain
from twoclock.results.parts import Bound, LackOfFit


@dataclass(frozen=True)
class LawParameter:
    """One parameter of a law, in the unit that people read (B_c in responses, not its log).

    Parameters
    ----------
    name, unit : str
        Name as in the law's formula; unit, empty for exponents.
    status : {"converged", "bound", "not_identified"}
        What the profile likelihood says of this parameter.
    estimate, se, lower, upper : float or None
        Estimate with its interval at `level`; None unless converged (`se` is that of `scale`).
    level : float
        Confidence level.
    method : str
        Method of the interval.
    scale : {"linear", "log"}
        Scale on which the interval was made and `se` is measured.
    bound : Bound or None
        Present exactly when `status` is ``bound``.
    """

    name: str
    unit: str
    status: str
    estimate: float | None
    se: float | None
    lower: float | None
    upper: float | None
    level: float
    method: str
    scale: str = "linear"
    bound: Bound | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "name": self.name,
            "unit": self.unit,
            "status": self.status,
            "estimate": number(self.estimate),
            "se": number(self.se),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "level": self.level,
            "method": self.method,
            "scale": self.scale,
            "bound": self.bound.to_dict() if self.bound else None,
        }


@dataclass(frozen=True, eq=False)
class LawFit:
    """One law on the runs of one clock and target, of one stratum or (joint laws) of a family.

    Parameters
    ----------
    law : str
        Name of the law.
    clock : {"learning", "failure"}
        Which clock.
    stratum : dict
        Columns that the runs share.
    targets : tuple of float
        One target for the learning clock, none for the failure clock.
    status : {"converged", "bound", "not_identified", "failed"}
        The worst of the parameters that the law is about.
    parameters : tuple of LawParameter
        In the order of the law.
    sigma, loglik, aicc : float or None
        Spread of log R between seeds, log-likelihood (nats), small-sample AIC; comparable between
        laws of the same runs.
    n_runs, n_parameters : int
        Runs; parameters with sigma.
    lack_of_fit : LackOfFit or None
        Against free cell means.
    residuals : str
        Signs of the mean residual of each batch size, ascending.
    predictive : float or None
        Root mean square error of log R (nats) when each batch size is predicted from the others;
        None where a size cannot be left out.
    predictions : DataFrame
        batch_size, responses (observed level), predicted, error (log ratio): one row per left-out
        size.
    notes : tuple of Note
        Warnings.
    estimates : ndarray, shape (q,) or None
        The parameters on the scale of the solver.
    draws : ndarray, shape (draws, q) or None
        The same of the seed bootstrap.
    jackknife : DataFrame or None
        The same without each run (run_id and one column a parameter).
    """

    law: str
    clock: str
    stratum: Mapping[str, Any]
    targets: tuple[float, ...]
    status: str
    parameters: tuple[LawParameter, ...]
    sigma: float | None
    loglik: float | None
    aicc: float | None
    n_runs: int
    n_parameters: int
    lack_of_fit: LackOfFit | None = None
    residuals: str = ""
    predictive: float | None = None
    predictions: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    notes: tuple[Note, ...] = ()
    estimates: Floats | None = field(default=None, repr=False)
    draws: Floats | None = field(default=None, repr=False)
    jackknife: pd.DataFrame | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> LawParameter:
        """Return a parameter by name.

        Raises
        ------
        KeyError
            No such parameter.
        """
        for item in self.parameters:
            if item.name == name:
                return item
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "law": self.law,
            "clock": self.clock,
            "stratum": {key: plain(value) for key, value in self.stratum.items()},
            "targets": list(self.targets),
            "status": self.status,
            "parameters": [item.to_dict() for item in self.parameters],
            "sigma": number(self.sigma),
            "loglik": number(self.loglik),
            "aicc": number(self.aicc),
            "n_runs": self.n_runs,
            "n_parameters": self.n_parameters,
            "lack_of_fit": self.lack_of_fit.to_dict() if self.lack_of_fit else None,
            "residuals": self.residuals,
            "predictive": number(self.predictive),
            "notes": [note.message for note in self.notes],
        }
