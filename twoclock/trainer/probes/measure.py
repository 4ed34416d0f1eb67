"""Take a probe: what the updates of one rollout did, against a large held-out rollout.

The held-out rollout has fresh problems of the training kind and is sampled from the policy before
the updates; its problems and uniforms are used again after them, so that the measured gain is a
paired difference. *Twins* repeat the K updates from the same parameters and optimizer state on
fresh rollouts of size B; what their updates share with the real one is the coherent part, the rest
is the noise of sampling and minibatches (momentum from earlier rollouts counts as coherent).
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from twoclock.trainer.grpo import Rollout, answered, draw_problems, gradient, reference_chunks
from twoclock.trainer.loss import advantages
from twoclock.trainer.probes.estimates import Estimate, Evidence, estimate, gram
from twoclock.trainer.probes.objective import derivatives
from twoclock.trainer.probes.path import Tracked
from twoclock.trainer.settings import PROBE_PARTS as PARTS

if TYPE_CHECKING:
    from twoclock.trainer.crew import Crew

MEMBER_FLOATS = 2**25
"""Floats of part gradients held at once; more members are probed in turn."""

_STREAM = 7_368_787
"""Keeps the probes' generators apart from others that are seeded with a run's seed."""


@dataclass(frozen=True)
class Probe:
    """A probe that has begun: what is needed from before the rollout.

    Parameters
    ----------
    theta : Tensor
        Parameters before (M, n_stored).
    twins : Tensor
        Updates of the twins (T, M, n_stored).
    length : Tensor
        Sum of the lengths of all steps before (M,).
    seconds : float
        Time spent so far.
    """

    theta: Tensor
    twins: Tensor
    length: Tensor
    seconds: float

    def finish(self, crew: Crew) -> list[dict[str, Any]]:
        """Return a `probes` row for each member of `crew`, which has advanced by one rollout."""
        start = time.perf_counter()
        path = _tracked(crew)
        update = crew.theta - self.theta
        floats = 2 * PARTS * self.theta.shape[1]
        at_once = max(1, MEMBER_FLOATS // floats)
        rows = []
        for first in range(0, len(crew.members), at_once):
            part = slice(first, first + at_once)
            seen = _look(crew, part, self.theta[part], update[part], self.twins[:, part])
            rows += _rows(_columns(estimate(seen)), seen.finite().tolist(), digits=6)
        length = torch.linalg.vector_norm(update.double(), dim=1)
        away = torch.linalg.vector_norm((crew.theta - crew.base).double(), dim=1)
        sums = {
            "update_length": length,
            "path_ratio": length / (path.length - self.length),
            "path_square": path.square,
            "lr_square": path.lr_square,
            "distance": away,
        }
        lengths = _rows(
            {name: values.tolist() for name, values in sums.items()},
            length.isfinite().tolist(),
            digits=10,
        )
        s = crew.common
        fixed = {
            "rollout": crew.rollout,
            "responses": crew.responses,
            "heldout_responses": s.probe_prompts * s.group_size,
            "parts": PARTS,
            "twins": len(self.twins),
        }
        seconds = round(self.seconds + time.perf_counter() - start, 4)
        return [
            {**fixed, **row, **more, "probe_seconds": seconds}
            for row, more in zip(rows, lengths, strict=True)
        ]


def begin(crew: Crew) -> Probe | None:
    """Begin a probe of the rollout that `crew` is about to make, if one is due."""
    every = crew.common.probe_rollouts
    if every == 0 or (crew.rollout + 1) % every:
        return None
    start = time.perf_counter()
    updates = [_twin_update(crew, 1 + i) for i in range(crew.common.probe_twins)]
    twins = torch.stack(updates) if updates else crew.theta.new_zeros(0, *crew.theta.shape)
    length = _tracked(crew).length
    return Probe(crew.theta.clone(), twins, length, time.perf_counter() - start)


def _tracked(crew: Crew) -> Tracked:
    assert isinstance(crew.optimizer, Tracked)
    return crew.optimizer


def _generators(crew: Crew, stream: int) -> list[torch.Generator]:
    """Return a generator per member, decided by its seed, the rollout and the stream."""
    seeds = [
        np.random.SeedSequence([m.seed, crew.rollout, stream, _STREAM]).generate_state(2, np.uint32)
        for m in crew.members
    ]
    return [torch.Generator().manual_seed(int(high) << 31 | int(low) >> 1) for high, low in seeds]


def _twin_update(crew: Crew, stream: int) -> Tensor:
    """Return the change of parameters (M, n_stored) that another rollout would have made."""
    twin = copy.copy(crew)
    twin.theta, twin.optimizer = crew.theta.clone(), copy.deepcopy(crew.optimizer)
    twin.generators = _generators(crew, stream)
    twin.update(twin.sample())
    return twin.theta - crew.theta


def _look(crew: Crew, members: slice, theta: Tensor, update: Tensor, twins: Tensor) -> Evidence:
    """Return what the held-out rollout shows of `update` (m, n_stored), for some members."""
    s = crew.common
    before, change = _held_out_rollout(crew, members, theta)
    length = torch.linalg.vector_norm(update.double(), dim=1)
    unit = update / length.clamp(min=1e-30).unsqueeze(1).to(update)
    size = s.probe_prompts // PARTS
    training, objective, curvature, along = [], [], [], []
    for k in range(PARTS):
        part = before.cut(slice(k * size, (k + 1) * size))
        signed = advantages(part.rewards, normalize_std=s.normalize_std)
        downhill, _ = gradient(theta, crew.shape, part, signed, s.loss_rule(), s.temperature)
        found = derivatives(theta, crew.shape, part, unit, s.temperature)
        training.append(-downhill)
        objective.append(found.gradient)
        curvature.append(-_dot(found.product, unit))
        along.append(-_dot(found.product, twins))  # (T, m)
    steepness = torch.stack(objective)  # (K, m, n)
    slope = _dot(steepness, unit)  # (K, m)
    return Evidence(
        gradients=gram(torch.stack(training)),
        objective=gram(steepness),
        slope=slope.T,
        curvature=torch.stack(curvature).T,
        twins=torch.stack(along).permute(2, 0, 1),
        gain=change.view(len(change), PARTS, -1).double().mean(2),
        length=length,
        responses=size * s.group_size,
        minibatch=s.batch_size / s.minibatches,
    )


def _dot(values: Tensor, direction: Tensor) -> Tensor:
    """Return the products along the last axis, summed in float64."""
    return (values.double() * direction.double()).sum(-1)


def _held_out_rollout(crew: Crew, members: slice, theta: Tensor) -> tuple[Rollout, Tensor]:
    """Return the rollout of the policy before, and how its rewards (m, P, G) change after."""
    s, task = crew.common, crew.task
    generators = _generators(crew, 0)[members]
    drawn = draw_problems(task, crew.held, s.probe_prompts, s.group_size, generators, theta.device)
    batch, after = (
        answered(where, crew.shape, task, *drawn, s.temperature)
        for where in (theta, crew.theta[members])
    )
    if s.kl_coef:
        base = crew.base.expand(len(theta), -1)
        reference = reference_chunks(base, crew.shape, batch, s.temperature)
        batch = replace(batch, reference=reference)
    return batch, after.rewards - batch.rewards


def _columns(found: dict[str, Estimate]) -> dict[str, list[float]]:
    """Return each estimate and, beside it, its standard error, of all members."""
    out: dict[str, list[float]] = {}
    for name, item in found.items():
        out[name], out[f"{name}_se"] = item.value.tolist(), item.se.tolist()
    return out


def _rows(
    columns: dict[str, list[float]], finite: list[bool], *, digits: int
) -> list[dict[str, float]]:
    """Return a row per member; what is not identified is left out, what broke stays NaN."""
    return [
        {
            name: float(f"{column[i]:.{digits}g}")
            for name, column in columns.items()
            if not sound or np.isfinite(column[i])
        }
        for i, sound in enumerate(finite)
    ]
