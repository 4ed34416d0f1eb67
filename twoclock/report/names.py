"""Short names of strata and fits, the same in every table and in the terminal text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twoclock.notes import Note
from twoclock.results import ClockFit, FitRef, TwoClocks
from twoclock.words import stratum_details, stratum_labels, target_text


class Names:
    """Short names of the strata of a result, the same in all its tables.

    Parameters
    ----------
    result : TwoClocks
        The result.
    """

    def __init__(self, result: TwoClocks) -> None:
        strata = list(
            {str(sorted(fit.stratum.items())): fit.stratum for fit in result.fits}.values()
        )
        labels, self.common = stratum_labels(strata)
        self.details = stratum_details(strata)
        self._labels = dict(zip((str(sorted(s.items())) for s in strata), labels, strict=True))

    def stratum(self, stratum: Mapping[str, Any]) -> str:
        """Return the short name of a stratum, or all its columns when it is not among the fits."""
        return self._labels.get(_key(stratum)) or stratum_labels([stratum])[0][0]

    def columns(self, fit: ClockFit | FitRef) -> dict[str, str]:
        """Return the first columns of a row about one fit."""
        target = target_text(fit.targets[0]) if fit.targets else ""
        return {"Clock": fit.clock, "Target": target, "Runs with": self.stratum(fit.stratum)}

    def fit(self, fit: ClockFit | FitRef) -> str:
        """Return one short name of a fit: clock, target and stratum."""
        target = f" to {target_text(fit.targets[0])}" if fit.targets else ""
        return f"{fit.clock}{target}, {self.stratum(fit.stratum)}"


def fit_of(result: TwoClocks, ref: FitRef) -> ClockFit | None:
    """Return the fit that a comparison is about."""
    same = (fit for fit in result.fits if FitRef.of(fit) == ref)
    return next(same, None)


def all_notes(result: TwoClocks, names: Names) -> tuple[Note, ...]:
    """Return the warnings of the whole result, then those of single fits that it does not repeat.

    The latter say in `where` which fit they are about.
    """
    known = {(note.code, note.message) for note in result.notes}
    own = [
        replace(note, where=note.where or names.fit(fit))
        for fit in result.fits
        for note in fit.notes
        if (note.code, note.message) not in known
    ]
    return (*result.notes, *own)


def _key(stratum: Mapping[str, Any]) -> str:
    return str(sorted(stratum.items()))


def per_cent(level: float) -> str:
    """Return a confidence level for a header.

    Examples
    --------
    >>> per_cent(0.95), per_cent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:g} %"
