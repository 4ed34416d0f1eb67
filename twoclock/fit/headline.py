"""The headline exponent with its three intervals, and what they could not use.

- *jackknife-t* (the headline): runs deleted one at a time, t on N - 2 degrees of freedom. With
  ``resample='seeds'`` seed numbers are deleted, t on seeds - 1.
- *percentile* of the seed bootstrap; none from fewer than `MIN_DRAWS` usable draws.
- *profile* likelihood, t-calibrated (`twoclock.fit.intervals.threshold`); it is the headline, by
  the name ``model``, where there is no replication or a deletion leaves no point.

Coverage in per cent of the headline / percentile / profile at nominal 95, five sizes, 400
simulations (``tests/benchmarks/coverage.py``):

==============================================  ===========  ==========  =======
design                                          headline     percentile  profile
==============================================  ===========  ==========  =======
2, 3, 5 equal seeds                             95, 95, 95   71, 85, 87  95
3, 5 seeds, validated every max(B, 8192)        95, 96       85, 89      96
3, 5 seeds, sd ratio 4 over B                   95, 95       83, 85      93
3, 3, 3, 1, 1 seeds; 5, 1, 1, 1, 1 seeds        93, 96       64, 63      94, 96
one seed everywhere (model)                     95           none        95
3, 5 seeds, 35 % right-censored, ``auto``       96, 93       84, 85      92, 93
5 seeds, censored, sd ratio 4, one sigma        76           69          80
5 seeds, censored, sd ratio 4, ``auto``         92           85          92
==============================================  ===========  ==========  =======
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoclock.fit.checks import leave_out
from twoclock.fit.estimate import Estimates, Problem, estimate, model_covariance
from twoclock.fit.identify import IDENTIFIED
from twoclock.fit.intervals import (
    Jackknife,
    Pair,
    jackknife,
    percentile,
    profile_interval,
    threshold,
)
from twoclock.fit.resample import SeedWeights
from twoclock.fit.settings import FitSettings
from twoclock.notes import Note
from twoclock.results import Exponent, Influence

Floats = NDArray[np.float64]

MIN_DRAWS = 100
"""Usable bootstrap draws that a percentile interval needs: at 95 %, 2.5 beyond each end."""


@dataclass(frozen=True, eq=False)
class Headline:
    """The exponent and what stands behind its intervals.

    Parameters
    ----------
    exponent : Exponent
        Estimate with intervals.
    covariance : ndarray, shape (p, p) or None
        Covariance behind the headline interval.
    draws : ndarray, shape (draws, p) or None
        Bootstrap coefficients, NaN where a draw has none; None under `MIN_DRAWS` usable ones.
    jackknife : DataFrame
        run_id, batch_size and the coefficients without that run.
    by_run : tuple
        Runs and their deletions.
    notes : tuple of Note
        Remarks.
    """

    exponent: Exponent
    covariance: Floats | None
    draws: Floats | None
    jackknife: pd.DataFrame
    by_run: tuple[list[object], Estimates]
    notes: tuple[Note, ...]
    influence: tuple[Influence, ...] = ()


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
        Level, resampling.

    Returns
    -------
    Headline
        Exponent, covariance, draws and deletions.
    """
    c, level, n = problem.column, settings.level, len(problem)
    value = float(found.fit.beta[0, c])
    by_run = leave_out(problem, found, None)
    frame = _deletions(problem, by_run[1])
    drawn, notes = _bootstrap(problem, found, weights)
    shared = None
    if drawn is not None and problem.replicated() > 0:  # else every draw is the data themselves
        shared, few = _percentile(drawn, c, level)
        notes += few
    if np.isneginf(found.fit.log_sigma[0]):
        base = Exponent(value, None, None, None, level, "degenerate", shared)
        drawn_all = drawn is None or bool(drawn.ok.all())
        point, covariance, more = _degenerate(problem, base, by_run[1].ok, drawn_all=drawn_all)
    else:
        model = model_covariance(problem, found)
        profile = _profile(problem, found, model, level)
        model_se = None if model is None else float(np.sqrt(model[c, c]))
        base = Exponent(value, None, None, None, level, "model", shared, profile, model_se=model_se)
        delete = _delete_seeds(problem, found, rows, settings) or (by_run, float(n - 2))
        point, covariance, more = _choose(problem, base, model, delete, settings)
    # comparisons make percentiles of the draws too, so too few of them are not handed on
    draws = None if drawn is None or _usable(drawn) < MIN_DRAWS else drawn.fit.beta
    return Headline(point, covariance, draws, frame, by_run, tuple(notes + more))


def _deletions(problem: Problem, deleted: Estimates) -> pd.DataFrame:
    columns = dict(zip(problem.law.parameter_names, deleted.fit.beta.T, strict=True))
    return pd.DataFrame({"run_id": problem.run_ids, "batch_size": problem.batch_size, **columns})


def _bootstrap(
    problem: Problem, found: Estimates, weights: SeedWeights | None
) -> tuple[Estimates | None, list[Note]]:
    if weights is None:
        return None, []
    at = found.fit.natural(0, loglinear=problem.loglinear)
    start = at if np.isfinite(at).all() else None
    drawn = estimate(problem, weights.columns_for(problem.run_ids), start=start)
    return drawn, _lost_draws(drawn)


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


def _usable(drawn: Estimates) -> int:
    """Return how many draws have an exponent or a set of them."""
    return int((drawn.ok | (drawn.classes.code != IDENTIFIED)).sum())


