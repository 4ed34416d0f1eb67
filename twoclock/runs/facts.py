"""What is known about one run, and from where: user before config before log before derived.

Works on names and values only; it reads no files.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from twoclock.errors import SourceError
from twoclock.frameworks.base import Fact, Facts
from twoclock.frameworks.patterns import matching
from twoclock.schema import RUNS
from twoclock.sources.base import Log
from twoclock.sources.columns import RUN_NUMBERS, RUN_TEXTS

TRL_FACTS = (
    "generation_batch_size", "per_device_train_batch_size", "gradient_accumulation_steps",
    "steps_per_generation", "num_iterations", "num_generations", "world_size",
)  # fmt: skip
"""Settings of a TRL trainer that count its responses; allowed in `runs.yaml`."""

NO_LIMIT = ("clip_low", "clip_high", "clip_dual", "grad_clip")
"""Columns where null means that there is no such limit."""

SCHEDULE = ("warmup_steps", "warmup_ratio", "total_steps")
"""The warm-up as a configuration says it: in steps of the schedule, or as a share of all steps."""

_WORDS = ("synchronous", "clocks", "counts_kept_only", "validates_first")
"""Facts about how a framework logs; yes or no, or the name of a clock."""

_COUNTS = (
    *TRL_FACTS, "steps_between_rewards", "gen_batch_responses", "minibatch_prompts",
    "minibatch_responses", "prompts_per_process", "eval_interval",
)  # fmt: skip
HELPERS = (*_COUNTS, *SCHEDULE, *_WORDS, "score_scale", "uneven_steps_per_rollout")
"""Facts that only help to count; they do not stand in the `runs` table."""

INTS = (
    *(c.name for c in RUNS.columns if c.kind == "int"),
    *_COUNTS,
)
FLOATS = (
    *(c.name for c in RUNS.columns if c.kind == "float"), *SCHEDULE, "score_scale",
    "uneven_steps_per_rollout",
)  # fmt: skip


Aliases = Mapping[str, tuple[str, ...]]


def gather(log: Log, given: Mapping[str, Any], aliases: Aliases) -> Facts:
    """Return the facts of a log, those that the user gave (options, `runs.yaml`) going first.

    Parameters
    ----------
    log : Log
        The log.
    given : mapping
        Facts from the user.
    aliases : mapping
        Keys of the log for `runs` columns that its rows repeat.

    Raises
    ------
    SourceError
        A value is not a number where one is needed.
    """
    facts: Facts = {}
    for name in RUN_TEXTS:
        for key in (*aliases.get(name, ()), name):
            if key in log.rows.texts:
                facts.setdefault(name, Fact(log.rows.texts[key], "log"))
    facts.update(_constants(log, aliases))
    facts.update(log.facts)
    if log.framework and "framework" not in facts:
        facts["framework"] = Fact(log.framework, "log")
    for name, value in given.items():
        facts[name] = Fact(value, "user")
    typed = ((name, _typed(name, fact, str(log.path))) for name, fact in facts.items())
    return {name: fact for name, fact in typed if fact is not None}


def _constants(log: Log, aliases: Aliases) -> Facts:
    """Return the `runs` columns that every row repeats with one value."""
    facts: Facts = {}
    for name in RUN_NUMBERS:
        keys = matching((*aliases.get(name, ()), name), log.rows.values)
        if not keys or name in log.facts:
            continue
        values = log.rows.values[keys[0]]
        distinct = np.unique(values.finite().value)
        if len(distinct) == 1:
            facts[name] = Fact(float(distinct[0]), "log")
        elif len(distinct) > 1 and name == "batch_size":
            found = ", ".join(f"{v:g}" for v in distinct[:4])
            msg = f"batch_size changes within the run ({found}); split it into runs"
            raise SourceError(msg, where=str(log.path))
    return facts


def _typed(name: str, fact: Fact, where: str) -> Fact | None:
    value = fact.value
    if name in NO_LIMIT and value is None:
        return Fact(math.inf, fact.source)
    if value is None:
        return None
    if name not in INTS and name not in FLOATS:
        return Fact(str(value) if name in RUNS.names else value, fact.source)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    whole = name in INTS
    if isinstance(value, bool) or math.isnan(number) or (whole and not _is_whole(number)):
        kind = "a whole number" if whole else "a number"
        msg = f"{name} is {reprlib.repr(value)}, must be {kind}"
        raise SourceError(msg, where=where)
    return Fact(round(number) if whole else number, fact.source)


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and abs(number - round(number)) < 1e-9 and abs(number) < 2**62
