"""Short names of strata: what tells them apart, and the rest once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from twoclock.words.numbers import number_text

COLUMN_WORDS = {
    "base_lr": "base lr",
    "optimizer_steps_per_rollout": "K",
    "group_size": "group size",
    "clip_low": "clip low",
    "clip_high": "clip high",
    "clip_dual": "dual clip",
    "kl_coef": "KL coefficient",
    "entropy_coef": "entropy coefficient",
    "loss_mean": "loss mean",
    "lr_gamma": "gamma",
    "lr_schedule": "lr schedule",
    "warmup_responses": "warm-up",
    "batch_size": "B",
    "clip_active": "clipping",
}
"""Short words for columns whose own name does not read well; others lose their underscores."""


def column_words(name: str) -> str:
    """Return the words for a stratum column.

    Examples
    --------
    >>> column_words("optimizer_steps_per_rollout"), column_words("model")
    ('K', 'model')
    """
    return COLUMN_WORDS.get(name, name.replace("_", " "))


def stratum_labels(strata: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], str]:
    """Return one short label per stratum (what tells it from the others) and what they all share.

    Labels name the task, the model within a task, and the base learning rate where these differ,
    and of the other columns that differ only as many as are needed; `stratum_details` says the
    rest. Models are cut to what tells them apart. A stratum without neighbours is called by its
    base learning rate, else "all runs".

    Examples
    --------
    >>> a = {"task": "sort", "base_lr": 1e-05, "group_size": 8}
    >>> stratum_labels([a, {**a, "base_lr": 1e-04}])
    (('base lr 1e-5', 'base lr 1e-4'), 'task sort, group size 8')
    >>> stratum_labels([a])[0]
    ('base lr 1e-5',)
    >>> b = {**a, "base_lr": 1e-04, "group_size": 4}
    >>> stratum_labels([a, a, b])[0]
    ('base lr 1e-5', 'base lr 1e-5', 'base lr 1e-4')
    >>> stratum_labels([{**a, "model": "gru-1x64-base"}, {**b, "model": "gpt-2x32-base"}])[0]
    ('gru, base lr 1e-5', 'gpt, base lr 1e-4')
    """
    names = _columns(strata)
    differing = _differing(strata)
    shown = _telling(strata) or [n for n in ("base_lr",) if n in names]
    hidden = {*differing, *shown}
    common = _pairs(strata[0], [n for n in names if n not in hidden]) if strata else ""
    short = _short_models(strata)
    labels = tuple(_label(stratum, shown, short) or "all runs" for stratum in strata)
    return labels, common


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return each name cut after the first parts, between hyphens, that tell it from the others.

    Examples
    --------
    >>> short_names(["transformer-2x32-base-c51", "recurrent-1x64-base-7b5"])
    {'transformer-2x32-base-c51': 'transformer', 'recurrent-1x64-base-7b5': 'recurrent'}
    >>> short_names(["Qwen2.5-0.5B-Instruct", "Qwen2.5-1.5B-Instruct"])
    {'Qwen2.5-0.5B-Instruct': 'Qwen2.5-0.5B', 'Qwen2.5-1.5B-Instruct': 'Qwen2.5-1.5B'}
    """
    parts = {name: name.split("-") for name in names}
    for count in range(1, max((len(p) for p in parts.values()), default=0)):
        cut = {name: "-".join(p[:count]) for name, p in parts.items()}
        if len(set(cut.values())) == len(cut):
            return cut
    return {name: name for name in parts}


