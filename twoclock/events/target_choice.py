"""Which target to use: the default one, and what makes a target unusable.

Looks at validations only; events are found in `twoclock.events`.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from twoclock.errors import TargetAtBase, TargetError
from twoclock.events.cleaning import one_metric, validation_series
from twoclock.events.series import TOLERANCE, Series, floats
from twoclock.events.target import Target, pooled
from twoclock.schema import check_columns

STEP = 0.05
"""Default targets are multiples of this."""

BASE_ERRORS = 3.0
"""A target must lie this many standard errors above the accuracy before training."""


def default_target(runs: pd.DataFrame, evals: pd.DataFrame, *, metric: str | None = None) -> float:
    """Return the highest multiple of 0.05 that at least half of the runs of every B reached.

    It must lie above the first validation of every run. Reached means the pooled curve of the
    ``isotonic`` rule; runs without validations are not counted. Give the runs of one task, model
    and metric.

    Raises
    ------
    TargetError
        There is none: no validations, a score without a scale, several metrics, or no multiple
        between the first validations and what half of the runs of every B reached.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a", "b"], "batch_size": [64, 512]})
    >>> evals = pd.DataFrame({"run_id": list("aaabbb"), "responses": [0, 512, 1024] * 2,
    ...                       "accuracy": [.1, .5, .72, .12, .4, .68]})
    >>> default_target(runs, evals)
    0.65
    """
    own = _own(runs, evals, metric)
    if _is_score(own):
        msg = "the metric is a score, not an accuracy: give a target in its unit (--target)"
        raise TargetError(msg)
    curves = validation_series(runs, own, {}, metric=metric)
    sizes = dict(zip(runs["run_id"].astype(str), runs["batch_size"], strict=True))
    first = max(float(series.accuracy[0]) for series in curves.values() if len(series.accuracy))
    reached: dict[int, list[float]] = {}
    for run, series in curves.items():
        if len(series.accuracy):
            top = float(pooled(series.accuracy, series.n)[-1])
            reached.setdefault(int(sizes[run]), []).append(top)
    half = {size: sorted(tops)[len(tops) // 2] for size, tops in reached.items()}
    worst = min(half, key=lambda size: half[size])
    step = math.floor(half[worst] / STEP + 1e-9)
    value = round(step * STEP, 10)
    if value <= first + TOLERANCE:
        msg = (
            f"no default target: half of the runs of B={worst} reached no multiple of {STEP} "
            f"between the highest first validation {first:.3f} and {half[worst]:.3f}; "
            "give --target"
        )
        raise TargetError(msg)
    return value


def _own(runs: pd.DataFrame, evals: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Return the usable validations of the runs, of one metric."""
    check_columns(evals, ("run_id", "responses", "accuracy"), where="evals")
    own: pd.DataFrame = one_metric(evals[evals["run_id"].isin(runs["run_id"])], metric)
    own = own.loc[np.isfinite(floats(own, "accuracy"))]
    if own.empty:
        msg = "none of these runs has a validation, so no target can be reached or missed"
        raise TargetError(msg)
    names = sorted(set(own["metric"].dropna().astype(str))) if "metric" in own.columns else []
    if len(names) > 1:
        msg = f"the runs have different metrics ({', '.join(names)}): give a target for each task"
        raise TargetError(msg)
    return own


def _is_score(evals: pd.DataFrame) -> bool:
    return "scale" in evals.columns and bool((evals["scale"] == "score").any())


def check_target(
    runs: pd.DataFrame, evals: pd.DataFrame, target: Target, *, metric: str | None = None
) -> None:
    """Refuse a target that no run can tell anything about.

    The base policy's accuracy is pooled, per model and task, over the validations at responses 0,
    weighted by n; its standard error is ``sqrt(p * (1 - p) / sum n)`` where all n are known, else
    that of the mean of the runs. Without validations at 0 nothing is refused on that ground.

    Raises
    ------
    TargetAtBase
        Within 3 standard errors of the accuracy before training.
    TargetError
        Off the scale, or no validations.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "batch_size": [64]})
    >>> evals = pd.DataFrame({"run_id": "a", "responses": [0, 64], "accuracy": [0.58, 0.7],
    ...                       "n": 100})
    >>> check_target(runs, evals, Target(0.7))
    Traceback (most recent call last):
    ...
    twoclock.errors.TargetAtBase: target_at_base: target 0.7 is within 3 standard errors (0.049) of
    the accuracy before training, 0.580; choose one above 0.728
    """
    own = _own(runs, evals, metric)
    if not _is_score(own) and not 0 < target.value <= 1:
        msg = f"target == {target.value:g}, must be above 0 and at most 1 (a fraction)"
        raise TargetError(msg)
    curves = validation_series(runs, own, {}, metric=metric)
    names = [name for name in ("model", "task") if name in runs.columns]
    keys = runs[names].astype("string").fillna("").agg("/".join, axis=1) if names else None
    groups: dict[str, list[Series]] = {}
    for k, run in enumerate(runs["run_id"].astype(str)):
        series = curves.get(run, Series())
        if len(series.responses) and series.responses[0] == 0:
            groups.setdefault("" if keys is None else str(keys.iloc[k]), []).append(series)
    for name, group in sorted(groups.items()):
        _check_base(target, group, name.strip("/"))


def _check_base(target: Target, group: list[Series], name: str) -> None:
    start = np.array([series.accuracy[0] for series in group])
    n = np.array([series.n[0] for series in group])
    if np.all(n > 0):
        base = float(np.average(start, weights=n))
        error = math.sqrt(max(base * (1 - base), 0.0) / float(n.sum()))
    else:
        base = float(start.mean())
        error = float(start.std(ddof=1)) / math.sqrt(len(start)) if len(start) > 1 else 0.0
    line = base + BASE_ERRORS * error
    if target.value <= line + TOLERANCE:
        where = f" ({name})" if name else ""
        msg = (
            f"target_at_base: target {target.value:g} is within 3 standard errors ({error:.3f}) "
            f"of the accuracy before training, {base:.3f}{where}; choose one above {line:.3f}"
        )
        raise TargetAtBase(msg)
