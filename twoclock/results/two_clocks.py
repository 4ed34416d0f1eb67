"""The result of a whole analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from twoclock.notes import Note, Refusal
from twoclock.results.clock_fit import ClockFit
from twoclock.results.comparisons import Difference, Equivalence, FitRef, SafeWindow
from twoclock.results.law_fit import LawFit


@dataclass(frozen=True, eq=False)
class TwoClocks:
    """Everything that `twoclock fit` found.

    Parameters
    ----------
    version : str
        twoclock's version.
    settings : dict
        Every setting of the analysis, plain values.
    runs : DataFrame
        The `runs` table of what was read (empty for an events table).
    steps, evals : DataFrame
        The `steps` and `evals` tables (for plots).
    events : DataFrame
        All events of both clocks on native grids, every run.
    marks : DataFrame
        Extra marks of the failure rule for plots (run_id, kind, responses, value).
    learning, failure : tuple of ClockFit
        One per stratum and target; one per stratum.
    equivalence : tuple of Equivalence
        Failure clocks, each tested for independence of B.
    differences : tuple of Difference
        Between strata and between the clocks of one stratum.
    rise : tuple of Difference
        Highest against lowest base_lr on one set of batch sizes.
    safe_windows : tuple of SafeWindow
        Within strata where both clocks have converged.
    published : DataFrame
        The published exponents shown beside ours.
    notes : tuple of Note
        All warnings, those of reading first.
    refused : tuple of Refusal
        What was not used.
    files : tuple of (str, str)
        Path and SHA-256 of every file read.
    n_read, n_used : int
        Runs read; runs in some fit.
    laws : tuple of LawFit
        Other laws on the same runs, where asked for.
    """

    version: str
    settings: Mapping[str, Any]
    runs: pd.DataFrame = field(repr=False)
    steps: pd.DataFrame = field(repr=False)
    evals: pd.DataFrame = field(repr=False)
    events: pd.DataFrame = field(repr=False)
    marks: pd.DataFrame = field(repr=False)
    learning: tuple[ClockFit, ...]
    failure: tuple[ClockFit, ...]
    equivalence: tuple[Equivalence, ...]
    differences: tuple[Difference, ...]
    rise: tuple[Difference, ...]
    safe_windows: tuple[SafeWindow, ...]
    published: pd.DataFrame
    notes: tuple[Note, ...]
    refused: tuple[Refusal, ...]
    files: tuple[tuple[str, str], ...]
    n_read: int
    n_used: int
    laws: tuple[LawFit, ...] = ()

    @property
    def fits(self) -> tuple[ClockFit, ...]:
        """All fits, learning first."""
        return self.learning + self.failure

    @property
    def thin(self) -> bool:
        """Whether a headline rests on one batch size, or on one run per batch size."""
        return any(
            len(fit.batch_sizes) < 2 or max((c.n_runs for c in fit.cells), default=0) < 2
            for fit in self.fits
        )

    def summary(self) -> pd.DataFrame:
        """Return one row per fit (see `ClockFit.row`)."""
        return pd.DataFrame([fit.row() for fit in self.fits])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON contract of DESIGN section 8."""
        return {
            "twoclock": self.version,
            "settings": dict(self.settings),
            "runs": {
                "read": self.n_read,
                "used": self.n_used,
                "refused": [item.to_dict() for item in self.refused],
            },
            "learning": [fit.to_dict() for fit in self.learning],
            "failure": [fit.to_dict() for fit in self.failure],
            "equivalence": [item.to_dict() for item in self.equivalence],
            "differences": [item.to_dict() for item in self.differences],
            "rise": [item.to_dict() for item in self.rise],
            "laws": [item.to_dict() for item in self.laws],
            "safe_windows": [item.to_dict() for item in self.safe_windows],
            "warnings": [
                *({**note.to_dict(), "fit": None} for note in self.notes),
                *(
                    {**note.to_dict(), "fit": FitRef.of(fit).to_dict()}
                    for fit in self.fits
                    for note in fit.notes
                ),
            ],
        }
