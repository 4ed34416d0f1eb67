"""From the events of one stratum to its two fits: which runs feed each clock, and what else to try.

The learning clock takes every run. The failure clock takes only runs in which clipping cannot act,
judged on one common grid of validations; everything it leaves out is kept in the fit's `events`
with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from twoclock.events.failure import Failure
from twoclock.events.find import find_failures
from twoclock.events.grid import coarse_cells, common_grid
from twoclock.events.sensitivity import definition_sensitivity, fit_rows, sensitivity_note
from twoclock.fit import fit_clock, point_exponent
from twoclock.fit.resample import SeedWeights
from twoclock.laws import LAWS
from twoclock.notes import Note
from twoclock.results import ClockFit
from twoclock.settings import Settings
from twoclock.strata import Stratum

FAILURE_VARIANTS: dict[str, dict[str, Any]] = {
    "drop_0.05": {"drop_abs": 0.05},
    "drop_0.20": {"drop_abs": 0.20},
    "no_dip_limit": {"dip_limit": np.inf},
}
"""Other definitions of failure whose exponents stand beside the headline."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The three tables that events are found in.

    Parameters
    ----------
    runs, steps, evals : DataFrame
        Tables of `schema`; runs with base_lr filled.
    """

    runs: pd.DataFrame
    steps: pd.DataFrame
    evals: pd.DataFrame

    def take(self, run_ids: tuple[str, ...]) -> Tables:
        """Return the tables of some runs."""
        return Tables(*(t[t["run_id"].isin(run_ids)] for t in (self.runs, self.steps, self.evals)))


@dataclass(frozen=True, eq=False)
class Workbench:
    """What the fits of one stratum share: its draws, and the settings.

    Parameters
    ----------
    stratum : Stratum
        The stratum.
    settings : Settings
        Settings of the analysis.
    weights : SeedWeights
        Bootstrap draws over the union of its runs.
    rng : numpy.random.Generator
        For whatever else is random in a fit.
    floor : {"exclude", "warn"}
        What happens to floor-bound cells.
    """

    stratum: Stratum
    settings: Settings
    weights: SeedWeights
    rng: np.random.Generator
    floor: str = "exclude"

    def fit(self, events: pd.DataFrame, batch_sizes: tuple[int, ...] | None = None) -> ClockFit:
        """Fit one clock to `events`."""
        return fit_clock(
            events,
            LAWS[self.settings.law],
            settings=replace(self.settings.fit, floor=self.floor),
            weights=self.weights,
            rng=self.rng,
            stratum=self.stratum.values,
            batch_sizes=batch_sizes,
        )

    def point(self, events: pd.DataFrame, like: ClockFit) -> float | None:
        """Return the exponent alone, over the batch sizes of the headline `like`."""
        same = events[events["batch_size"].isin(like.batch_sizes)]
        return point_exponent(same, LAWS[self.settings.law], settings=self.settings.fit)


def learning_fit(
    bench: Workbench, events: pd.DataFrame, others: Mapping[str, pd.DataFrame]
) -> ClockFit:
    """Fit the learning clock of one stratum and target.

    Parameters
    ----------
    bench : Workbench
        The stratum's draws and settings.
    events : DataFrame
        Learning events of the stratum under the chosen crossing rule.
    others : mapping of str to DataFrame
        The same under the other crossing rules.

    Returns
    -------
    ClockFit
        With ``crossing_RULE`` exponents in its sensitivity, and a note ``crossing_sensitive``
        when they differ by more than a standard error.
    """
    fit = bench.fit(events)
    if fit.exponent is None:
        return fit
    found = {f"crossing_{rule}": bench.point(table, fit) for rule, table in others.items()}
    fit = replace(fit, sensitivity={**fit.sensitivity, **found})
    se = fit.exponent.se if fit.exponent is not None else None
    known = [value for value in found.values() if value is not None]
    if se and fit.exponent and any(abs(v - fit.exponent.estimate) > se for v in known):
        listed = ", ".join(f"{k} {v:.3f}" for k, v in found.items() if v is not None)
        text = f"the exponent depends on the crossing rule by more than a standard error: {listed}"
        fit = replace(fit, notes=(*fit.notes, Note("crossing_sensitive", text)))
    return fit


def failure_fit(bench: Workbench, tables: Tables, native: pd.DataFrame) -> ClockFit | None:
    """Fit the failure clock of one stratum.

    Parameters
    ----------
    bench : Workbench
        The stratum's draws and settings.
    tables : Tables
        Its runs, steps and validations.
    native : DataFrame
        Failure events of its runs on the validations as logged.

    Returns
    -------
    ClockFit or None
        None when clipping can act in every run. Runs that do not feed the fit stand in its
        `events` with the reason.
    """
    eligible = eligible_runs(native, include_clipped=bench.settings.include_clipped)
    if not eligible:
        return None
    mine = native[native["run_id"].isin(eligible)]
    coarse = coarse_cells(mine)
    kept = tuple(r for r in mine["run_id"] if not any(r in c.run_ids for c in coarse))
    why = {run: f"too coarse: {cell.reason}" for cell in coarse for run in cell.run_ids}
    why |= {run: "clipping can act, or may" for run in native["run_id"] if run not in eligible}
    notes = [
        Note("coarse_cell", f"B={c.batch_size} does not feed the failure exponent: {c.reason}",
             c.run_ids)
        for c in coarse
    ]  # fmt: skip
    judge = _Judge(tables.take(kept or eligible), native, why)
    events, left_out = judge.events(bench.settings.failure)
    fit = bench.fit(events)
    table = definition_sensitivity(
        judge.tables.runs, judge.tables.steps, judge.tables.evals, bench.settings.failure,
        grid=judge.spacing,
    )  # fmt: skip
    notes = [*notes, *left_out, *sensitivity_note(table)]
    variants = _variants(bench, judge, fit) if fit.exponent is not None else {}
    return replace(fit, sensitivity={**fit.sensitivity, **variants}, notes=(*notes, *fit.notes))


@dataclass(frozen=True, eq=False)
class _Judge:
    """Finds the failures of the runs that are compared, on their common grid.

    `why` gives, for every run of `native` that is not compared, the reason.
    """

    tables: Tables
    native: pd.DataFrame
    why: Mapping[str, str]

    @property
    def spacing(self) -> float | None:
        """W in responses; None when no run was validated (train rows alone then decide)."""
        validated = self.tables.evals["responses"] > 0
        if not bool(validated.any()):
            return None
        return common_grid(self.tables.runs, self.tables.evals)

    def events(self, rule: Failure) -> tuple[pd.DataFrame, tuple[Note, ...]]:
        """Return the events under `rule`, with `used` and `why_not`, and who was left out."""
        t = self.tables
        found = find_failures(t.runs, t.steps, t.evals, rule, grid=self.spacing).events
        fitted, notes = fit_rows(found, rule)
        used = found["run_id"].isin(fitted["run_id"]).to_numpy(dtype=bool)
        found = found.assign(used=used, why_not=np.where(used, "", "left out by the rule"))
        others = self.native[~self.native["run_id"].isin(found["run_id"])]
        if others.empty:
            return found, notes
        reasons = [self.why.get(str(run), "") for run in others["run_id"]]
        others = others.assign(used=False, why_not=reasons)
        return pd.concat([found, others], ignore_index=True), notes


def eligible_runs(events: pd.DataFrame, *, include_clipped: bool) -> tuple[str, ...]:
    """Return the runs that may feed the failure clock: those in which clipping cannot act.

    Examples
    --------
    >>> table = pd.DataFrame({"run_id": ["a", "b"], "clip_active": ["no", "unknown"]})
    >>> eligible_runs(table, include_clipped=False)
    ('a',)
    """
    if include_clipped or "clip_active" not in events.columns:
        return tuple(events["run_id"])
    return tuple(events.loc[(events["clip_active"] == "no").fillna(value=False), "run_id"])


def _variants(bench: Workbench, judge: _Judge, fit: ClockFit) -> dict[str, float | None]:
    """Return the failure exponent under other definitions, on the same grid and batch sizes."""
    rule = bench.settings.failure
    swapped: Literal["censor", "drop"] = "censor" if rule.never_learned == "drop" else "drop"
    rules = {name: replace(rule, **change) for name, change in FAILURE_VARIANTS.items()}
    rules[f"never_learned_{swapped}"] = replace(rule, never_learned=swapped)
    out = {}
    for name, other in rules.items():
        table, _ = judge.events(other)
        out[name] = bench.point(table[table["used"]], fit)
    same = judge.native["run_id"].isin(fit.used["run_id"])
    out["native_grid"] = bench.point(judge.native[same], fit)
    return out
