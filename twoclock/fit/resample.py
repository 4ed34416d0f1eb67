"""Seed-level resampling: whole runs are drawn, as weights, and every draw is refitted at once.

Seeds (runs) are the replication, never validations. `SeedWeights` is made once per stratum from
the union of its runs over both clocks and all targets, so that differences use the same draws.
Nothing here fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.errors import FitError

Floats = NDArray[np.float64]

RESAMPLING = ("cells", "seeds")
"""``cells``: runs within each batch size; ``seeds``: seed numbers shared over batch sizes."""


@dataclass(frozen=True, eq=False)
class SeedWeights:
    """How often every run counts in every bootstrap draw.

    Parameters
    ----------
    run_ids : tuple of str
        The runs, sorted: draws never depend on the order of files.
    matrix : ndarray of uint16, shape (draws, n_runs)
        Multiplicities.
    resample : {"cells", "seeds"}
        What was drawn.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"run_id": ["b", "a", "c"], "batch_size": [64, 64, 256], "seed": 0})
    >>> weights = SeedWeights.of(runs, draws=4, rng=np.random.default_rng(0))
    >>> weights.run_ids, weights.matrix.sum(axis=1).tolist()
    (('a', 'b', 'c'), [3, 3, 3, 3])
    """

    run_ids: tuple[str, ...]
    matrix: NDArray[np.uint16]
    resample: str = "cells"

    @classmethod
    def of(
        cls,
        runs: pd.DataFrame,
        *,
        draws: int,
        rng: np.random.Generator,
        resample: str = "cells",
    ) -> SeedWeights:
        """Draw the weights of the runs of one stratum.

        Parameters
        ----------
        runs : DataFrame
            Columns run_id, batch_size, seed; a run may stand in several rows (clocks, targets).
        draws : int
            Number of bootstrap draws.
        rng : numpy.random.Generator
            Source of randomness.
        resample : {"cells", "seeds"}
            Draw runs within each batch size (every draw keeps the runs per batch size), or seed
            numbers over all batch sizes at once (crossed designs).

        Raises
        ------
        FitError
            ``seeds`` is asked for and a run has no seed, or there is only one seed number.
        """
        table = runs.drop_duplicates("run_id").sort_values("run_id", kind="stable")
        ids = tuple(str(run) for run in table["run_id"])
        keys = _keys(table, resample)
        return cls(ids, _draw(keys, draws, rng, resample), resample)

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.matrix)

    def columns_for(self, run_ids: Sequence[str]) -> Floats:
        """Return the weights of `run_ids`, in their order, shape (draws, len(run_ids)).

        Raises
        ------
        FitError
            A run is not among those that the weights were drawn for.
        """
        place = {run: i for i, run in enumerate(self.run_ids)}
        missing = [run for run in run_ids if run not in place]
        if missing:
            msg = f"weights: no column for run {missing[0]!r}; draw them from all runs of a stratum"
            raise FitError(msg)
        out: Floats = self.matrix[:, [place[run] for run in run_ids]].astype(np.float64)
        return out


def _keys(table: pd.DataFrame, resample: str) -> NDArray[Any]:
    """Return the group of each run: its batch size, or its seed number."""
    if resample == "cells":
        return table["batch_size"].to_numpy(dtype=np.int64)
    if table["seed"].isna().any():
        run = str(table.loc[table["seed"].isna(), "run_id"].iloc[0])
        msg = f"resample 'seeds' needs the seed of every run; run {run!r} has none (--run-seed)"
        raise FitError(msg)
    seeds = table["seed"].to_numpy(dtype=np.int64)
    if len(np.unique(seeds)) < 2:
        msg = f"resample 'seeds' needs two seed numbers; every run has seed {seeds[0]}"
        raise FitError(msg)
    return seeds


def _draw(
    keys: NDArray[Any], draws: int, rng: np.random.Generator, resample: str
) -> NDArray[np.uint16]:
    groups, member = np.unique(keys, return_inverse=True)
    matrix = np.zeros((draws, len(keys)), dtype=np.uint16)
    if resample == "seeds":
        count = len(groups)
        picks = rng.multinomial(count, np.full(count, 1.0 / count), size=draws)
        matrix[:, :] = picks[:, member]
        return matrix
    for group in range(len(groups)):
        mine = np.flatnonzero(member == group)
        share = np.full(len(mine), 1.0 / len(mine))
        matrix[:, mine] = rng.multinomial(len(mine), share, size=draws)
    return matrix


def deletions(groups: NDArray[Any]) -> tuple[list[Any], Floats]:
    """Return the distinct groups, ascending, and weights that leave each out in turn.

    Parameters
    ----------
    groups : ndarray, shape (n,)
        Group of each run: the run itself, its batch size or its seed.

    Returns
    -------
    names : list
        The distinct groups.
    weights : ndarray, shape (len(names), n)
        Zeros for the runs of the group left out, ones elsewhere.

    Examples
    --------
    >>> deletions(np.array([64, 64, 256]))
    ([64, 256], array([[0., 0., 1.],
           [1., 1., 0.]]))
    """
    names, member = np.unique(groups, return_inverse=True)
    weights = (member[None, :] != np.arange(len(names))[:, None]).astype(np.float64)
    return names.tolist(), weights
