"""The tables as data: every column once, with its type, unit and meaning.

Readers, the writer, checks at the door, the JSON Schema of the log format and the documentation all
take their column names from here. A missing value always means "not logged", never "not reached".
This package does not read files and does not import torch, matplotlib or any other twoclock module
but `errors`.
"""

from twoclock.schema.columns import Column, Kind, Table
from twoclock.schema.frames import check_columns, conform, empty
from twoclock.schema.probes import PROBES
from twoclock.schema.tables import (
    CENSORING,
    CLIP_ACTIVE,
    CLOCKS,
    ENDED,
    EVALS,
    EVENTS,
    LOG_FORMAT,
    PROVENANCE,
    RUNS,
    STEPS,
    STRATUM_COLUMNS,
)

__all__ = [
    "CENSORING",
    "CLIP_ACTIVE",
    "CLOCKS",
    "ENDED",
    "EVALS",
    "EVENTS",
    "LOG_FORMAT",
    "PROBES",
    "PROVENANCE",
    "RUNS",
    "STEPS",
    "STRATUM_COLUMNS",
    "TABLES",
    "Column",
    "Kind",
    "Table",
    "check_columns",
    "conform",
    "empty",
]

TABLES = (RUNS, STEPS, EVALS, PROBES, EVENTS)
"""All tables."""
