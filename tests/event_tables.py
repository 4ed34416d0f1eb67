"""Small tables of runs for tests of events, and how to look at the result."""

from __future__ import annotations

import numpy as np
import pandas as pd

from twoclock.events.find import EventTable

NO_STEPS = pd.DataFrame({"run_id": pd.Series(dtype="string"), "responses": []})
NO_EVALS = NO_STEPS.assign(accuracy=[])


def tables(accuracy, batch_size=64, *, every=10, n=None, reward=None, run_id="r", **run):
    """Return the three tables of one run validated every `every` rollouts from 0 on."""
    at = np.arange(len(accuracy)) * every * batch_size
    evals = pd.DataFrame({"run_id": run_id, "responses": at, "accuracy": accuracy, "n": n})
    steps = NO_STEPS
    if reward is not None:
        steps = pd.DataFrame({"run_id": run_id, "responses": at, "reward": reward})
    return pd.DataFrame({"run_id": [run_id], "batch_size": [batch_size], **run}), steps, evals


def train_rows(batch_size=64, **columns):
    """Return a `steps` table of one run with a row for every rollout."""
    rows = len(next(iter(columns.values())))
    return pd.DataFrame(
        {"run_id": "r", "responses": np.arange(1, rows + 1) * batch_size, **columns}
    )


def only(table: EventTable):
    """Return the single row of an event table."""
    assert len(table.events) == 1
    return table.events.iloc[0]


def flags(row) -> set[str]:
    """Return the flags of a row."""
    return set(row["flags"].split(","))


def codes(table: EventTable) -> set[str]:
    """Return the codes of the notes."""
    return {note.code for note in table.notes}
