"""Which validations of a run are accepted: repeats resolved, broken evaluations set aside.

Both clocks see the curves that leave here. Nothing here decides about targets or failures.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from twoclock.errors import TableError
from twoclock.events.series import TOLERANCE, Bools, Floats, Series, TrainLog, floats, split_runs

_NEAR_ROWS = 3
"""Train rows on either side of a validation that tell whether it can be true."""

_MEDIAN_ROWS = 10_000
"""Train rows that a running median is taken over; longer logs are thinned."""


def one_metric(evals: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """Return the validations of one metric per run.

    Raises
    ------
    TableError
        A run has several metrics and none was chosen, or the chosen one does not occur.
    """
    if "metric" not in evals.columns or evals.empty:
        return evals
    if metric is not None:
        chosen = evals[(evals["metric"] == metric).fillna(value=False)]
        if chosen.empty:
            have = ", ".join(sorted(str(m) for m in evals["metric"].dropna().unique()))
            msg = f"evals: no metric {metric!r}; there are {have or 'none'}"
            raise TableError(msg)
        return chosen
    counts = evals.groupby("run_id", sort=True)["metric"].nunique()
    if (counts > 1).any():
        run = str(counts.index[counts > 1][0])
        names = sorted(
            str(m) for m in evals.loc[evals["run_id"] == run, "metric"].dropna().unique()
        )
        msg = (
            f"evals: run {run} has several metrics ({', '.join(names)}); "
            f"choose one, e.g. --map accuracy={names[0]}"
        )
        raise TableError(msg)
    return evals


def validation_series(
    runs: pd.DataFrame,
    evals: pd.DataFrame,
    logs: Mapping[str, TrainLog],
    *,
    metric: str | None = None,
) -> dict[str, Series]:
    """Return the accepted validations of every run that has any.

    Of several validations at the same responses the last written one counts. Set aside: non-finite
    values, and zeros that cannot be true because the train rewards around them are normal.

    Parameters
    ----------
    runs : DataFrame
        `runs` table; eval_size fills a missing n.
    evals : DataFrame
        `evals` table.
    logs : mapping of str to TrainLog
        Train rows, from `train_logs`.
    metric : str, optional
        Which metric to use when runs have several.

    Examples
    --------
    >>> evals = pd.DataFrame({"run_id": "a", "responses": [0, 64, 64], "accuracy": [0.1, 0.9, 0.2]})
    >>> validation_series(pd.DataFrame({"run_id": ["a"]}), evals, {})["a"].accuracy.tolist()
    [0.1, 0.2]
    """
    chosen = one_metric(evals, metric)
    if chosen.empty:
        return {}
    values, sizes = floats(chosen, "accuracy"), floats(chosen, "n")
    values = np.where(np.isfinite(values), values, np.nan)
    if "eval_size" in runs.columns:
        known = dict(zip(runs["run_id"].astype(str), floats(runs, "eval_size"), strict=True))
        default = chosen["run_id"].astype(str).map(known).to_numpy(dtype=np.float64)
        sizes = np.where(np.isfinite(sizes), sizes, default)
    low, high = _ranges(chosen, values)
    responses, zero = floats(chosen, "responses"), _zero_everywhere(evals, chosen)
    out = {}
    for run, rows in split_runs(chosen):
        last = np.append(np.diff(responses[rows]) != 0, True)
        kept = rows[last]
        size = np.where(low[kept] + 1 == high[kept], sizes[kept], np.nan)
        series = Series(
            responses[kept], values[kept], size, float(low[kept[0]]), float(high[kept[0]]),
            repeats=len(rows) - len(kept),
        )  # fmt: skip
        out[run] = _accepted(series, zero[kept], logs.get(run, TrainLog()))
    return out


def _ranges(evals: pd.DataFrame, values: Floats) -> tuple[Floats, Floats]:
    """Return what counts as 0 and 1: itself for accuracies, the range seen for a score."""
    low, high = np.zeros(len(evals)), np.ones(len(evals))
    if "scale" in evals.columns:
        scored = (evals["scale"] == "score").fillna(value=False).to_numpy(dtype=bool)
        metrics = evals["metric"].astype("string").fillna("").to_numpy(dtype=object)
        for name in set(metrics[scored]):
            rows = scored & (metrics == name) & np.isfinite(values)
            if rows.any():
                low[rows], high[rows] = min(0.0, values[rows].min()), max(1.0, values[rows].max())
    return low, high


def _zero_everywhere(evals: pd.DataFrame, chosen: pd.DataFrame) -> Bools:
    """Return for each chosen validation whether every key of that validation is exactly 0."""
    zero: Bools = floats(chosen, "accuracy") == 0
    if len(chosen) == len(evals) or not zero.any():
        return zero
    alive = evals.loc[floats(evals, "accuracy") != 0, ["run_id", "responses"]]
    seen = set(zip(alive["run_id"].astype(str), alive["responses"].astype(float), strict=True))
    keys = zip(chosen["run_id"].astype(str), chosen["responses"].astype(float), strict=True)
    return np.logical_and(zero, [key not in seen for key in keys])


def _accepted(series: Series, zero: Bools, log: TrainLog) -> Series:
    """Set aside non-finite validations and zeros beside a normal train reward."""
    finite = np.isfinite(series.accuracy)
    drop = ~finite
    known = np.isfinite(log.reward)
    if zero.any() and known.any():
        rows, reward = log.responses[known], log.reward[known]
        reward = reward - min(0.0, float(reward.min()))  # rewards of -1 and 1: from the lowest
        stride = -(-len(reward) // _MEDIAN_ROWS)
        medians = np.maximum.accumulate(_running_median(reward[::stride]))
        usual = np.repeat(medians, stride)[: len(reward)]
        positive = np.maximum.accumulate(finite & (series.accuracy > 0))
        for i in np.flatnonzero(zero & positive):  # a zero before any success is no surprise
            after = series.responses[i - 1] if i else 0.0
            span = np.searchsorted(rows, (after, series.responses[i]), side="right")
            drop[i] = _reward_normal(reward, usual, int(span[0]), int(span[1]))
    if not drop.any():
        return series
    broken = np.column_stack([series.responses[drop], series.accuracy[drop]])
    kept = series.keep(~drop)
    return replace(kept, invalid=broken)


def _running_median(values: Floats) -> Floats:
    """Return the median of values[: k + 1] for every k."""
    ordered: list[float] = []
    out = np.empty(len(values))
    for k, value in enumerate(values):
        insort(ordered, float(value))
        out[k] = 0.5 * (ordered[k // 2] + ordered[(k + 1) // 2])
    return out


def _reward_normal(reward: Floats, usual: Floats, start: int, stop: int) -> bool:
    """Tell whether the train rewards beside a validation of 0 are at least half the usual one.

    The usual reward is the highest running median so far (a long dead stretch must not become the
    usual). The last rows of the window must reach half of it, and so must the first rows that
    follow: they were sampled by the validated policy itself, so that a collapse in the last update
    before the validation is not taken for a broken evaluation.

    Parameters
    ----------
    reward, usual : ndarray, shape (t,)
        Train rewards (lowest possible value 0) and the highest running median up to each row.
    start, stop : int
        The window between the previous validation and this one holds rows start..stop-1.
    """
    window = reward[start:stop][-_NEAR_ROWS:]
    if not len(window) or usual[stop - 1] <= 0:
        return False
    following = reward[stop : stop + _NEAR_ROWS]
    means = [part.mean() for part in (window, following) if len(part)]
    return bool(min(means) >= 0.5 * usual[stop - 1] - TOLERANCE)
