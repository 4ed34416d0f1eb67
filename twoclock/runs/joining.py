"""One run in several logs: joined into one log before anything is counted.

Logs are joined only on evidence: a key that names the run, the two halves of one job, values that
agree at every common step, or steps that go on where another log of the same settings stops. Every
join is a remark, and what was overwritten by a later part is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from twoclock.notes import Note
from twoclock.runs.chains import in_chains, overlaid
from twoclock.runs.evidence import Token, agree, conflict, same_beginning, tokens
from twoclock.runs.marks import (
    chart_mark,
    half_mark,
    half_of,
    key_mark,
    other_seed,
    rank_mark,
    rank_of,
    series_mark,
    split_mark,
    stands_alone,
)
from twoclock.runs.named import NamedLog
from twoclock.runs.splits import complete_each_other, told_apart
from twoclock.runs.stacking import Placed, place, stack
from twoclock.sources.base import Log


class Joiner:
    """Joins the logs of one call.

    Parameters
    ----------
    notes : list of Note
        Remarks are added here.
    """

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes
        self._placed: dict[int, tuple[Log, Placed | None]] = {}

    def halves(self, items: list[NamedLog]) -> list[NamedLog]:
        """Join what belongs together by its names alone, before configurations are looked for."""
        items = self._by(items, half_mark, self._halves)
        for mark in (split_mark, chart_mark):
            items = self._by(items, mark, self._complementary)
        return self._by(items, rank_mark, self._first_rank)

    def parts(self, items: list[NamedLog]) -> list[NamedLog]:
        """Join the parts of resumed runs, and the sinks that one run was written to."""
        if len(items) < 2:  # and a long log costs no second order of its rows
            return items
        items = self._by(items, key_mark, self._chain)
        items = self._twins(items)
        return self._continued(items)

    def _by(
        self,
        items: list[NamedLog],
        mark: Callable[[NamedLog], object],
        join: Callable[[list[NamedLog]], list[NamedLog]],
    ) -> list[NamedLog]:
        """Join the logs that share a mark; the joined one stands where the first of them stood."""
        groups: dict[object, list[int]] = {}
        for index, item in enumerate(items):
            shared = None if stands_alone(item) else mark(item)
            if shared is not None:
                groups.setdefault(shared, []).append(index)
        out: dict[int, list[NamedLog]] = {index: [item] for index, item in enumerate(items)}
        for indices in groups.values():
            if len(indices) > 1:
                joined = join([items[index] for index in indices])
                for index in indices:
                    out[index] = []
                out[indices[0]] = joined
        return [item for index in sorted(out) for item in out[index]]

    def _place(self, item: NamedLog) -> Placed | None:
        known = self._placed.get(id(item.log))
        if known is None or known[0] is not item.log:
            known = self._placed[id(item.log)] = (item.log, place(item.log, item.options))
        return known[1]

    def _halves(self, group: list[NamedLog]) -> list[NamedLog]:
        """Join a trainer's log with its orchestrator's."""
        kinds = {half[1] for item in group if (half := half_of(item)) is not None}
        return self._pair(group) if len(kinds) == len(group) else group

    def _complementary(self, group: list[NamedLog]) -> list[NamedLog]:
        """Join logs of which none repeats what another says."""
        parts = [part for item in group if (part := self._place(item)) is not None]
        if complete_each_other(parts):
            return self._pair(group)
        apart = told_apart(group)
        return group if apart is None else self._pair(apart)

    def _pair(self, group: list[NamedLog]) -> list[NamedLog]:
        """Put logs that hold different things of one run side by side."""
        parts = [part for item in group if (part := self._place(item)) is not None]
        if len(parts) < len(group):
            return group
        order = sorted(range(len(group)), key=lambda i: (bool(parts[i].columns), -i))
        main = group[order[-1]]
        log = stack([(parts[i], np.ones(len(parts[i].at), dtype=bool), None) for i in order])
        half = half_of(main)
        log = replace(log, name=half[0] if half else log.name or main.name)
        names = ", ".join(str(item.log.path) for item in group)
        self._notes.append(Note("paired_logs", f"{names} are one run and are read as one"))
        return [replace(main, log=log).with_told(group)]

    def _first_rank(self, group: list[NamedLog]) -> list[NamedLog]:
        """Keep the first of the processes of one run; other numbers are ranks of an adapter."""
        group = sorted(group, key=_rank)
        first = group[0]
        if _rank(first) or any(conflict(first, item) for item in group):
            return group
        parts = [self._place(item) for item in group]
        same = all(p is not None and parts[0] is not None and agree(p, parts[0]) for p in parts)
        told = "agree with it" if same else "hold other values"
        message = (
            f"{len(group)} processes of one run log for themselves; {first.log.path} is read, "
            f"the others {told}"
        )
        self._notes.append(Note("rank_copies", message, where=str(group[1].log.path)))
        run = rank_of(first)
        return [replace(first, log=replace(first.log, name=run[0] if run else first.log.name))]

    def _chain(self, group: list[NamedLog]) -> list[NamedLog]:
        """Join the logs of one id: side by side, or in the order in which they were written."""
        parts = [(self._place(item), item) for item in group]
        known = [(part, item) for part, item in parts if part is not None]
        left = [item for part, item in parts if part is None]
        if len(known) < 2:
            return group
        if complete_each_other([part for part, _ in known]):  # processes that share the run
            return [*self._pair([item for _, item in known]), *left]
        return [*in_chains(known, self._notes), *left]

    def _twins(self, items: list[NamedLog]) -> list[NamedLog]:
        """Join the logs of different sinks, or copies, whose values agree at all common steps."""
        placed = {i: p for i, item in enumerate(items) if (p := self._twin(item)) is not None}
        found: dict[Token, list[int]] = {}
        for i, part in placed.items():
            for token in tokens(part):
                found.setdefault(token, []).append(i)
        pairs = sorted({
            (a, b) for same in found.values() if len(same) <= _CROWD
            for at, a in enumerate(same) for b in same[at + 1 :]
        })  # fmt: skip
        gone: dict[int, int] = {}
        for a, b in pairs:
            a, b = _top(gone, a), _top(gone, b)
            if a == b or not self._are_one(items[a], items[b], placed[a], placed[b]):
                continue
            main, other = (a, b) if _wealth(placed[a]) >= _wealth(placed[b]) else (b, a)
            items[main] = self._filled(items[main], placed[main], items[other], placed[other])
            again = self._place(items[main])
            if again is not None:
                placed[main] = again
            gone[other] = main
        return [item for i, item in enumerate(items) if i not in gone]

    def _twin(self, item: NamedLog) -> Placed | None:
        return None if stands_alone(item) else self._place(item)

    @staticmethod
    def _are_one(one: NamedLog, two: NamedLog, first: Placed, second: Placed) -> bool:
        if one.log.path == two.log.path:
            return False
        alike = same_beginning if one.log.reader == two.log.reader else agree
        return alike(first, second) and not conflict(one, two) and not other_seed(one, two)

    def _filled(self, item: NamedLog, main: Placed, twin: NamedLog, other: Placed) -> NamedLog:
        """Add to a log what another sink of the same run holds beside it."""
        self._notes.append(_told_twice(item, main, twin, other))
        missing = frozenset(set(other.log.rows.values) - set(main.log.rows.values))
        alone = ~np.isin(other.step, main.step)
        rows = [(other, ~alone, missing), (other, alone, None)]
        useful = [
            (p, taken, keys) for p, taken, keys in rows if taken.any() and keys != frozenset()
        ]
        whole = (main, np.ones(len(main.at), dtype=bool), None)
        log = stack([*useful, whole]) if useful else item.log
        config = {**twin.log.config, **log.config}
        facts = {**twin.log.facts, **log.facts}
        files = tuple(dict.fromkeys((*_files(item), *_files(twin))))
        log = replace(log, config=config, facts=facts, files=files, name=log.name or twin.log.name)
        return replace(item, log=log).with_told([twin])

    def _continued(self, items: list[NamedLog]) -> list[NamedLog]:
        """Join logs that begin in mid run to the one log that stops there."""
        groups: dict[object, list[int]] = {}
        for i, item in enumerate(items):
            if not stands_alone(item) and self._place(item) is not None:
                groups.setdefault(series_mark(item), []).append(i)
        gone: set[int] = set()
        for indices in groups.values():
            late = sorted(
                (i for i in indices if self._part(items[i]).first > self._part(items[i]).spacing),
                key=lambda i: self._part(items[i]).first,
            )
            for i in late:
                likely = (
                    j for j in indices if j != i and j not in gone
                    and self._goes_on(items[j], items[i])
                )  # fmt: skip
                before = list(islice(likely, 2))  # a second one is enough to say neither
                if len(before) == 1:
                    j = before[0]
                    joined = overlaid(
                        [(self._part(items[k]), items[k]) for k in (j, i)], self._notes
                    )
                    items[i] = replace(joined, file=items[j].file)
                    gone.add(j)
        return [item for i, item in enumerate(items) if i not in gone]

    def _part(self, item: NamedLog) -> Placed:
        placed = self._place(item)
        if placed is None:  # only logs that could be placed come here
            raise AssertionError(item.log.path)
        return placed

    def _goes_on(self, earlier: NamedLog, later: NamedLog) -> bool:
        one, two = self._part(earlier), self._part(later)
        reach = one.last + 1.5 * max(one.spacing, two.spacing)
        return (
            one.first < two.first <= reach and two.last > one.last and not conflict(earlier, later)
        )


_CROWD = 50
"""More logs with one value at one step say nothing about which belong together."""


def _told_twice(item: NamedLog, main: Placed, twin: NamedLog, other: Placed) -> Note:
    """Return the remark on a log that repeats another one."""
    code, told = "same_run_twice", "is the same run as"
    if item.log.reader == twin.log.reader:
        whole = len(main.at) == len(other.at)
        code = "duplicate_run" if whole else "earlier_checkpoint"
        told = "is a copy of" if whole else "is the same run, earlier, as"
    message = f"{twin.log.path} {told} {item.log.path}; counted once"
    return Note(code, message, where=str(twin.log.path))


def _rank(item: NamedLog) -> int:
    found = rank_of(item)
    return found[1] if found else 0


def _top(gone: dict[int, int], index: int) -> int:
    while index in gone:
        index = gone[index]
    return index


def _files(item: NamedLog) -> tuple[Path, ...]:
    return item.log.files or (item.log.path,)


def _wealth(part: Placed) -> tuple[int, int]:
    """Return how much a log holds: rows and keys; consoles after files."""
    plain = 0 if "console" in part.log.reader else 1
    return len(part.at) + len(part.log.rows.values), plain
