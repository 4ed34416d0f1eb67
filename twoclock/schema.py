"""The tables as data: every column once, with its type, unit and meaning.

Readers, the writer, checks at the door, the JSON Schema of the log format and the documentation all
take their column names from here. A missing value always means "not logged", never "not reached".
This module does not read files and does not import torch, matplotlib or any other twoclock module
but `errors`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from twoclock.errors import TableError

LOG_FORMAT = "twoclock-run/1"
"""Value of the key ``format`` in `run.json`."""

Kind = Literal["str", "int", "float", "bool"]

PROVENANCE = ("config", "log", "derived", "user")
"""Where a `runs` value came from, in the column ``NAME_from``."""

CLIP_ACTIVE = ("yes", "no", "unknown")
ENDED = ("completed", "stopped", "crashed", "unknown")
CENSORING = ("exact", "interval", "left", "right", "before_start")
CLOCKS = ("learning", "failure")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Snake-case name, the same in tables, JSON, options and documentation.
    kind : {"str", "int", "float", "bool"}
        Type of the values; ints are held as pandas ``Int64``, so that missing stays missing.
    unit : str
        Unit of the values (``"responses"``, ``"1"`` for pure numbers, ``""`` for text).
    meaning : str
        One sentence.
    required : bool
        Must be present and not missing in every row.
    choices : tuple of str
        Allowed values of a text column (empty: any).
    sourced : bool
        A column ``NAME_from`` beside it says where the value came from.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    required: bool = False
    choices: tuple[str, ...] = ()
    sourced: bool = False


@dataclass(frozen=True)
class Table:
    """A table: its key and columns.

    Parameters
    ----------
    name : str
        Name of the table.
    key : tuple of str
        Columns that identify a row.
    columns : tuple of Column
        All columns.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order (``NAME_from`` columns not among them)."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        """Return the column called `name`."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


RUNS = Table(
    "runs",
    ("run_id",),
    (
        Column("run_id", "str", "", "Unique name of the run, from its folder or file.", True),
        Column("framework", "str", "", "Framework that wrote the log (twoclock, trl, verl, ...)."),
        Column("source", "str", "", "Files that the run was read from, separated by '; '."),
        Column("model", "str", "", "Name of the base model."),
        Column("task", "str", "", "Name of the training task or data set."),
        Column("seed", "int", "1", "Seed of the run.", sourced=True),
        Column("prompts_per_rollout", "int", "prompts", "Prompts per rollout.", sourced=True),
        Column("group_size", "int", "responses/prompt", "Responses per prompt.", sourced=True),
        Column(
            "batch_size",
            "int",
            "responses",
            "Responses per rollout, B (never prompts).",
            sourced=True,
        ),
        Column("minibatches", "int", "1", "Minibatches per epoch over one rollout.", sourced=True),
        Column("epochs", "int", "1", "Passes over one rollout.", sourced=True),
        Column(
            "optimizer_steps_per_rollout", "int", "steps", "K = minibatches * epochs.", sourced=True
        ),
        Column("lr", "float", "1", "Peak learning rate of the run.", sourced=True),
        Column(
            "base_lr",
            "float",
            "1",
            "lr * (B/B0)**-gamma: the rate at the reference batch B0.",
            sourced=True,
        ),
        Column("lr_schedule", "str", "", "Name of the schedule after warm-up.", sourced=True),
        Column("warmup_responses", "float", "responses", "Length of the lr warm-up.", sourced=True),
        Column(
            "clip_low", "float", "1", "Lower clip epsilon; inf when there is none.", sourced=True
        ),
        Column(
            "clip_high", "float", "1", "Upper clip epsilon; inf when there is none.", sourced=True
        ),
        Column(
            "clip_dual",
            "float",
            "1",
            "Dual-clip or ratio-truncation bound; inf when there is none.",
            sourced=True,
        ),
        Column(
            "clip_active",
            "str",
            "",
            "Can clipping act in this run?",
            choices=CLIP_ACTIVE,
            sourced=True,
        ),
        Column(
            "kl_coef", "float", "1", "Coefficient of the KL penalty to the reference.", sourced=True
        ),
        Column(
            "grad_clip", "float", "1", "Gradient-norm clip; inf when there is none.", sourced=True
        ),
        Column("optimizer", "str", "", "Name and settings of the optimizer.", sourced=True),
        Column("n_params", "int", "parameters", "Trained parameters.", sourced=True),
        Column(
            "eval_size",
            "int",
            "responses",
            "Problems times samples in one validation.",
            sourced=True,
        ),
        Column("ended", "str", "", "How the run ended.", choices=ENDED),
    ),
)

