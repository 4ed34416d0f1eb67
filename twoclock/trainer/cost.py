"""How long training takes on this machine: a few rollouts timed, and a straight line through them.

A rollout of a crew takes ``fixed + each * responses`` seconds: `fixed` is the overhead of the
operations, the same for one member and for many; `each` is the arithmetic of one more response.
Both are measured for every kind of run (equal in all but batch size, seed, rate and length), in
processor seconds, which other work on the machine hardly changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from twoclock.trainer.base import train_base
from twoclock.trainer.crew import Crew
from twoclock.trainer.loop import numerics
from twoclock.trainer.settings import TrainSettings

BUDGET = 2.0
"""Seconds that all measurements of a plan take, about."""

SMALL, LARGE = 64, 512
"""Responses of the two rollouts that are timed; a plan's sizes that come nearest are taken."""

PROBE_WORK = 16
"""Arithmetic of a probe for each held-out response, in units of sampling one: two rollouts, the
training gradient, and gradient and Hessian product of the expected reward."""

_NOT_KIND = ("seed", "base_lr", "responses", "batch_size", "variant", "gamma", "reference_batch")


@dataclass(frozen=True)
class Cost:
    """Seconds that one kind of run takes on one core.

    Parameters
    ----------
    fixed, each : float
        Seconds of a rollout with its updates: ``fixed + each * responses``.
    validation : float
        Seconds of a validation, for each member.
    """

    fixed: float
    each: float
    validation: float

    def seconds(self, members: Sequence[TrainSettings], done: int = 0) -> float:
        """Return the seconds that a crew takes from rollout `done` to its members' ends.

        Examples
        --------
        >>> few = {"seed": 0, "batch_size": 64, "base_lr": 1.0, "eval_every": 128}
        >>> crew = [TrainSettings(responses=n, **few) for n in (128, 256)]
        >>> Cost(fixed=1.0, each=0.0, validation=0.0).seconds(crew)
        4.0
        >>> Cost(fixed=0.0, each=0.0, validation=1.0).seconds(crew)
        5.0
        >>> probed = [TrainSettings(responses=256, probe_every=128, probe_twins=3, **few)]
        >>> Cost(fixed=1.0, each=0.0, validation=0.0).seconds(probed)  # 4 rollouts, 2 times 3 twins
        10.0
        """
        rollouts = [max(0, m.rollouts - done) for m in members]
        first = members[0]
        validations = sum(n // first.eval_rollouts + (done == 0) for n in rollouts)
        return (
            self.fixed * max(rollouts)
            + self.each * first.batch_size * sum(rollouts)
            + self.validation * validations
            + self._probes(members, done)
        )

    def _probes(self, members: Sequence[TrainSettings], done: int) -> float:
        """Return the seconds of the probes: twins are rollouts, held-out responses cost more."""
        first = members[0]
        every = first.probe_rollouts
        if not every:
            return 0.0
        each = [max(0, m.rollouts // every - done // every) for m in members]
        work = PROBE_WORK / (1 + 3 * first.epochs)  # a rollout: sampling, and a gradient an epoch
        held_out = work * first.probe_prompts * first.group_size
        one = self.each * (first.probe_twins * first.batch_size + held_out)
        return self.fixed * first.probe_twins * max(each) + one * sum(each)


def kind(settings: TrainSettings) -> tuple[tuple[str, Any], ...]:
    """Return the settings that decide a run's cost, apart from its batch size and length."""
    return tuple((k, v) for k, v in asdict(settings).items() if k not in _NOT_KIND)


@numerics()
def measure(members: Sequence[TrainSettings]) -> dict[tuple[tuple[str, Any], ...], Cost]:
    """Time a few rollouts of every kind among `members`; needs no base policy.

    Where the time is up, the remaining kinds are taken to cost what the last one did.
    """
    kinds: dict[tuple[tuple[str, Any], ...], list[TrainSettings]] = {}
    for member in members:
        kinds.setdefault(kind(member), []).append(member)
    costs: dict[tuple[tuple[str, Any], ...], Cost] = {}
    start, cost = time.thread_time(), None
    for name, group in kinds.items():
        if cost is None or time.thread_time() - start < BUDGET:
            cost = _measure(group)
        costs[name] = cost
    return costs


def _measure(group: Sequence[TrainSettings]) -> Cost:
    """Time two rollouts of one kind of run and a validation."""
    sizes = sorted({m.batch_size for m in group})
    whole = group[0].group_size * group[0].minibatches
    small = max(whole, SMALL // whole * whole)
    large = max(2 * small, min(LARGE, sizes[-1]) // whole * whole)
    first = replace(group[0], base_steps=0)
    base = train_base(first)
    crews = [Crew([replace(first, batch_size=size)], base) for size in (small, large)]
    crews[0].advance()  # the first call of anything is slow
    low, high = (_best(crew.advance) for crew in crews)
    each = max(high - low, 0.1 * high) / (large - small)
    validation = _best(crews[0].validate)
    return Cost(max(0.0, low - each * small), each, validation)


def _best(work: Any) -> float:
    """Return the shortest time of three calls: what disturbs only adds."""
    times = []
    for _ in range(3):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def base_seconds(settings: TrainSettings) -> float:
    """Return the seconds that training the base policy of `settings` takes, from a few steps."""
    few = 5
    short = replace(settings, base_steps=few)
    train_base(replace(settings, base_steps=1))
    start = time.thread_time()
    train_base(short)
    return (time.thread_time() - start) / few * settings.base_steps


def makespan(parts: Sequence[float], jobs: int) -> float:
    """Return when the last of `parts` ends if `jobs` processes take them in this order, seconds.

    Examples
    --------
    >>> makespan([3.0, 2.0, 2.0], 2)
    4.0
    """
    free = [0.0] * jobs
    for part in parts:
        free.sort()
        free[0] += part
    return max(free)
