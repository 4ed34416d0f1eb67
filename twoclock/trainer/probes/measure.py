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

from twoclock.trainer.grpo import Rollout, answered, gradient, reference_chunks
from twoclock.trainer.loss import advantages
from twoclock.trainer.probes.estimates import Estimate, Evidence, estimate, gram
from twoclock.trainer.probes.objective import derivatives
from twoclock.trainer.probes.path import Tracked
from twoclock.trainer.settings import PROBE_PARTS as PARTS
from twoclock.trainer.tasks import skip_held_out

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
            rows += _rows(estimate(seen), seen.finite().tolist())
        length = torch.linalg.vector_norm(update.double(), dim=1)
        away = torch.linalg.vector_norm((crew.theta - crew.base).double(), dim=1)
        sums = {
            "update_length": length,
            "path_ratio": length / (path.length - self.length),
            "path_square": path.square,
            "lr_square": path.lr_square,
            "distance": away,
        }
        lists = {name: values.tolist() for name, values in sums.items()}
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
            {
                **fixed,
                **row,
                **{name: float(f"{values[i]:.10g}") for name, values in lists.items()},
                "probe_seconds": seconds,
            }
            for i, row in enumerate(rows)
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
    before, change = _held_out_rollout(crew, members, theta, update)
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


def _held_out_rollout(
    crew: Crew, members: slice, theta: Tensor, update: Tensor
) -> tuple[Rollout, Tensor]:
    """Return the held-out rollout, and the change of its rewards (m, P, G) by the update."""
    s, task = crew.common, crew.task
    generators = _before(crew, members)
    span, size = task.count - len(crew.held), (s.probe_prompts, task.answer_length, s.group_size)
    ranks = torch.stack([torch.randint(span, size[:1], generator=g) for g in generators])
    uniforms = torch.stack([torch.rand(size, generator=g) for g in generators]).to(theta.device)
    problems = task.problems(skip_held_out(ranks, crew.held))
    prompts, answers = (part.to(theta.device) for part in problems)
    batch, after = (
        answered(where, crew.shape, task, prompts, answers, uniforms, s.temperature)
        for where in (theta, theta + update)
    )
    if s.kl_coef:
        base = crew.base.expand(len(theta), -1)
        reference = reference_chunks(base, crew.shape, batch, s.temperature)
        batch = replace(batch, reference=reference)
    return batch, after.rewards - batch.rewards


def _before(crew: Crew, members: slice) -> list[torch.Generator]:
    return _generators(crew, 0)[members]


def _rows(found: dict[str, Estimate], finite: list[bool]) -> list[dict[str, Any]]:
    """Return the estimates by column; what is not identified is left out, what broke is NaN."""
    values = {name: item.value.tolist() for name, item in found.items()}
    errors = {f"{name}_se": item.se.tolist() for name, item in found.items()}
    columns = {k: v for name in found for k, v in _pair(name, values, errors)}
    return [
        {
            name: float(f"{column[i]:.6g}")
            for name, column in columns.items()
            if not finite[i] or np.isfinite(column[i])
        }
        for i in range(len(finite))
    ]


def _pair(
    name: str, values: dict[str, list[float]], errors: dict[str, list[float]]
) -> list[tuple[str, list[float]]]:
    return [(name, values[name]), (f"{name}_se", errors[f"{name}_se"])]
