"""What a sweep will do before it does it: which runs are there, crews for the others, their time.

Runs that are equal in all but seed, base learning rate and length train together as a crew. Crews
have a largest size, which bounds memory, and are cut smaller where processes would stay idle. How
runs are put together changes the time only, never a run's metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from twoclock.errors import TrainingError
from twoclock.runlog import read_header
from twoclock.trainer import checkpoint
from twoclock.trainer.cost import Cost, base_seconds, kind, makespan, measure
from twoclock.trainer.loop import is_finished
from twoclock.trainer.records import settings_changes
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.study import Study

CREW_SIZE = 16
"""Most members of a crew: larger ones gain little speed, and memory grows with them."""

MIN_CREW = 4
"""Crews are not cut smaller than this to keep processes busy: the overhead is shared no more."""


@dataclass(frozen=True)
class PlannedCrew:
    """Runs that will train together.

    Parameters
    ----------
    members : tuple of TrainSettings
        Unfinished runs, the longest first.
    done : int
        Rollouts that they have behind them.
    seconds : float
        Estimate of the time on one core.
    """

    members: tuple[TrainSettings, ...]
    done: int
    seconds: float

    @property
    def responses(self) -> int:
        """Responses still to generate."""
        return sum((m.rollouts - self.done) * m.batch_size for m in self.members)


@dataclass(frozen=True)
class Row:
    """One line of the table: the runs of a variant and batch size.

    Parameters
    ----------
    variant : str
        Its name; empty in a study without variants.
    batch_size, steps_per_rollout : int
        B and K.
    base_lrs : tuple of float
        Learning rates at the reference batch.
    seeds : tuple of int
        Seeds.
    responses : int
        Responses of all runs of the line together.
    finished, to_resume, new : int
        Runs in each state.
    seconds : float
        Estimate of what is left, on one core.
    """

    variant: str
    batch_size: int
    steps_per_rollout: int
    base_lrs: tuple[float, ...]
    seeds: tuple[int, ...]
    responses: int
    finished: int
    to_resume: int
    new: int
    seconds: float

    @property
    def runs(self) -> int:
        """Runs of the line."""
        return self.finished + self.to_resume + self.new


@dataclass(frozen=True)
class Plan:
    """What a sweep will do.

    Parameters
    ----------
    rows : tuple of Row
        The table.
    crews : tuple of PlannedCrew
        The work, the longest first.
    bases : tuple of TrainSettings
        A run of each base policy that has to be trained first.
    jobs : int
        Processes at work.
    seconds : float
        Estimate of the wall time on a machine that does nothing else.
    """

    rows: tuple[Row, ...]
    crews: tuple[PlannedCrew, ...]
    bases: tuple[TrainSettings, ...]
    jobs: int
    seconds: float


def make_plan(study: Study, out: Path, *, jobs: int, crew_size: int = CREW_SIZE) -> Plan:
    """Return what a sweep of `study` into `out` will do; trains nothing.

    Parameters
    ----------
    study : Study
        The runs.
    out : Path
        The sweep's folder, with the runs in ``out/runs``.
    jobs : int
        Processes that will train.
    crew_size : int
        Most members of a crew.

    Raises
    ------
    TrainingError
        A folder holds a run with other settings, or a damaged checkpoint.
    """
    members = study.members
    done = _done(members, out / "runs")
    pending = [m for m in members if done[m.run_id] is not None]
    costs = measure(pending)
    crews = _crews(pending, done, costs, jobs, crew_size)
    bases = _bases(pending, out / "bases")
    first = makespan([base_seconds(m) for m in bases], jobs)
    wall = first + makespan([crew.seconds for crew in crews], jobs)
    return Plan(tuple(_rows(members, done, crews)), tuple(crews), tuple(bases), jobs, wall)


def _done(members: Sequence[TrainSettings], runs: Path) -> dict[str, int | None]:
    """Return the rollouts that each run has behind it, None when it is finished."""
    _check_unchanged(members, runs)
    done: dict[str, int | None] = {}
    for member in members:
        if is_finished(member, runs):
            done[member.run_id] = None
        else:
            state = checkpoint.read(runs / member.run_id)
            done[member.run_id] = state["rollout"] if state else 0
    return done


def _check_unchanged(members: Sequence[TrainSettings], runs: Path) -> None:
    """Raise, before anything is trained, when runs in the folder were made with other settings."""
    changed: dict[str, list[Path]] = {}
    for member in members:
        folder = runs / member.run_id
        if folder.exists():
            changes = settings_changes(read_header(folder), member)
            if changes:
                changed.setdefault(changes, []).append(folder)
    if changed:
        changes, folders = max(changed.items(), key=lambda item: len(item[1]))
        count = sum(map(len, changed.values()))
        msg = (
            f"{folders[0]}: made with other settings: {changes}"
            f" ({count} of {len(members)} runs); restore them or choose another --out folder"
        )
        raise TrainingError(msg)


def _crews(
    pending: Sequence[TrainSettings],
    done: Mapping[str, int | None],
    costs: Mapping[Any, Cost],
    jobs: int,
    crew_size: int,
) -> list[PlannedCrew]:
    """Put runs together: by what they share and how far they are, alike in length, even in size."""
    groups: dict[Any, list[TrainSettings]] = {}
    for member in pending:
        key = (*member.common().items(), done[member.run_id])
        groups.setdefault(key, []).append(member)

    def planned(members: Sequence[TrainSettings]) -> PlannedCrew:
        at = done[members[0].run_id] or 0
        return PlannedCrew(tuple(members), at, costs[kind(members[0])].seconds(members, at))

    crews = []
    for group in groups.values():
        group.sort(key=lambda m: -m.rollouts)
        crews += [planned(part) for part in _even(group, -(-len(group) // crew_size))]
    crews.sort(key=lambda crew: -crew.seconds)
    while crews and _idle(crews, jobs) and len(crews[0].members) >= 2 * MIN_CREW:
        crews = [*map(planned, _even(crews[0].members, 2)), *crews[1:]]
        crews.sort(key=lambda crew: -crew.seconds)
    return crews


def _idle(crews: Sequence[PlannedCrew], jobs: int) -> bool:
    """Whether processes would wait for the longest crew for over a tenth of the time."""
    seconds = [crew.seconds for crew in crews]
    return makespan(seconds, jobs) > 1.1 * sum(seconds) / jobs


def _even(members: Sequence[TrainSettings], parts: int) -> list[Sequence[TrainSettings]]:
    """Cut into parts whose sizes differ by one at most."""
    cuts = [round(i * len(members) / parts) for i in range(parts + 1)]
    return [members[a:b] for a, b in pairwise(cuts)]


def _bases(pending: Sequence[TrainSettings], cache: Path) -> list[TrainSettings]:
    """Return a run of each base policy that is not there."""
    first = {member.base_key(): member for member in reversed(pending)}
    return [m for key, m in first.items() if not (cache / f"base-{key}.npz").exists()]


def _rows(
    members: Sequence[TrainSettings],
    done: Mapping[str, int | None],
    crews: Sequence[PlannedCrew],
) -> list[Row]:
    groups: dict[tuple[str, int, int], list[TrainSettings]] = {}
    for m in members:
        groups.setdefault(_line(m), []).append(m)
    rows = []
    for line, group in groups.items():
        states = [done[m.run_id] for m in group]
        rows.append(
            Row(
                *line,
                tuple(dict.fromkeys(m.base_lr for m in group)),
                tuple(dict.fromkeys(m.seed for m in group)),
                sum(m.rollouts * m.batch_size for m in group),
                finished=states.count(None),
                to_resume=sum(1 for n in states if n),
                new=states.count(0),
                seconds=sum(crew.seconds for crew in crews if _line(crew.members[0]) == line),
            )
        )
    return rows


def _line(member: TrainSettings) -> tuple[str, int, int]:
    return member.variant, member.batch_size, member.steps_per_rollout
