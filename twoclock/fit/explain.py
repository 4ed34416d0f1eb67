"""What the data say in words when they give no exponent: a bound, a set, or which runs to add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from twoclock.fit.bounds import current_status_bound, separation_bound
from twoclock.fit.cells import Selection
from twoclock.fit.estimate import Estimates, Problem
from twoclock.fit.identify import DOWN, IDENTIFIED, THREADED, UP
from twoclock.fit.intervals import Pair, profile_interval, profile_loglik, threshold
from twoclock.fit.settings import FitSettings
from twoclock.notes import Note
from twoclock.results import Bound, Exponent

_SHOWN = 6  # runs listed per batch size


@dataclass(frozen=True)
class Unidentified:
    """Why there is no exponent, and what there is instead.

    Parameters
    ----------
    status : {"bound", "not_identified", "failed"}
        Status of the fit.
    bound : Bound or None
        One-sided bound or set.
    notes : tuple of Note
        The reason, what each run shows and which runs to add.
    """

    status: str
    bound: Bound | None
    notes: tuple[Note, ...]


def explain(
    fit: tuple[Problem, Estimates] | None, chosen: Selection, settings: FitSettings
) -> Unidentified:
    """Say what data without an exponent show.

    Parameters
    ----------
    fit : (Problem, Estimates) or None
        The runs and the fit that has no maximum; None when no run is usable.
    chosen : Selection
        The events.
    settings : FitSettings
        The level of a bound.

    Returns
    -------
    Unidentified
        Status, bound and notes.
    """
    if fit is None:
        shown = [] if not len(chosen.events) else [what_runs_show(chosen.events)]
        note = Note(
            "no_usable_runs", "no run of this stratum can be fitted; add runs with an event"
        )
        return Unidentified("not_identified", None, (note, *shown))
    problem, found = fit
    code = int(found.classes.code[0])
    status, bound, notes = _by_code(problem, found, code, settings.level)
    return Unidentified(status, bound, (*notes, what_runs_show(chosen.used)))


def _by_code(
    problem: Problem, found: Estimates, code: int, level: float
) -> tuple[str, Bound | None, list[Note]]:
    if code == THREADED:
        return _set(problem, found, level)
    if code in (DOWN, UP):
        return _one_sided(problem, found, code, level)
    if code == IDENTIFIED and bool((problem.data.exact | problem.data.interval).any()):
        message = "a maximum exists but was not reached; please report these runs as a bug"
        return "failed", None, [Note("failed", message)]
    return "not_identified", None, [_nothing(problem)]


def unbounded(exponent: Exponent, chosen: Selection) -> Unidentified | None:
    """Return why a fit with a maximum still is no exponent: its profile likelihood has an open end.

    The likelihood of a converged exponent falls on both sides by the t-calibrated threshold. Where
    it falls on one side only (few runs, censored on one side each), that end is a bound, at the
    two-sided level; where on neither, nothing is identified.
    """
    if exponent.profile is None:
        return None
    lower, upper = exponent.profile
    if np.isfinite(lower) and np.isfinite(upper):
        return None
    start = f"the likelihood peaks at {exponent.estimate:+.3f} but hardly falls towards"
    if np.isfinite(upper):
        bound, ends = Bound("upper", upper, None, None, exponent.level), "smaller exponents"
    elif np.isfinite(lower):
        bound, ends = Bound("lower", lower, None, None, exponent.level), "larger exponents"
    else:
        bound, ends = None, "either side"
    message = f"{start} {ends}: add seeds whose event is seen between validations that are close"
    status = "not_identified" if bound is None else "bound"
    return Unidentified(
        status, bound, (Note("open_interval", message), what_runs_show(chosen.used))
    )


def what_runs_show(rows: pd.DataFrame) -> Note:
    """List what is known of every run, by batch size, in responses.

    Examples
    --------
    >>> rows = pd.DataFrame({"run_id": ["a", "b"], "batch_size": [64, 64], "lower": [0.0, 900.0],
    ...     "upper": [640.0, np.inf]})
    >>> what_runs_show(rows).message
    'the runs show, in responses: B=64: <= 640, > 900'
    """
    parts = []
    for size, cell in rows.groupby("batch_size", sort=True):
        words = [
            _word(float(a), float(b)) for a, b in zip(cell["lower"], cell["upper"], strict=True)
        ]
        counted = [f"{word} (x{n})" if (n := words.count(word)) > 1 else word for word in words]
        listed = list(dict.fromkeys(counted))
        more = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        parts.append(f"B={size}: {', '.join(listed[:_SHOWN])}{more}")
    names = tuple(str(run) for run in rows["run_id"])
    return Note("what_runs_show", f"the runs show, in responses: {'; '.join(parts)}", runs=names)


def _word(lower: float, upper: float) -> str:
    if lower == upper:
        return f"{lower:.6g}"
    if upper == np.inf:
        return f"> {lower:.6g}"
    return f"<= {upper:.6g}" if lower <= 0.0 else f"({lower:.6g}, {upper:.6g}]"


def _nothing(problem: Problem) -> Note:
    """Return the reason why nothing bounds the exponent, with the remedy."""
    data = problem.data
    sizes = np.unique(problem.batch_size)
    if len(sizes) == 1:
        message = (
            f"slope not estimable: one batch size (B={sizes[0]}); add two or more seeds at another "
            "one, a factor of 4 or more away"
        )
        return Note("one_batch_size", message)
    if bool(data.right.all()):
        least = float(np.exp(data.lower.min()))
        message = (
            f"no event observed; each >= {least:.6g} responses: train longer, at two batch sizes "
            "or more until the event"
        )
        return Note("no_event", message)
    if bool(data.left.all()):
        message = (
            "every crossing is at the first validation, so the runs only say how late it was seen: "
            "validate several times before it, or choose a higher target"
        )
        return Note("all_left_censored", message)
    message = (
        "the runs bound the exponent on neither side: add seeds whose event is seen at two batch "
        "sizes or more, between validations that are close"
    )
    return Note("not_identified", message)


def _set(problem: Problem, found: Estimates, level: float) -> tuple[str, Bound, list[Note]]:
    """One line threads every interval: the exponent is a set."""
    low, high = float(found.classes.low[0]), float(found.classes.high[0])
    noise = _with_noise(problem, low, high, level)
    beside = (
        ""
        if noise is None
        else (
            f"; allowing for seed noise, {level:.0%} t-calibrated profile [{noise[0]:+.2f}, "
            f"{noise[1]:+.2f}]"
        )
    )
    where = "inside" if low <= 0.0 <= high else "outside"
    message = (
        f"one line threads every interval, so sigma goes to 0 and every exponent in [{low:+.3f}, "
        f"{high:+.3f}] fits equally well (0 is {where}){beside}: "
        "validate more finely, or add seeds, to see how seeds vary"
    )
    bound = Bound("both", None, low, high, 1.0, noise, None if noise is None else level)
    return "bound", bound, [Note("exponent_is_a_set", message)]


def _with_noise(problem: Problem, low: float, high: float, level: float) -> Pair | None:
    """Return the profile interval around a set, None where sigma has no upper end."""
    n = len(problem)
    if n < 3 or bool(problem.data.exact.any()) or not bool(problem.data.interval.any()):
        return None
    drop = threshold(float(n), float(n - 2), level)
    data, column, error = problem.data, problem.column, problem.error
    peak = profile_loglik(data, column, 0.5 * (low + high), error=error)
    lower, _ = profile_interval(data, column, low, peak, drop, scale=0.1, error=error)
    _, upper = profile_interval(data, column, high, peak, drop, scale=0.1, error=error)
    return lower, upper


def _one_sided(
    problem: Problem, found: Estimates, code: int, level: float
) -> tuple[str, Bound | None, list[Note]]:
    """Events separate by B: the likelihood rises as alpha goes to one infinity."""
    side = "upper" if code == DOWN else "lower"
    word = "<=" if code == DOWN else ">="
    bounded = problem.data.exact | problem.data.interval
    value = (
        separation_bound(problem, code, level)
        if bounded.any()
        else current_status_bound(problem, found, code, level)
    )
    remedy = (
        "add runs, or train longer and validate earlier, until events are seen at two batch sizes "
        f"(none yet at {_silent(problem)})"
    )
    start = f"the runs separate by batch size: the likelihood rises as alpha goes to {_end(code)}"
    if value is None:
        message = f"{start}, and too few events tell sigma to bound it: {remedy}"
        return "not_identified", None, [Note("separated", message)]
    chi = separation_bound(problem, code, level, chi_square=True) if bounded.any() else None
    beside = (
        ""
        if chi is None
        else (
            f" (the chi-square profile would say {word} {chi:.3f}, which covers too little with "
            "few seeds)"
        )
    )
    message = f"{start}; alpha {word} {value:.3f} at {level:.0%}{beside}: {remedy}"
    return "bound", Bound(side, value, None, None, level), [Note("separated", message)]


def _end(code: int) -> str:
    return "minus infinity" if code == DOWN else "plus infinity"


def _silent(problem: Problem) -> str:
    known = problem.data.exact | problem.data.interval
    sizes = [
        int(b) for b in np.unique(problem.batch_size) if not known[problem.batch_size == b].any()
    ]
    return ", ".join(f"B={b}" for b in sizes)
