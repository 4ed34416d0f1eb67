"""Readers of run logs: one module a format, one line here to add it.

Each reader looks at a file's first bytes (`sniff`) and turns the file into `Log` objects (`read`).
Counting responses, choosing keys and resolving resumed steps happen after reading, in
`twoclock.runs`, in the same way for every format.
"""

from __future__ import annotations

from twoclock.sources.base import Head, Reader
from twoclock.sources.console import CONSOLE
from twoclock.sources.delimited import CSV
from twoclock.sources.json_rows import JSON_ARRAY, JSON_LINES
from twoclock.sources.json_tables import JSON_OBJECT
from twoclock.sources.mlflow_files import MLFLOW_FILES
from twoclock.sources.native import NATIVE
from twoclock.sources.parquet import PARQUET, TABLES_READER
from twoclock.sources.roll_state import ROLL_STATE
from twoclock.sources.swift import SWIFT
from twoclock.sources.tensorboard import TENSORBOARD
from twoclock.sources.tracker_db import DATABASE
from twoclock.sources.trl import TRL
from twoclock.sources.verl import VERL_FILE
from twoclock.sources.wandb_run import WANDB

READERS: tuple[Reader, ...] = (
    NATIVE,
    TABLES_READER,
    PARQUET,
    DATABASE,
    MLFLOW_FILES,
    WANDB,
    TENSORBOARD,
    SWIFT,
    ROLL_STATE,
    TRL,
    VERL_FILE,
    JSON_ARRAY,
    JSON_OBJECT,
    JSON_LINES,
    CONSOLE,
    CSV,
)
"""All readers; the first whose `sniff` says yes reads the file."""


def find_reader(head: Head) -> Reader | None:
    """Return the first reader that recognises the file, or None."""
    return next((reader for reader in READERS if reader.sniff(head)), None)
