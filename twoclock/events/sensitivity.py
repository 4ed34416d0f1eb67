"""How much the failures hang on their definition, and which rows a failure fit leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from twoclock.events.failure import Failure
from twoclock.events.verdict import grid_of, judge, run_facts
from twoclock.notes import Note

DROPS = (0.05, 0.10, 0.20)
"""Absolute drops under which statuses are shown."""


def definition_sensitivity(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    evals: pd.DataFrame,
    rule: Failure | None = None,
    *,
    grid: float | Mapping[str, float] | None = None,
    metric: str | None = None,
) -> pd.DataFrame:
    """Return the status of every run under other definitions of failure.

    Parameters
    ----------
    runs, steps, evals, rule, grid, metric
        As for `find_failures`.

    Returns
    -------
    DataFrame
        run_id, batch_size, status (under `rule`), drop_0.05, drop_0.10, drop_0.20 (drop_abs
        replaced), no_dip_limit, and definition_sensitive: whether any of them changes whether the
        run failed.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "batch_size": [128]})
    >>> evals = pd.DataFrame({"run_id": "a", "responses": np.arange(10) * 1280,
    ...                       "accuracy": [.2, .5, .6, .61, .58, .55, .52, .50, .48, .47]})
    >>> steps = pd.DataFrame({"run_id": [], "responses": []})
    >>> definition_sensitivity(runs, steps, evals).iloc[0, 2:7].tolist()
    ['failed', 'failed', 'failed', 'healthy', 'failed']
    """
    rule = rule or Failure()
    found = run_facts(runs, steps, evals, metric=metric)
    rules = {"status": rule}
    rules |= {f"drop_{drop:.2f}": replace(rule, drop_abs=drop) for drop in DROPS}
    rules["no_dip_limit"] = replace(rule, dip_limit=np.inf)
    columns = {
        name: [judge(f.judged(grid_of(grid, run)), f, other).status for run, f in found.items()]
        for name, other in rules.items()
    }
    frame = pd.DataFrame({"run_id": list(found), **columns}).astype("string")
    frame.insert(1, "batch_size", runs["batch_size"].to_numpy())
    failed = frame[list(rules)] == "failed"
    frame["definition_sensitive"] = failed.nunique(axis=1).to_numpy() > 1
    return frame


def sensitivity_note(table: pd.DataFrame) -> tuple[Note, ...]:
    """Return the note that names the definition-sensitive runs; empty when there are none."""
    runs = tuple(str(run) for run in table.loc[table["definition_sensitive"], "run_id"])
    if not runs:
        return ()
    text = (
        f"{len(runs)} of {len(table)} runs fail or not depending on the drop (0.05, 0.10, 0.20) "
        "or the dip limit"
    )
    return (Note("definition_sensitive", text, runs),)


def fit_rows(events: pd.DataFrame, rule: Failure) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Return the failure events that the rule lets feed a fit, and notes naming the others.

    Left out: runs flagged ``never_learned`` under ``never_learned="drop"``, and runs flagged
    ``suspect`` under ``suspect="drop"``. Clipping, strata and coarse cells are not looked at.

    Examples
    --------
    >>> events = pd.DataFrame({"run_id": ["a", "b"], "flags": ["", "never_learned"]})
    >>> kept, notes = fit_rows(events, Failure())
    >>> kept.run_id.tolist(), notes[0].code, notes[0].runs
    (['a'], 'never_learned_left_out', ('b',))
    """
    flags = [set(str(text).split(",")) for text in events["flags"].fillna("")]
    out = np.zeros(len(events), dtype=bool)
    notes: list[Note] = []
    for flag, choice in (("never_learned", rule.never_learned), ("suspect", rule.suspect)):
        hit = np.array([flag in own for own in flags], dtype=bool) & ~out
        if choice == "drop" and hit.any():
            names = tuple(str(run) for run in events.loc[hit, "run_id"])
            option = flag.replace("_", "-")
            text = f"{len(names)} {option} runs do not feed the failure fit (--{option} censor)"
            notes.append(Note(f"{flag}_left_out", text, names))
            out |= hit
    return events[~out], tuple(notes)
