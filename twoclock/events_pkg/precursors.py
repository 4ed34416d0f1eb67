"""What moved first: where each logged quantity left its early range. Shown, never an event.

A long log leaves a band of 3 sigma by chance (about one row in 370 for normal noise), and learning
itself moves every quantity, so that an excursion is a remark and not a warning of failure.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from twoclock.schema import check_columns
from twoclock.series import Floats, floats, split_runs

QUANTITIES = ("entropy", "kl_ref", "kl_old", "ratio_mean", "ratio_max", "grad_norm",
              "response_tokens")  # fmt: skip
"""Columns of `steps` that are looked at."""

BASELINE_ROWS = 20
"""First logged rows of a quantity that make its baseline."""

_MAD_TO_SIGMA = 1.4826  # median absolute deviation of a normal distribution to its sigma


def precursors(
    steps: pd.DataFrame, *, sigmas: float = 3.0, baseline_rows: int = BASELINE_ROWS
) -> pd.DataFrame:
    """Return where each quantity first left its frozen baseline by more than `sigmas` sigma.

    The baseline is the median of the first `baseline_rows` finite rows, its sigma 1.4826 times
    their median absolute deviation (their standard deviation where that is 0), never updated
    afterwards. Quantities with fewer rows, or without any spread, are left out.

    Parameters
    ----------
    steps : DataFrame
        `steps` table.
    sigmas : float
        Width of the band.
    baseline_rows : int
        Rows of the baseline.

    Returns
    -------
    DataFrame
        run_id, quantity, baseline, sigma, responses (of the first row outside; inf: never), value
        (there; missing: never).

    Examples
    --------
    >>> entropy = [1.0, 1.1, 0.9, 1.0, 1.1, 1.0, 2.0]
    >>> steps = pd.DataFrame({"run_id": "a", "responses": range(64, 512, 64), "entropy": entropy})
    >>> precursors(steps, baseline_rows=5)[["quantity", "responses", "value"]].values.tolist()
    [['entropy', 448.0, 2.0]]
    """
    check_columns(steps, ("run_id", "responses"), where="steps")
    responses = floats(steps, "responses")
    logged = {name: floats(steps, name) for name in QUANTITIES if name in steps.columns}
    rows = [
        (run, name, *found)
        for run, part in split_runs(steps)
        for name, values in logged.items()
        if (found := _first_outside(responses[part], values[part], sigmas, baseline_rows))
    ]
    columns = ["run_id", "quantity", "baseline", "sigma", "responses", "value"]
    frame = pd.DataFrame(rows, columns=columns)
    numbers = dict.fromkeys(columns[2:], "float64")
    return frame.astype({"run_id": "string", "quantity": "string", **numbers})


def _first_outside(
    responses: Floats, values: Floats, sigmas: float, baseline_rows: int
) -> tuple[float, float, float, float] | None:
    known = np.isfinite(values)
    responses, values = responses[known], values[known]
    if len(values) <= baseline_rows:
        return None
    first = values[:baseline_rows]
    middle = float(np.median(first))
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(first - middle))) or float(first.std(ddof=1))
    if not sigma > 0:
        return None
    outside = np.flatnonzero(np.abs(values[baseline_rows:] - middle) > sigmas * sigma)
    if not len(outside):
        return middle, sigma, math.inf, math.nan
    at = baseline_rows + int(outside[0])
    return middle, sigma, float(responses[at]), float(values[at])
