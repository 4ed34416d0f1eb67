"""Which fits are compared with which: clocks within a stratum, strata that differ in one column.

The comparisons themselves are in `twoclock.compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from twoclock.compare import difference, safe_window
from twoclock.notes import Note
from twoclock.results import ClockFit, Difference, SafeWindow

Refit = Callable[[ClockFit, tuple[int, ...]], ClockFit]
"""Fits the same clock again on a set of batch sizes."""

MIN_SHARED = 3
"""Batch sizes that two exponents need in common before their difference is called a rise."""


def differences(
    learning: Sequence[ClockFit], failure: Sequence[ClockFit], *, level: float
) -> tuple[Difference, ...]:
    """Return the differences that mean something.

    Failure minus learning within a stratum; and within a clock (and target) between strata that
    differ in exactly one column. Pairs in which a fit has no exponent are left out.
    """
    pairs = [
        (a, b)
        for a, b in itertools.product(failure, learning)
        if dict(a.stratum) == dict(b.stratum)
    ]
    for clock in (learning, failure):
        pairs += [
            (b, a)
            for a, b in itertools.combinations(clock, 2)
            if a.targets == b.targets and len(_differing(a, b)) == 1
        ]
    return tuple(difference(a, b, level=level) for a, b in pairs if a.exponent and b.exponent)


def rises(
    learning: Sequence[ClockFit], refit: Refit, *, level: float
) -> tuple[tuple[Difference, ...], tuple[Note, ...]]:
    """Compare the exponent at the highest base_lr with that at the lowest, on one set of B.

    Only batch sizes that every base_lr has in its headline count, so that a floor-bound cell of
    one rate cannot make a rise. Within runs that are otherwise equal, per target.

    Parameters
    ----------
    learning : sequence of ClockFit
        Learning clocks of all strata.
    refit : callable
        Fits a clock again on the shared batch sizes.
    level : float
        Confidence level.

    Returns
    -------
    differences : tuple of Difference
        Highest minus lowest base_lr.
    notes : tuple of Note
        ``no_rise_test`` where fewer than three batch sizes are shared.
    """
    found: list[Difference] = []
    notes: list[Note] = []
    for family in _families(learning):
        shared = set(family[0].batch_sizes).intersection(*(f.batch_sizes for f in family[1:]))
        sizes = tuple(sorted(shared))
        if len(sizes) < MIN_SHARED:
            listed = ", ".join(f"{f.stratum['base_lr']:g}" for f in family)
            text = (
                f"the rise of the exponent with base_lr ({listed}) is not tested: the headlines "
                f"share {len(sizes)} batch sizes, {MIN_SHARED} are needed"
            )
            notes.append(Note("no_rise_test", text))
            continue
        low, high = refit(family[0], sizes), refit(family[-1], sizes)
        found.append(difference(high, low, level=level))
    return tuple(found), tuple(notes)


def windows(
    learning: Sequence[ClockFit], failure: Sequence[ClockFit], *, level: float
) -> tuple[SafeWindow, ...]:
    """Return the safe window of every stratum and target where both clocks have an exponent."""
    found = (safe_window(a, b, level=level) for a, b in itertools.product(learning, failure))
    return tuple(window for window in found if window is not None)


def _differing(a: ClockFit, b: ClockFit) -> list[str]:
    keys = dict.fromkeys((*a.stratum, *b.stratum))
    return [key for key in keys if a.stratum.get(key) != b.stratum.get(key)]


def _families(fits: Sequence[ClockFit]) -> list[list[ClockFit]]:
    """Return groups of converged fits that differ in base_lr alone, by rising base_lr."""
    groups: dict[Any, list[ClockFit]] = {}
    for fit in fits:
        if fit.exponent is None or "base_lr" not in fit.stratum:
            continue
        rest = sorted((k, repr(v)) for k, v in fit.stratum.items() if k != "base_lr")
        groups.setdefault((fit.targets, tuple(rest)), []).append(fit)
    ordered = [sorted(g, key=lambda f: float(f.stratum["base_lr"])) for g in groups.values()]
    return [group for group in ordered if len(group) > 1]
