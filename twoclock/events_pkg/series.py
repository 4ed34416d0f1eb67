"""One run's validations and train rows as arrays: what the target and failure rules look at.

Which validations are accepted is decided in `twoclock.cleaning`; nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TOLERANCE = 1e-12
"""Comparisons of accuracies allow this much rounding."""

LOSS_LIKE = ("loss", "kl_ref", "kl_old", "entropy")
"""Columns whose non-finite values end a run at once."""

WATCHED = (*LOSS_LIKE, "grad_norm")
"""Columns whose non-finite values are looked at."""

_NONE = np.empty(0, dtype=np.float64)


@dataclass(frozen=True)
class Series:
    """The accepted validations of one run, in the order of responses.

    Parameters
    ----------
    responses : ndarray, shape (m,)
        Responses generated before each validation.
    accuracy : ndarray, shape (m,)
        Finite values, in the source's unit.
    n : ndarray, shape (m,)
        Problems times samples behind each value; NaN where unknown.
    low, high : float
        Values that count as 0 and as 1 (0 and 1 unless the metric is a score).
    invalid : ndarray, shape (k, 2)
        Responses and value of the validations set aside as broken.
    repeats : int
        Validations overwritten by a later one at the same responses.
    """

    responses: Floats = field(default_factory=lambda: _NONE)
    accuracy: Floats = field(default_factory=lambda: _NONE)
    n: Floats = field(default_factory=lambda: _NONE)
    low: float = 0.0
    high: float = 1.0
    invalid: Floats = field(default_factory=lambda: np.empty((0, 2)))
    repeats: int = 0

    def keep(self, chosen: Bools | NDArray[np.intp]) -> Series:
        """Return the series with the chosen validations only."""
        return replace(
            self,
            responses=self.responses[chosen],
            accuracy=self.accuracy[chosen],
            n=self.n[chosen],
        )

    def on_grid(self, spacing: float) -> Series:
        """Keep the last validation at or before every multiple of `spacing` (responses).

        The last validation always stays: it is the last one before the multiple that follows it.

        Examples
        --------
        >>> s = Series(np.arange(6.0) * 10, np.zeros(6), np.full(6, np.nan))
        >>> s.on_grid(25.0).responses.tolist()
        [0.0, 20.0, 50.0]
        """
        if not len(self.responses):
            return self
        # tolerance: 3 * 0.1-like spacings must not push a validation into the next window
        window = np.ceil(self.responses / spacing - 1e-9)
        return self.keep(np.append(window[1:] != window[:-1], True))


def spacings(series: Series) -> Floats:
    """Return the gaps between validations in responses, the first one counted from 0."""
    gaps: Floats = np.diff(np.unique(np.append(series.responses, 0.0)))
    return gaps


@dataclass(frozen=True)
class TrainLog:
    """The train rows of one run, in the order of responses.

    Parameters
    ----------
    responses : ndarray, shape (t,)
        Cumulative responses at the end of each row.
    reward : ndarray, shape (t,)
        Mean reward; NaN where not logged.
    finite, bad : dict of str to ndarray of bool, shape (t,)
        For each watched column: logged finite, and logged as NaN, inf or null (blank: neither).
    """

    responses: Floats = field(default_factory=lambda: _NONE)
    reward: Floats = field(default_factory=lambda: _NONE)
    finite: Mapping[str, Bools] = field(default_factory=dict)
    bad: Mapping[str, Bools] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """Responses at the last row (0 without rows)."""
        return float(self.responses[-1]) if len(self.responses) else 0.0


def split_runs(frame: pd.DataFrame) -> list[tuple[str, NDArray[np.intp]]]:
    """Return (run_id, positions sorted by responses, file order within ties) of every run."""
    codes, names = pd.factorize(frame["run_id"], use_na_sentinel=True)
    order = np.lexsort((frame["responses"].to_numpy(dtype=np.float64), codes))
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    return [(str(names[codes[part[0]]]), part) for part in np.split(order, edges) if len(part)]


def floats(frame: pd.DataFrame, name: str) -> Floats:
    """Return a column as floats, missing as NaN (all NaN when the column is absent)."""
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    return frame[name].to_numpy(dtype=np.float64, na_value=np.nan)


def train_logs(steps: pd.DataFrame) -> dict[str, TrainLog]:
    """Return the train rows of every run of a `steps` table.

    Examples
    --------
    >>> steps = pd.DataFrame({"run_id": "a", "responses": [64, 128], "loss": [0.1, np.nan],
    ...                       "nonfinite": ["", "loss"]})
    >>> train_logs(steps)["a"].bad["loss"].tolist()
    [False, True]
    """
    if steps.empty:
        return {}
    responses, reward = floats(steps, "responses"), floats(steps, "reward")
    reward = np.where(np.isfinite(reward), reward, np.nan)
    named = _named_columns(steps)
    finite, bad = {}, {}
    for name in WATCHED:
        values = floats(steps, name)
        bad[name] = named.get(name, np.zeros(len(steps), dtype=bool)) | np.isinf(values)
        finite[name] = np.isfinite(values) & ~bad[name]
    used = [name for name in WATCHED if bad[name].any()]
    return {
        run: TrainLog(
            responses[rows], reward[rows],
            {name: finite[name][rows] for name in used}, {name: bad[name][rows] for name in used},
        )
        for run, rows in split_runs(steps)
    }  # fmt: skip


def _named_columns(steps: pd.DataFrame) -> dict[str, Bools]:
    """Return for each column named in `nonfinite` the rows that name it."""
    if "nonfinite" not in steps.columns:
        return {}
    texts = steps["nonfinite"].astype("string").fillna("").to_numpy(dtype=object)
    out: dict[str, Bools] = {}
    for row in np.flatnonzero(texts != ""):
        for part in str(texts[row]).split(","):
            name = part.strip()
            out.setdefault(name, np.zeros(len(steps), dtype=bool))[row] = True
    return out
