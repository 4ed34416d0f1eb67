"""What the names of logs say of one run: halves of a job, ranks, charts, parts of a series.

A mark is what the logs of one run share; None where a log has no such mark.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from twoclock.runs.identify import OWN_FORMATS
from twoclock.runs.named import NamedLog

_HALF = re.compile(r"(?P<run>.*?)[-_./ ]?(?P<half>trainer|orchestrator)$", re.I)
_RANK = re.compile(r"(?P<run>.*?)[-_./ ]?(?:local[-_]?)?rank[-_]?(?P<rank>\d{1,5})$", re.I)
_SPLIT = re.compile(
    r"(?:^|(?<=[-_]))(?:eval|evaluation|val|valid|validation|test|train|training|metrics|log|logs"
    r"|history|results)(?=[-_]|$)|[-_]"
)
_SEED = re.compile(r"(?:^|[-_./ ])(?:seed|s)[-_=]?(\d{1,9})(?![0-9a-z])", re.I)
_IDENTITY = re.compile(r"(?:^|[-_./])(seed|s|lr|bs|b|batch|g|n|k|clip)[-_=]?(\d[\d.e-]*)", re.I)
"""Parts of a name that tell runs apart."""


def stands_alone(item: NamedLog) -> bool:
    """Tell whether a log is a whole run by its format, or the user says what it belongs to."""
    return item.log.reader in OWN_FORMATS or "run_id" in item.facts


def half_of(item: NamedLog) -> tuple[str, str] | None:
    """Return (run, half) of the log of a trainer or an orchestrator."""
    found = _HALF.fullmatch(item.name)
    return (found["run"], found["half"].lower()) if found else None


def half_mark(item: NamedLog) -> Hashable:
    """Return what the trainer's and the orchestrator's logs of one job share."""
    found = half_of(item)
    return (found[0].lower(), item.file.root) if found else None


def split_mark(item: NamedLog) -> Hashable:
    """Return what the logs of the training rows and of the validations of one run share."""
    if item.log.name:
        return None
    words = _SPLIT.split(item.log.path.name.split(".")[0].lower())
    return item.log.path.parent, tuple(word for word in words if word)


def chart_mark(item: NamedLog) -> Hashable:
    """Return the run of a column in a chart export, where one file holds one chart."""
    named = item.log.reader == "csv" and item.log.name
    return (item.log.path.parent, item.log.name) if named else None


def rank_of(item: NamedLog) -> tuple[str, int] | None:
    """Return (run, rank) of the log of one process among several."""
    found = _RANK.fullmatch(item.name)
    return (found["run"], int(found["rank"])) if found else None


def rank_mark(item: NamedLog) -> Hashable:
    """Return what the logs of the processes of one run share."""
    found = rank_of(item)
    return (item.log.reader, found[0], item.file.root) if found else None


def other_seed(one: NamedLog, two: NamedLog) -> bool:
    """Tell whether the names of two logs say different seeds."""
    seeds = {frozenset(map(int, _SEED.findall(item.name))) for item in (one, two)}
    return len(seeds) == 2 and frozenset() not in seeds


def series_mark(item: NamedLog) -> Hashable:
    """Return what the parts of one run share: its name, but for numbers that tell nothing."""
    identity = tuple(_IDENTITY.findall(item.name))
    return item.log.reader, item.file.root, identity, re.sub(r"\d+", "#", item.name)


def key_mark(item: NamedLog) -> Hashable:
    """Return the key by which a sink names the run across files."""
    return (item.log.reader, item.log.key) if item.log.key else None
