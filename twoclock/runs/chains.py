"""The parts of a resumed run, one after another: where they overlap the later one counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twoclock.notes import Note
from twoclock.runs.evidence import conflict
from twoclock.runs.named import NamedLog
from twoclock.runs.stacking import Placed, stack

Part = tuple[Placed, NamedLog]


def in_chains(parts: Sequence[Part], notes: list[Note]) -> list[NamedLog]:
    """Join the parts that share an id, in the order in which they were written.

    A part that begins anew with settings that contradict those before it is another run.
    """
    order = sorted(parts, key=lambda p: (_start(p[1]), p[0].first, str(p[1].log.path)))
    chains: list[list[Part]] = []
    for part in order:
        if not chains or _begins_anew(part, chains[-1]):
            chains.append([])
        chains[-1].append(part)
    if len(chains) > 1:
        where = str(chains[1][0][1].log.path)
        message = f"{len(chains)} runs have one id, with settings that contradict"
        notes.append(Note("same_key", message, where=where))
    return [overlaid(chain, notes) if len(chain) > 1 else chain[0][1] for chain in chains]


def overlaid(parts: Sequence[Part], notes: list[Note]) -> NamedLog:
    """Join the parts of one run, given in order; the later one wins, which is told."""
    ends = [
        min((later.first for later, _ in parts[i + 1 :]), default=np.inf) for i in range(len(parts))
    ]
    taken = [part.step < end for (part, _), end in zip(parts, ends, strict=True)]
    main = parts[-1][1]
    for (part, item), kept in zip(parts, taken, strict=True):
        lost = part.step[~kept]
        if len(lost):
            steps = f"steps {lost.min():g}-{lost.max():g}"
            message = f"{steps} overwritten by a later part of the run ({main.log.path})"
            notes.append(Note("resumed", message, where=str(item.log.path), count=len(lost)))
    log = stack([(p, k, None) for (p, _), k in zip(parts, taken, strict=True)])
    paths = ", ".join(str(item.log.path) for _, item in parts)
    notes.append(Note("joined", f"{paths} are parts of one run and are read as one"))
    log = replace(log, name=log.name or parts[0][1].log.name)
    return replace(main, log=log).with_told(item for _, item in parts)


def _begins_anew(part: Part, chain: Sequence[Part]) -> bool:
    placed, item = part
    return placed.first <= chain[0][0].first and any(conflict(item, other) for _, other in chain)


def _start(item: NamedLog) -> float:
    return item.log.started if item.log.started is not None else 0.0