def stratum_details(strata: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what `stratum_labels` leaves unsaid: the other columns in which the strata differ.

    One line for each set of values, headed by the task where that decides them.

    Examples
    --------
    >>> a = {"task": "sort", "base_lr": 1e-05, "clip_low": 0.2}
    >>> b = {"task": "add", "base_lr": 1e-04, "clip_low": None}
    >>> stratum_details([a, b])
    ('task sort: clip low 0.2', 'task add: clip low not logged')
    """
    shown = _telling(strata)
    hidden = [name for name in _differing(strata) if name not in shown]
    if not hidden:
        return ()
    labels, _ = stratum_labels(strata)
    by_task = len({str((s.get("task"), _pairs(s, hidden))) for s in strata}) == len(
        {str(s.get("task")) for s in strata}
    )
    lines: dict[str, list[str]] = {}
    for stratum, label in zip(strata, labels, strict=True):
        head = _pairs(stratum, ["task"]) if by_task else label
        heads = lines.setdefault(_pairs(stratum, hidden), [])
        if head not in heads:
            heads.append(head)
    return tuple(f"{'; '.join(heads)}: {text}" for text, heads in lines.items())


def _short_models(strata: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return for each task and model the least of the model's name that tells it in its task."""
    models: dict[str, list[str]] = {}
    for stratum in strata:
        models.setdefault(str(stratum.get("task")), []).append(str(stratum.get("model")))
    return {
        (task, model): short
        for task, names in models.items()
        for model, short in short_names(names).items()
    }


def _label(
    stratum: Mapping[str, Any], names: Sequence[str], short: Mapping[tuple[str, str], str]
) -> str:
    """Return the pairs of `names`; task and model stand without their words, to leave room."""
    task = [number_text(stratum.get("task"))] if "task" in names else []
    key = (str(stratum.get("task")), str(stratum.get("model")))
    model = [short[key]] if "model" in names else []
    rest = _pairs(stratum, [name for name in names if name not in ("task", "model")])
    return ", ".join([*task, *model, *([rest] if rest else [])])


def _columns(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for stratum in strata for name in stratum))


def _differing(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    return [n for n in _columns(strata) if len({str(s.get(n)) for s in strata}) > 1]


def _telling(strata: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fewest columns that tell every stratum from the others."""
    differing = _differing(strata)
    of_task = {(str(s.get("task")), str(s.get("model"))) for s in strata}
    several = len(of_task) > len({task for task, _ in of_task})
    names = ("task", *(("model",) if several else ()), "base_lr")
    first = [name for name in names if name in differing]
    others = [name for name in differing if name not in first]
    distinct = len({str([s.get(n) for n in differing]) for s in strata})
    for count in range(len(others) + 1):
        for more in itertools.combinations(others, count):
            chosen = [*first, *more]
            if len({str([s.get(n) for n in chosen]) for s in strata}) == distinct:
                return chosen
    return differing


def _pairs(stratum: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{column_words(n)} {number_text(stratum.get(n))}" for n in names)


def stratum_order(stratum: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a sort key: by all other columns, then by base learning rate.

    Numbers come in order, before texts.

    Examples
    --------
    >>> sorted([{"base_lr": 1e-4}, {"base_lr": 1e-5}, {}], key=stratum_order)
    [{'base_lr': 1e-05}, {'base_lr': 0.0001}, {}]
    >>> a, b = {"task": "add", "base_lr": 1e-4}, {"task": "sort", "base_lr": 1e-5}
    >>> sorted([b, a], key=stratum_order)[0]["task"]
    'add'
    """
    rate = stratum.get("base_lr")
    rest = tuple(
        (name, isinstance(value, str), value)
        for name, value in stratum.items()
        if name != "base_lr"
    )
    return (rest, math.inf if rate is None else float(rate))


def common_column(labels: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the words that all labels of one varying column begin with, and the labels without.

    Examples
    --------
    >>> common_column(["base lr 1e-5", "base lr 1e-4"])
    ('base lr', ('1e-5', '1e-4'))
    >>> common_column(["task a, K 1", "task b, K 8"])
    ('runs', ('task a, K 1', 'task b, K 8'))
    """
    for words in COLUMN_WORDS.values():
        alone = all(label.startswith(f"{words} ") and "," not in label for label in labels)
        if labels and alone:
            return words, tuple(label.removeprefix(f"{words} ") for label in labels)
    return "runs", tuple(labels)
