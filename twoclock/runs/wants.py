"""What logs do not tell: one want a fact, for all the runs and files that lack it alike.

Says what to ask for; `draft` writes it down as a `runs.yaml`, the command line lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from twoclock.notes import Refusal
from twoclock.runs.tables import Runs


@dataclass(frozen=True)
class Question:
    """What a fact is called and how it is given.

    Parameters
    ----------
    words : str
        What is lacking, in words.
    meaning : str
        What to fill in.
    given_by : str
        The options and `runs.yaml` fields that give it.
    cost : str
        What a run that is read without it is not used for.
    unread : str
        What is said of such a run, where it is not just without the fact.
    """

    words: str
    meaning: str
    given_by: str
    cost: str = ""
    unread: str = ""


QUESTIONS: Mapping[str, Question] = {
    "batch_size": Question(
        "batch size",
        "responses per rollout: prompts x responses per prompt",
        "--batch-size N, or batch_size in runs.yaml",
    ),
    "rollout": Question(
        "step", "key that counts rollouts", "--map step=KEY, or map: {step: KEY} in runs.yaml"
    ),
    "accuracy": Question(
        "accuracy key",
        "key that holds the validation accuracy",
        "--map accuracy=KEY, or map: {accuracy: KEY} in runs.yaml",
        "not in the learning clock",
        "no validation that is known",
    ),
    "clip_active": Question(
        "clipping",
        "yes or no: can clipping act?",
        "clip_active (yes or no), or clip_low, clip_high and clip_dual, in runs.yaml",
        "not in the failure clock",
    ),
    "lr": Question(
        "learning rate",
        "peak learning rate",
        "--lr X, or lr in runs.yaml",
        "compared with runs of unknown rate only",
    ),
    "seed": Question(
        "seed",
        "seed of the run",
        "--run-seed N, or seed in runs.yaml",
        "each counts as a seed of its own",
    ),
}
"""Facts in the order in which they are asked for."""

USEFUL = ("clip_active", "lr", "seed")
"""Columns of `runs` that are asked for in runs that can be read without them."""


@dataclass(frozen=True)
class Want:
    """A fact that several runs or files lack.

    Parameters
    ----------
    fact : str
        Name of the `runs` column (or ``accuracy``, ``rollout``).
    subjects : tuple of str
        Runs (when they are read without it) or files (when they are refused).
    needed : bool
        Are they refused for it?
    keys : tuple of str
        Keys of the logs that may hold it.
    """

    fact: str
    subjects: tuple[str, ...]
    needed: bool
    keys: tuple[str, ...] = ()

    @property
    def question(self) -> Question:
        """How the fact is asked for; one that nobody foresaw is named as it is."""
        other = Question(self.fact, self.fact, f"{self.fact} in runs.yaml")
        return QUESTIONS.get(self.fact, other)


def list_wants(found: Runs | None, refused: Iterable[Refusal]) -> list[Want]:
    """Return what is lacking, facts that refused files need first.

    Parameters
    ----------
    found : Runs, optional
        Runs that were read; None when there are none.
    refused : iterable of Refusal
        What was not used.

    Examples
    --------
    >>> lacks = [Refusal(name, "...", ("batch_size",)) for name in ("a.csv", "b.csv")]
    >>> [(want.fact, want.subjects) for want in list_wants(None, lacks)]
    [('batch_size', ('a.csv', 'b.csv'))]
    """
    grouped: dict[tuple[bool, str, tuple[str, ...]], list[str]] = {}
    for item in refused:
        for fact in item.facts:
            key = (True, fact, tuple(item.candidates.get(fact, ())))
            grouped.setdefault(key, []).append(item.path)
    if found is not None:
        for fact, names in _lacking(found).items():
            grouped.setdefault((False, fact, ()), []).extend(names)
    wants = [
        Want(fact, tuple(dict.fromkeys(subjects)), needed, keys)
        for (needed, fact, keys), subjects in grouped.items()
    ]
    order = {name: rank for rank, name in enumerate(QUESTIONS)}
    return sorted(wants, key=lambda w: (not w.needed, order.get(w.fact, len(order)), w.subjects))


def _lacking(found: Runs) -> dict[str, list[str]]:
    """Return the runs that were read without a useful fact, by fact."""
    table = found.runs
    lacks: dict[str, pd.Series[bool]] = {name: table[name].isna() for name in USEFUL}
    lacks["clip_active"] |= table["clip_active"] == "unknown"
    lacks["accuracy"] = ~table["run_id"].isin(found.evals["run_id"].unique())
    return {
        name: [str(run) for run in table.loc[mask.fillna(value=True), "run_id"]]
        for name, mask in lacks.items()
        if bool(mask.any())
    }
