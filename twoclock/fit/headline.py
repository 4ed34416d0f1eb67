"""The headline exponent with its interval by name, and what the other methods say beside it.

The default is *jackknife-t*: runs deleted one at a time, t on N - 2 degrees of freedom. Where no
jackknife exists (one seed in every cell, or a run without which there is no exponent) the default
falls back to *profile-t* and says so; a method that was asked for by name never does. Bands,
differences and equivalence rest on the deletions whatever the method of the headline.

What the methods cover: data/studies/coverage.csv (``make coverage``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.fit.estimate import Estimates, Problem
from twoclock.fit.evidence import Evidence
from twoclock.fit.identify import IDENTIFIED
from twoclock.fit.intervals import jackknife
from twoclock.fit.methods import METHODS, MIN_DRAWS, lost_units, model_covariance_grown
from twoclock.fit.resample import SeedWeights
from twoclock.fit.settings import FitSettings
from twoclock.notes import Note
from twoclock.results import Exponent, MethodInterval

Floats = NDArray[np.float64]

DEFAULT, FALLBACK = "jackknife-t", "profile-t"


@dataclass(frozen=True, eq=False)
class Headline:
    """The exponent and what stands behind its intervals.

    Parameters
    ----------
    exponent : Exponent
        Estimate with intervals.
    covariance : ndarray, shape (p, p) or None
        Covariance of the coefficients over deletions (else the model's).
    df : float or None
        Degrees of freedom that go with it.
    draws : ndarray, shape (draws, p) or None
        Bootstrap coefficients, NaN where a draw has none; None under `MIN_DRAWS` usable ones.
    jackknife : DataFrame
        run_id, batch_size and the coefficients without that run.
    by_run, by_size : tuple
        Runs, and batch sizes, with the refits without each.
    notes : tuple of Note
        Remarks.
    """

    exponent: Exponent
    covariance: Floats | None
    df: float | None
    draws: Floats | None
    jackknife: pd.DataFrame
    by_run: tuple[list[object], Estimates]
    by_size: tuple[list[object], Estimates]
    notes: tuple[Note, ...]


def headline(
    problem: Problem,
    found: Estimates,
    rows: pd.DataFrame,
    weights: SeedWeights | None,
    settings: FitSettings,
) -> Headline:
    """Put intervals around a converged fit.

    Parameters
    ----------
    problem, found : Problem, Estimates
        The runs and their fit.
    rows : DataFrame
        Their rows of the events table, in the order of the problem.
    weights : SeedWeights or None
        Bootstrap weights; None for no bootstrap.
    settings : FitSettings
        Level, resampling, method.

    Returns
    -------
    Headline
        Exponent, covariance, draws and deletions.
    """
    evidence = Evidence(problem, found, rows, weights, settings)
    notes = [] if evidence.drawn is None else _lost_draws(evidence.drawn)
    if evidence.degenerate:
        point, covariance, more = _degenerate(evidence)
        df = point.df
    else:
        point, covariance, df, more = _by_name(evidence)
        notes += _few_draws(point)
    # comparisons make percentiles of the draws too, so too few of them are not handed on
    enough = evidence.drawn is not None and evidence.usable >= MIN_DRAWS
    draws = evidence.drawn.fit.beta if evidence.drawn is not None and enough else None
    frame = _deletions(problem, evidence.by_run[1])
    return Headline(
        point, covariance, df, draws, frame, evidence.by_run, evidence.by_size, tuple(notes + more)
    )


def _deletions(problem: Problem, deleted: Estimates) -> pd.DataFrame:
    columns = dict(zip(problem.law.parameter_names, deleted.fit.beta.T, strict=True))
    return pd.DataFrame({"run_id": problem.run_ids, "batch_size": problem.batch_size, **columns})


def _by_name(evidence: Evidence) -> tuple[Exponent, Floats | None, float | None, list[Note]]:
    """Return the headline by its method, with the covariance and df of the deletions."""
    settings = evidence.settings
    found = {name: method(evidence, settings.level) for name, method in METHODS.items()}
    chosen, notes = _chosen(evidence, found)
    covariance, df = _covariance(evidence, found)
    point = Exponent(
        evidence.value,
        chosen.se,
        chosen.lower,
        chosen.upper,
        settings.level,
        _method_name(evidence, chosen.method),
        _pair(found["percentile"]),
        _pair(found["profile-t"]),
        df=chosen.df,
        model_se=_information_se(evidence),
        methods=tuple(found.values()),
    )
    return point, covariance, df, notes


def _chosen(
    evidence: Evidence, found: dict[str, MethodInterval]
) -> tuple[MethodInterval, list[Note]]:
    chosen = found[evidence.settings.interval]
    if not chosen.why:
        return chosen, []
    if chosen.method != DEFAULT:
        message = f"no {chosen.method} interval: {chosen.why}; --interval {DEFAULT} is the default"
        return chosen, [Note("no_interval", message)]
    names, deleted, _ = evidence.deleted
    end = "the interval is the model-based one (profile-t: t-calibrated profile likelihood)"
    if evidence.problem.replicated() == 0:
        note = Note("no_replicates", f"{chosen.why}; {end}")
    else:
        lost = lost_units(evidence, names, deleted.ok)
        note = Note("rests_on_one_run", f"{chosen.why}; {end}", runs=lost)
    stand_in = found[FALLBACK]
    return stand_in, [note]


def _covariance(
    evidence: Evidence, found: dict[str, MethodInterval]
) -> tuple[Floats | None, float | None]:
    if not found[DEFAULT].why:
        _, deleted, df = evidence.deleted
        return jackknife(deleted.fit.beta, df).covariance, df
    grown = model_covariance_grown(evidence)
    return grown, None if grown is None else float(evidence.spare)


def _method_name(evidence: Evidence, method: str) -> str:
    """Return the name of the method, with what the deletions were."""
    if method != DEFAULT:
        return method
    if evidence.settings.resample == "seeds":
        return "jackknife-t over seed numbers"
    if evidence.problem.replicated() < len(np.unique(evidence.problem.batch_size)):
        return "jackknife-t, pooled over cells"
    return method


def _pair(item: MethodInterval) -> tuple[float, float] | None:
    return None if item.lower is None or item.upper is None else (item.lower, item.upper)


def _information_se(evidence: Evidence) -> float | None:
    column = evidence.problem.column
    at = evidence.information
    return None if at is None else float(np.sqrt(at[column, column]))


def _few_draws(point: Exponent) -> list[Note]:
    """Say that too few draws are usable; draws that were not asked for are no remark."""
    why = point.by("percentile").why
    if "usable" not in why:
        return []
    return [Note("few_draws", f"no percentile interval: {why}")]


def _lost_draws(drawn: Estimates) -> list[Note]:
    """Count the draws without an exponent; none is silently kept."""
    notes = []
    total = len(drawn.ok)
    sets = int((~drawn.ok & (drawn.classes.code != IDENTIFIED)).sum())
    if sets:
        message = (
            f"{sets} of {total} bootstrap draws give no single exponent (a line threads their "
            "intervals, or they separate by B); they enter the percentile interval by the ends of "
            "their set"
        )
        notes.append(Note("draws_not_identified", message, count=sets))
    failed = int((~drawn.ok).sum()) - sets
    if failed:
        message = (
            f"{failed} of {total} bootstrap draws have no maximum with this sigma; they are left "
            "out of the percentile interval"
        )
        notes.append(Note("draws_without_maximum", message, count=failed))
    return notes


def _degenerate(evidence: Evidence) -> tuple[Exponent, Floats | None, list[Note]]:
    """Return the headline of exact runs on a line: sigma is 0 and the likelihood infinite.

    Exact runs at two batch sizes pin the exponent, so the fit is converged. Its interval is the
    point itself only where every refit gives that point: all runs exact, every deletion and every
    draw with an exponent. Two runs, a batch size that rests on one run, or runs known by an
    interval that the line happens to cross give no interval: the data allow other lines, and an
    infinite likelihood weighs none of them.
    """
    problem, n, spare = evidence.problem, len(evidence.problem), evidence.spare
    kept, drawn = evidence.by_run[1].ok, evidence.drawn
    tail = METHODS["percentile"](evidence, evidence.settings.level)
    base = Exponent(
        evidence.value, None, None, None, evidence.settings.level, "degenerate", _pair(tail)
    )
    if spare <= 0:
        message = f"degenerate: {n} runs always lie on a line; no interval exists"
        return base, None, [Note("degenerate", message)]
    drawn_all = drawn is None or bool(drawn.ok.all())
    if drawn_all and bool(problem.data.exact.all() and kept.all()):
        message = (
            "degenerate: every run is exact and they lie on one line, all resamples are equal; a "
            "zero-width interval says nothing about new seeds"
        )
        end, p = base.estimate, n - spare
        point = replace(base, se=0.0, lower=end, upper=end, df=float(spare))
        return point, np.zeros((p, p)), [Note("degenerate", message)]
    exact = int(problem.data.exact.sum())
    others = f", which the other {n - exact} allow" if exact < n else ""
    lost = tuple(problem.run_ids[i] for i in np.flatnonzero(~kept))
    without = f"; without {' or '.join(lost)} the exponent is not pinned" if lost else ""
    message = (
        f"degenerate: the {exact} exact runs lie on one line{others}: sigma goes to 0, the "
        f"likelihood is infinite and no interval follows from it{without}: add seeds"
    )
    return base, None, [Note("degenerate", message, runs=lost)]