STEPS = Table(
    "steps",
    ("run_id", "rollout"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("rollout", "int", "rollouts", "Rollouts finished, 1-based.", True),
        Column("optimizer_step", "int", "steps", "Optimizer steps finished."),
        Column("responses", "int", "responses", "Cumulative responses generated.", True),
        Column("responses_trained", "int", "responses", "Cumulative responses trained on."),
        Column("tokens", "float", "tokens", "Cumulative response tokens generated."),
        Column("flops", "float", "FLOPs", "Cumulative training and sampling FLOPs."),
        Column("seconds", "float", "s", "Wall time since the start."),
        Column("rollout_seconds", "float", "s", "Sampling time of this rollout."),
        Column("update_seconds", "float", "s", "Update time of this rollout."),
        Column("reward", "float", "1", "Mean reward of this rollout."),
        Column("clip_fraction", "float", "1", "Share of tokens where the clip acts."),
        Column("kl_ref", "float", "nats/token", "KL to the reference policy."),
        Column("kl_old", "float", "nats/token", "KL to the sampling policy."),
        Column("entropy", "float", "nats/token", "Mean token entropy."),
        Column("grad_norm", "float", "1", "Gradient norm before clipping."),
        Column("ratio_mean", "float", "1", "Mean importance ratio."),
        Column("ratio_max", "float", "1", "Largest importance ratio."),
        Column("response_tokens", "float", "tokens/response", "Mean response length."),
        Column("loss", "float", "1", "Policy loss."),
        Column("lr", "float", "1", "Learning rate at the end of the row."),
        Column(
            "nonfinite",
            "str",
            "",
            "Names of the columns that were logged as NaN, inf or null in this row, joined by ','.",
        ),
    ),
)

EVALS = Table(
    "evals",
    ("run_id", "responses", "metric"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("responses", "int", "responses", "Responses generated before the validation.", True),
        Column("rollout", "int", "rollouts", "Rollouts finished before the validation."),
        Column("accuracy", "float", "1", "Validation accuracy 0..1 (or a score, see scale)."),
        Column("n", "int", "responses", "Problems times samples behind the value."),
        Column("metric", "str", "", "The source's key."),
        Column("scale", "str", "", "accuracy (0..1) or score.", choices=("accuracy", "score")),
        Column("eval_seconds", "float", "s", "Wall time of the validation."),
    ),
)

EVENTS = Table(
    "events",
    ("run_id", "clock", "target"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("clock", "str", "", "Which clock.", True, CLOCKS),
        Column("target", "float", "1", "Target accuracy; missing for failures."),
        Column("batch_size", "int", "responses", "Responses per rollout, B.", True),
        Column("seed", "int", "1", "Seed of the run."),
        Column("lower", "float", "responses", "The event is after this; 0 for left-censored."),
        Column(
            "upper", "float", "responses", "The event is not after this; inf if right-censored."
        ),
        Column("censoring", "str", "", "How the event is known.", True, CENSORING),
        Column("reason", "str", "", "Rule that decided."),
        Column("flags", "str", "", "Named remarks, joined by ','."),
        Column("clip_active", "str", "", "Can clipping act in this run?", choices=CLIP_ACTIVE),
    ),
)

TABLES = (RUNS, STEPS, EVALS, EVENTS)

