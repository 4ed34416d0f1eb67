"""Which framework a log is of, and what its configuration says: by the descriptions of frameworks.

A log whose keys and configuration no framework knows is read by the general keys; of its
configuration only names that can mean one thing are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twoclock.frameworks import recognise
from twoclock.frameworks.base import Fact, Facts, Framework, Setting
from twoclock.frameworks.values import number_or_infinity
from twoclock.notes import Note
from twoclock.runs.facts import FLOATS, INTS
from twoclock.runs.ranges import broken_rule
from twoclock.sources.base import Log
from twoclock.sources.columns import plain_name
from twoclock.sources.rows import Rows, Values

OWN_FORMATS = ("native", "tables")
"""Readers of twoclock's own formats: their rows and facts are in the words of the schema."""

HOME_MADE = Framework(
    name="",
    settings=(
        Setting("lr", ("lr", "learning_rate", "optimizer.lr", "optim.lr")),
        Setting("seed", ("seed",)),
        Setting("group_size", ("group_size", "num_generations", "n_samples_per_prompt")),
        Setting("prompts_per_rollout", ("prompts_per_rollout", "num_prompts_per_step")),
        Setting("minibatches", ("minibatches", "num_minibatches")),
        Setting("optimizer_steps_per_rollout", ("optimizer_steps_per_rollout",)),
        Setting("clip_low", ("clip_low",)),
        Setting("clip_high", ("clip_high",)),
        Setting("kl_coef", ("kl_coef",)),
        Setting("temperature", ("temperature",)),
        Setting("model", ("model_name_or_path", "model_name", "base_model")),
    ),
    plain=plain_name,
)
"""Names that mean one thing in any configuration; a "batch size" does not, so it is not here."""

_NOT_GROUPED = ("gae", "reinforce", "reinforce_plus_plus", "remax")


def identify(log: Log, framework: str | None = None) -> Log:
    """Return the log with its framework, in that framework's own keys, without the configuration.

    Parameters
    ----------
    log : Log
        As read.
    framework : str, optional
        The framework that the user names.
    """
    if log.reader in OWN_FORMATS:
        return log
    known = recognise(log.rows.names, log.config, framework or log.framework)
    if known is None:
        return replace(log, rows=renamed(log.rows, HOME_MADE))
    rows = renamed(log.rows, known)
    columns = {**known.columns, **log.columns}
    columns["step"] = (*log.columns.get("step", ()), *known.steps)
    columns["responses"] = (*log.columns.get("responses", ()), *known.responses_total)
    return replace(
        log,
        rows=rows,
        known=known,
        framework=known.name,
        columns=columns,
        step_counts=known.step_counts,
        synchronous=known.synchronous,
    )


def renamed(rows: Rows, known: Framework) -> Rows:
    """Return the rows under the keys of the framework's own description.

    A sink may put the split before a key, or replace characters; where two keys become one, the
    one that stood so already stays.
    """
    plain = known.plain
    values: dict[str, Values] = {}
    for key, column in rows.values.items():
        name = plain(key)
        if name == key or name not in rows.values:
            values[name] = column
    if not any(key not in values for key in rows.values):
        return rows
    rejected = {plain(key): bad for key, bad in rows.rejected.items()}
    names = frozenset(plain(key) for key in rows.names)
    return replace(rows, values=values, rejected=rejected, names=names)


def with_settings(log: Log, framework: str | None = None) -> Log:
    """Return the log with the facts that its configuration says, and its rows on one clock."""
    if log.reader in OWN_FORMATS:
        return log
    if log.known is None and log.config:
        log = identify(log, framework)
    known = log.known or HOME_MADE
    told = known.facts_of(log.config) if log.config else {}
    found, odd = _usable(told)
    notes = list(log.notes)
    for name, value in odd.items():
        rule = broken_rule(name, value) or "not a number"
        message = f"the configuration says {name} is {str(value)[:60]!r}: {rule}; not used"
        notes.append(Note("odd_setting", message, where=str(log.path)))
    estimator = found.get("advantage")
    if estimator is not None and estimator.value in _NOT_GROUPED:
        message = f"the advantage estimator is {estimator.value}: not GRPO"
        notes.append(Note("not_grpo", message, where=str(log.path)))
    facts = {**found, **log.facts}
    pays = facts.get("score_scale")
    if pays is not None and pays.value not in (0, 1):
        message = (
            f"a right answer pays {pays.value:g}; --scale accuracy={1 / pays.value:g} turns its "
            "scores into accuracies where nothing else is paid"
        )
        notes.append(Note("pays_per_answer", message, where=str(log.path)))
    synchronous = facts.get("synchronous")
    log = replace(
        log,
        facts=facts,
        notes=tuple(notes),
        synchronous=log.synchronous if synchronous is None else synchronous.value == "yes",
    )
    return _arranged(log, known, facts)


def _usable(facts: Facts) -> tuple[Facts, dict[str, Any]]:
    """Return the facts whose values are of their kind, and the others' values."""
    good: Facts = {}
    odd: dict[str, Any] = {}
    for name, fact in facts.items():
        if name in INTS or name in FLOATS:
            value = number_or_infinity(fact.value)
            whole = name not in INTS or value is None or value == round(value)
            if value is None or not whole or broken_rule(name, value):
                odd[name] = fact.value
            else:
                good[name] = Fact(value, fact.source)
        elif isinstance(fact.value, str | int | float) and not isinstance(fact.value, bool):
            good[name] = Fact(str(fact.value), fact.source)
        else:
            odd[name] = fact.value
    return good, odd


def _arranged(log: Log, known: Framework, facts: Mapping[str, Fact]) -> Log:
    """Return the log with the columns that the framework's own clocks need."""
    if known.arrange is None:
        return log
    plain = {key: (values.at, values.value) for key, values in log.rows.values.items()}
    changed = known.arrange(plain, log.rows.count, dict(facts))
    if not changed:
        return log
    values = {**log.rows.values, **{key: Values(*pair) for key, pair in changed.items()}}
    return replace(log, rows=replace(log.rows, values=values))
