"""The `probes` rows of one run: the trainer's diagnostics, as they were logged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from twoclock.notes import Note
from twoclock.runs.frames import MAX_STEP_ROWS, Work
from twoclock.runs.generated import Counts
from twoclock.runs.resuming import Ticks
from twoclock.sources.native import PROBE, PROBE_COLUMNS
from twoclock.sources.rows import Floats


def probes_frame(work: Work, ticks: Ticks, counts: Counts) -> pd.DataFrame:
    """Return the `probes` rows, one for each rollout with a probe; the value logged last counts.

    Parameters
    ----------
    work : Work
        The run.
    ticks : Ticks
        Its rows by rollout.
    counts : Counts
        Responses at each group.
    """
    values = work.log.rows.values
    logged = {name: values[PROBE + name] for name in PROBE_COLUMNS if PROBE + name in values}
    if not logged:
        return pd.DataFrame()
    seen = np.zeros(len(ticks.tick), dtype=bool)
    for column in logged.values():
        seen[ticks.groups_of(column)] = True
    rows = np.flatnonzero(seen)
    if len(rows) > MAX_STEP_ROWS:
        message = f"{len(rows)} probes thinned to about {MAX_STEP_ROWS}"
        work.notes.append(Note("probes_thinned", message, where=work.where))
        rows = rows[:: -(-len(rows) // MAX_STEP_ROWS)]
    data: dict[str, Floats] = {
        "rollout": counts.rollout[rows],
        "responses": np.round(counts.generated[rows]),
    }
    names = np.full(len(rows), None, dtype=object)
    for name, column in logged.items():
        value, times = ticks.spread(column)
        data[name] = np.where(np.isfinite(value[rows]), value[rows], np.nan)
        for at in np.flatnonzero((times[rows] > 0) & ~np.isfinite(value[rows])):
            names[at] = name if names[at] is None else f"{names[at]},{name}"
    frame: dict[str, Any] = {**data, "nonfinite": pd.array(names, dtype="string")}
    return pd.DataFrame(frame, copy=False)