STRATUM_COLUMNS = (
    "framework", "model", "task", "base_lr", "optimizer_steps_per_rollout", "group_size",
    "clip_low", "clip_high", "clip_dual", "kl_coef", "optimizer", "lr_schedule", "warmup_responses",
)  # fmt: skip
"""Runs equal in all of these (missing equals missing) make one stratum."""

_DTYPES: dict[str, Any] = {"str": "string", "int": "Int64", "float": "float64", "bool": "boolean"}


def empty(table: Table) -> pd.DataFrame:
    """Return a frame with the table's columns and no rows.

    Examples
    --------
    >>> list(empty(EVALS).columns)[:3]
    ['run_id', 'responses', 'rollout']
    """
    return pd.DataFrame({c.name: pd.Series(dtype=_DTYPES[c.kind]) for c in table.columns})


def conform(frame: pd.DataFrame, table: Table, *, where: str = "") -> pd.DataFrame:
    """Return `frame` with the table's columns in order and in their types; others follow.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame; columns of `table` that it lacks are added as missing.
    table : Table
        The table to conform to.
    where : str
        Named in errors.

    Raises
    ------
    TableError
        A required column is missing or empty, a value has the wrong type or is not a choice.

    Examples
    --------
    >>> import pandas as pd
    >>> out = conform(pd.DataFrame({"run_id": ["a"], "batch_size": [64.0]}), RUNS)
    >>> int(out.batch_size[0]), str(out.batch_size.dtype)
    (64, 'Int64')
    """
    place = f"{where}: " if where else ""
    columns: dict[str, pd.Series[Any]] = {}
    for column in table.columns:
        if column.name in frame.columns:
            columns[column.name] = _typed(frame[column.name], column, f"{place}{table.name}")
        else:
            absent = [np.nan if column.kind == "float" else pd.NA] * len(frame)
            columns[column.name] = pd.Series(absent, index=frame.index, dtype=_DTYPES[column.kind])
        _check_values(columns[column.name], column, f"{place}{table.name}")
    extra = {name: frame[name] for name in frame.columns if name not in columns}
    return pd.DataFrame({**columns, **extra}, index=frame.index)


def _typed(values: pd.Series[Any], column: Column, place: str) -> pd.Series[Any]:
    try:
        if column.kind == "str":
            return values.astype("string")
        numbers = pd.to_numeric(values, errors="raise")
        if column.kind == "int":
            return numbers.astype("Float64").round(9).astype("Int64")
        if column.kind == "float":
            return numbers.astype("Float64").astype("float64")
        return values.astype("boolean")
    except (TypeError, ValueError) as err:
        msg = f"{place}: column {column.name!r} must be {column.kind} ({column.unit}): {err}"
        raise TableError(msg) from err


def _check_values(values: pd.Series[Any], column: Column, place: str) -> None:
    if column.required and len(values) and bool(values.isna().any()):
        row = int(np.flatnonzero(values.isna())[0])
        msg = f"{place}: column {column.name!r} is missing in row {row}; it is required"
        raise TableError(msg)
    if column.choices:
        known = set(column.choices)
        bad = [v for v in values.dropna().unique() if v not in known]
        if bad:
            msg = f"{place}: {column.name} is {bad[0]!r}; allowed: {', '.join(column.choices)}"
            raise TableError(msg)


def check_columns(frame: pd.DataFrame, needed: Iterable[str], *, where: str) -> None:
    """Raise TableError naming the columns of `needed` that `frame` lacks.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(pd.DataFrame({"a": [1]}), ["a", "b"], where="events.csv")
    Traceback (most recent call last):
    ...
    twoclock.errors.TableError: events.csv: needs column 'b'; it has 'a'
    """
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        have = ", ".join(repr(str(c)) for c in frame.columns) or "none"
        plural = "s" if len(missing) > 1 else ""
        names = ", ".join(repr(name) for name in missing)
        msg = f"{where}: needs column{plural} {names}; it has {have}"
        raise TableError(msg)
