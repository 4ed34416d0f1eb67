"""Read run logs of any known format into the tables of `twoclock.schema`.

`read` is the door; `finding` finds files, `twoclock.sources` reads them, `counting` turns what they
say into tables with the help of `facts` (who says what), `steps` and `resuming` (the order of
rows), `generated` (responses), `validation` (which key is the accuracy) and `frames`;
`copies` counts the same run once, `tables` holds the result.
"""

from __future__ import annotations

from twoclock.runs.read import read_events, read_runs
from twoclock.runs.tables import Runs
from twoclock.sources.base import ReadFile

__all__ = ["ReadFile", "Runs", "read_events", "read_runs"]