def _percentile(drawn: Estimates, column: int, level: float) -> tuple[Pair | None, list[Note]]:
    """Return the percentile interval, or None with the reason where too few draws can enter it."""
    total, usable = len(drawn.ok), _usable(drawn)
    if usable >= MIN_DRAWS:
        return percentile(drawn.fit.beta[:, column], drawn.classes, level), []
    if total == 0:
        return None, []  # asked for
    message = (
        f"{usable} usable of {total} bootstrap draws are too few for a percentile interval: "
        f"needs {MIN_DRAWS}, better 10,000 (--draws)"
    )
    return None, [Note("few_draws", message)]


def _profile(problem: Problem, found: Estimates, model: Floats | None, level: float) -> Pair | None:
    n, p = len(problem), problem.data.design.shape[1]
    if n <= p:
        return None
    scale = 1.0 if model is None else 2.0 * float(np.sqrt(model[problem.column, problem.column]))
    return profile_interval(
        problem.data,
        problem.column,
        float(found.fit.beta[0, problem.column]),
        float(found.fit.loglik[0]),
        threshold(float(n), float(n - p), level),
        scale=scale,
        loglinear=problem.loglinear,
        error=problem.error,
    )


def _degenerate(
    problem: Problem, base: Exponent, kept: NDArray[np.bool_], *, drawn_all: bool
) -> tuple[Exponent, Floats | None, list[Note]]:
    """Return the headline of exact runs on a line: sigma is 0 and the likelihood infinite.

    Exact runs at two batch sizes pin the exponent, so the fit is converged. Its interval is the
    point itself only where every refit gives that point: all runs exact, every deletion (`kept`)
    and every draw with an exponent. Two runs, a batch size that rests on one run, or runs known by
    an interval that the line happens to cross give no interval: the data allow other lines, and an
    infinite likelihood weighs none of them.
    """
    n, p = len(problem), problem.data.design.shape[1]
    if n > p and drawn_all and bool(problem.data.exact.all() and kept.all()):
        message = (
            "degenerate: every run is exact and they lie on one line, all resamples are equal; a "
            "zero-width interval says nothing about new seeds"
        )
        end, df = base.estimate, float(n - p)
        point = replace(base, se=0.0, lower=end, upper=end, df=df)
        return point, np.zeros((p, p)), [Note("degenerate", message)]
    if n <= p:
        message = f"degenerate: {n} runs always lie on a line; no interval exists"
        return base, None, [Note("degenerate", message)]
    exact = int(problem.data.exact.sum())
    others = f", which the other {n - exact} allow" if exact < n else ""
    lost = tuple(problem.run_ids[i] for i in np.flatnonzero(~kept))
    without = f"; without {' or '.join(lost)} the exponent is not pinned" if lost else ""
    message = (
        f"degenerate: the {exact} exact runs lie on one line{others}: sigma goes to 0, the "
        f"likelihood is infinite and no interval follows from it{without}: add seeds"
    )
    return base, None, [Note("degenerate", message, runs=lost)]


def _delete_seeds(
    problem: Problem, found: Estimates, rows: pd.DataFrame, settings: FitSettings
) -> tuple[tuple[list[object], Estimates], float] | None:
    """Return deletions of whole seed numbers for crossed designs; None for runs."""
    if settings.resample != "seeds" or rows["seed"].isna().any():
        return None
    deleted = leave_out(problem, found, rows["seed"].to_numpy(dtype=np.int64))
    return deleted, float(len(deleted[0]) - 1)


def _choose(
    problem: Problem,
    base: Exponent,
    model: Floats | None,
    delete: tuple[tuple[list[object], Estimates], float],
    settings: FitSettings,
) -> tuple[Exponent, Floats | None, list[Note]]:
    """Return the headline: jackknife-t where it exists, else the model-based interval by name."""
    (names, deleted), df = delete
    n, p = len(problem), problem.data.design.shape[1]
    if problem.replicated() == 0 or not deleted.ok.all() or df <= 0.0:
        grown = None if model is None or n <= p else model * n / (n - p)
        ends = base.profile if base.profile is not None else (None, None)
        se = None if grown is None else float(np.sqrt(grown[problem.column, problem.column]))
        point = replace(base, se=se, lower=ends[0], upper=ends[1], df=float(max(n - p, 0)) or None)
        return point, grown, [_model_note(problem, names, deleted)]
    made: Jackknife = jackknife(deleted.fit.beta, df)
    se, (lower, upper) = made.interval(base.estimate, problem.column, settings.level)
    method = "jackknife-t"
    if settings.resample == "seeds":
        method = "jackknife-t over seed numbers"
    elif problem.replicated() < len(np.unique(problem.batch_size)):
        method = "jackknife-t, pooled over cells"
    point = replace(base, se=se, lower=lower, upper=upper, method=method, df=df)
    return point, made.covariance, []


def _model_note(problem: Problem, names: list[object], deleted: Estimates) -> Note:
    if problem.replicated() == 0:
        message = (
            "one seed in every cell: no seed interval exists; the interval is the model-based one "
            "(t-calibrated profile likelihood)"
        )
        return Note("no_replicates", message)
    lost = tuple(
        problem.run_ids[int(str(names[i]))] if len(names) == len(problem) else f"seed {names[i]}"
        for i in np.flatnonzero(~deleted.ok)
    )
    message = (
        f"without {', '.join(lost)} the exponent is not identified, so the jackknife does not "
        "exist; the interval is the model-based one (t-calibrated profile likelihood)"
    )
    return Note("rests_on_one_run", message, runs=lost)
