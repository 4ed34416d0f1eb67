"""One line per run: what was read and from where, for people and for `runs --json`."""

from __future__ import annotations

import pandas as pd

from twoclock.runs import Runs


def run_rows(found: Runs) -> pd.DataFrame:
    """Return the `runs` table with what its logs hold beside it.

    Parameters
    ----------
    found : Runs
        From `read_runs`.

    Returns
    -------
    DataFrame
        The columns of `schema.RUNS` and: rollouts (rows logged), responses (last count),
        validations, metric (of several, the first and how many more), reader (of each file behind
        the run, settings not among them); and probes, where any run has some.
    """
    table = found.runs.copy()
    steps, evals = found.steps.groupby("run_id"), found.evals.groupby("run_id")
    last = pd.concat([found.steps[["run_id", "responses"]], found.evals[["run_id", "responses"]]])
    table["rollouts"] = _by_run(table, steps.size())
    table["responses"] = _by_run(table, last.groupby("run_id")["responses"].max())
    table["validations"] = _by_run(table, evals.size())
    table["metric"] = table["run_id"].map(evals["metric"].first())
    table["metrics"] = _by_run(table, evals["metric"].nunique())
    table["reader"] = table["run_id"].map(_readers(found)).astype("string")
    if len(found.probes):
        table["probes"] = _by_run(table, found.probes.groupby("run_id").size())
    return table


def _readers(found: Runs) -> dict[str, str]:
    """Return the readers of each run's files, joined by a plus."""
    readers: dict[str, dict[str, None]] = {}
    for file in found.files:
        for run in file.run_ids if file.reader not in ("settings", "tables") else ():
            readers.setdefault(run, {})[file.reader] = None
    return {run: "+".join(names) for run, names in readers.items()}


def _by_run(table: pd.DataFrame, values: pd.Series[int]) -> pd.Series[int]:
    return table["run_id"].map(values).astype("Int64")
