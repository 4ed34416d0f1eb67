"""Studies: grids of batch sizes x base learning rates x seeds, in one or more variants.

A grid says which runs there are. Seeds are never averaged and no run is dropped. Files are read
in `twoclock.trainer.study_file`; runs are trained in `twoclock.trainer.sweep`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoclock.errors import SettingsError
from twoclock.trainer.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid of runs that share all other settings.

    Parameters
    ----------
    batch_sizes : tuple of int
        Responses per rollout.
    base_lrs : tuple of float
        Learning rates at the reference batch.
    seeds : tuple of int
        Seeds; each cell (batch size, base learning rate) has a run of every seed.
    responses : tuple of tuple of int
        Length of the runs: a row for each batch size with a value for each base learning rate,
        because slow rates and large batches need more. It is fixed beforehand, so that the end
        of a run tells nothing about its outcome.
    shared : mapping
        Any other field of `TrainSettings`, the same in all runs.

    Raises
    ------
    SettingsError
        A list is empty or has repeats, the lengths disagree, or a run's settings are impossible.

    Examples
    --------
    >>> grid = Grid(
    ...     batch_sizes=(64, 128),
    ...     base_lrs=(1e-4,),
    ...     seeds=(0, 1),
    ...     responses=((500,), (1000,)),
    ...     shared={},
    ... )
    >>> [m.run_id for m in grid.cell(128, 1e-4)]
    ['B00128-lr0.0001-s0', 'B00128-lr0.0001-s1']
    """

    batch_sizes: tuple[int, ...]
    base_lrs: tuple[float, ...]
    seeds: tuple[int, ...]
    responses: tuple[tuple[int, ...], ...]
    shared: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in ("batch_sizes", "base_lrs", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                msg = f"{name} == {list(values)}, must have one or more different values"
                raise SettingsError(msg)
        rows = [len(row) for row in self.responses]
        if rows != [len(self.base_lrs)] * len(self.batch_sizes):
            msg = (
                f"responses has rows of {rows}, must have one row per batch size "
                "with one value per base_lr"
            )
            raise SettingsError(msg)
        _ = self.members  # each run's settings are checked when they are made

    def cell(self, batch_size: int, base_lr: float) -> list[TrainSettings]:
        """Return the runs of one batch size and base learning rate, one for each seed."""
        row = self.responses[self.batch_sizes.index(batch_size)]
        responses = row[self.base_lrs.index(base_lr)]
        return [
            TrainSettings(
                seed=seed,
                batch_size=batch_size,
                base_lr=base_lr,
                responses=responses,
                **self.shared,
            )
            for seed in self.seeds
        ]

    @property
    def members(self) -> list[TrainSettings]:
        """All runs, by batch size, base learning rate and seed in the order of the lists."""
        cells = [self.cell(size, rate) for size in self.batch_sizes for rate in self.base_lrs]
        return [member for cell in cells for member in cell]


@dataclass(frozen=True)
class Study:
    """One grid for each variant.

    Parameters
    ----------
    grids : tuple of Grid
        Their runs have different names: each variant gives its own in ``shared["variant"]``.

    Raises
    ------
    SettingsError
        Two grids have a run of the same name.

    Examples
    --------
    >>> lists = {"batch_sizes": (64,), "base_lrs": (1e-4,), "seeds": (0, 1), "responses": ((500,),)}
    >>> study = Study((Grid(**lists, shared={}), Grid(**lists, shared={"variant": "k1"})))
    >>> len(study.members), study.total_responses
    (4, 2048)
    """

    grids: tuple[Grid, ...]

    def __post_init__(self) -> None:
        ids = [m.run_id for m in self.members]
        twice = sorted({name for name in ids if ids.count(name) > 1}) if _repeats(ids) else []
        if twice:
            msg = f"run {twice[0]} is there twice; give each variant its own name"
            raise SettingsError(msg)

    @property
    def members(self) -> list[TrainSettings]:
        """All runs of all grids."""
        return [member for grid in self.grids for member in grid.members]

    @property
    def total_responses(self) -> int:
        """Responses of all runs together."""
        return sum(m.rollouts * m.batch_size for m in self.members)


def _repeats(values: list[str]) -> bool:
    return len(set(values)) < len(values)
