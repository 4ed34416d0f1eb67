"""Settings of a simulation: the laws that are true, and the design that observes them.

Nothing here draws whole runs: see `twoclock.simulate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from twoclock.errors import SettingsError
from twoclock.events.series import Floats


@dataclass(frozen=True)
class Law:
    """Responses to an event: ``log R = log c + alpha * log B + sigma_B * e``, e standard normal.

    With ``sigma_B = sigma * (B / B_mid)**sigma_slope`` and B_mid the geometric mean of the design's
    batch sizes. ``seed_share`` of the variance belongs to the seed number, shared over B.

    Parameters
    ----------
    exponent : float
        alpha.
    coefficient : float
        c, responses at B = 1.
    sigma : float
        Standard deviation of log R over seeds.
    sigma_slope : float
        Exponent of sigma in B.
    seed_share : float
        From 0 (seeds of different B have nothing in common) to 1.

    Examples
    --------
    >>> float(Law(0.5, 1000.0).median(np.array([64.0]))[0])
    8000.0
    """

    exponent: float = 0.3
    coefficient: float = 2000.0
    sigma: float = 0.3
    sigma_slope: float = 0.0
    seed_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.coefficient < math.inf:
            msg = f"coefficient == {self.coefficient}, must be a positive number of responses"
            raise SettingsError(msg)
        if not math.isfinite(self.exponent):
            msg = f"exponent == {self.exponent}, must be a finite number"
            raise SettingsError(msg)
        if not 0 <= self.sigma < math.inf:
            msg = f"sigma == {self.sigma}, must be 0 or more"
            raise SettingsError(msg)
        if not 0 <= self.seed_share <= 1:
            msg = f"seed_share == {self.seed_share}, must be from 0 to 1"
            raise SettingsError(msg)

    def median(self, batch_size: Floats) -> Floats:
        """Return ``c * B**alpha`` in responses."""
        return self.coefficient * batch_size**self.exponent

    def draw(self, batch_size: Floats, seed: Floats, rng: np.random.Generator) -> Floats:
        """Return the responses to the event of runs of the given batch sizes and seed numbers."""
        middle = math.exp(float(np.log(np.unique(batch_size)).mean()))
        sigma = self.sigma * (batch_size / middle) ** self.sigma_slope
        numbers, place = np.unique(seed, return_inverse=True)
        shared = rng.standard_normal(len(numbers))[place]
        own = rng.standard_normal(len(seed))
        noise = math.sqrt(self.seed_share) * shared + math.sqrt(1 - self.seed_share) * own
        drawn: Floats = self.median(batch_size) * np.exp(sigma * noise)
        return drawn


@dataclass(frozen=True)
class Design:
    """Which runs are made and how they are observed.

    Parameters
    ----------
    batch_sizes : tuple of int
        Responses per rollout; each once.
    seeds : int
        Runs of each batch size, seeds 0, 1, ...
    cap : float
        Responses after which every run ends.
    every_rollouts : int or None
        Rollouts between validations; None: as `every_responses` says.
    every_responses : float or None
        Responses between validations, rounded to whole rollouts and at least one. With both None
        `simulate_events` observes exactly, and `simulate_runs` validates every rollout.
    n_problems : int or None
        Problems in a validation; None: without noise.
    """

    batch_sizes: tuple[int, ...] = (64, 256, 1024, 4096)
    seeds: int = 4
    cap: float = 200_000.0
    every_rollouts: int | None = None
    every_responses: float | None = None
    n_problems: int | None = 500

    def __post_init__(self) -> None:
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            msg = f"batch_sizes == {self.batch_sizes}, must be one or more positive numbers"
            raise SettingsError(msg)
        positive = {"seeds": self.seeds, "cap": self.cap, "every_rollouts": self.every_rollouts,
                    "every_responses": self.every_responses,
                    "n_problems": self.n_problems}  # fmt: skip
        for name, value in positive.items():
            if value is not None and not value > 0:
                msg = f"{name} == {value}, must be positive"
                raise SettingsError(msg)
        if len(set(self.batch_sizes)) < len(self.batch_sizes):
            sizes = ", ".join(f"{size:g}" for size in self.batch_sizes)
            msg = f"batch_sizes == ({sizes}), must differ; seeds says how many runs each has"
            raise SettingsError(msg)

    def cells(self) -> tuple[Floats, Floats]:
        """Return batch size and seed of every run."""
        size = np.repeat(np.array(self.batch_sizes, dtype=np.float64), self.seeds)
        return size, np.tile(np.arange(self.seeds, dtype=np.float64), len(self.batch_sizes))

    def rollouts_between(self, batch_size: Floats) -> Floats | None:
        """Return the rollouts between validations at each batch size; None: not said."""
        if self.every_rollouts is not None:
            return np.full(len(batch_size), float(self.every_rollouts))
        if self.every_responses is None:
            return None
        return np.maximum(1.0, np.round(self.every_responses / batch_size))


@dataclass(frozen=True)
class Truth:
    """How simulated runs learn and fail.

    Accuracy after R responses, with R_T drawn from `learning`, rises as
    ``top - (top - base) * exp(-h * R / R_T)``, h such that it equals `target` at R_T. From R_F
    (drawn from `failure`) on, it falls linearly to `collapsed` over ``fall * R_F`` responses.

    Parameters
    ----------
    learning : Law
        Responses to the target.
    failure : Law or None
        Responses to failure; None: no run fails.
    target, base, top : float
        Accuracies: of the target, before training, and in the long run.
    collapsed : float
        Accuracy after a failure.
    fall : float
        Length of the fall as a share of R_F.
    kind : {"accuracy", "nonfinite"}
        Whether a failure shows in accuracy alone, or in a loss that is NaN from R_F on as well (the
        weights are gone then: accuracy falls at once).

    Examples
    --------
    >>> float(Truth().accuracy(np.array([1000.0]), 1000.0, math.inf)[0])
    0.6
    """

    learning: Law = field(default_factory=Law)
    failure: Law | None = None
    target: float = 0.6
    base: float = 0.2
    top: float = 0.9
    collapsed: float = 0.0
    fall: float = 0.05
    kind: Literal["accuracy", "nonfinite"] = "accuracy"

    def __post_init__(self) -> None:
        if not 0 <= self.base < self.target < self.top <= 1:
            msg = f"target == {self.target}, must lie between base {self.base} and top {self.top}"
            raise SettingsError(msg)
        if not (0 <= self.collapsed <= 1 and self.fall >= 0):
            msg = f"collapsed == {self.collapsed}, fall == {self.fall}: must be 0..1 and 0 or more"
            raise SettingsError(msg)

    def accuracy(self, responses: Floats, reached: float, failed: float) -> Floats:
        """Return the true accuracy after `responses` of a run with R_T, R_F given."""
        rate = math.log((self.top - self.base) / (self.top - self.target))
        rising = self.top - (self.top - self.base) * np.exp(-rate * responses / reached)
        if math.isinf(failed):
            return np.asarray(rising)
        length = 1e-9 if self.kind == "nonfinite" else max(self.fall * failed, 1e-9)
        left = np.clip(1 - (responses - failed) / length, 0.0, 1.0)
        return np.asarray(self.collapsed + (rising - self.collapsed) * left)
