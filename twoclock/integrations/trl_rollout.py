"""What TRL's logs say about one rollout and one evaluation; needs neither TRL nor torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from twoclock.errors import LogFormatError

_KEYS = {
    "reward": ("reward",),
    "loss": ("loss",),
    "grad_norm": ("grad_norm",),
    "lr": ("learning_rate",),
    "entropy": ("entropy",),
    "kl_ref": ("kl",),
    "clip_fraction": ("clip_ratio/region_mean", "cispo_clip_ratio"),
    "response_tokens": ("completions/mean_length",),
}
"""Columns of a train row and the keys of TRL's training logs."""

_REWARD = re.compile(r"rewards/.+/mean")


@dataclass(frozen=True)
class Validation:
    """One evaluation of one data set.

    Parameters
    ----------
    accuracy : float
        0..1.
    n : int or None
        Problems times samples.
    metric : str
        The metric's name in TRL, after the name of the data set where there are several.
    seconds : float or None
        Wall time.
    unfinished : int
        Responses of the rollout in progress.
    """

    accuracy: float
    n: int | None
    metric: str
    seconds: float | None = None
    unfinished: int = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `RunLogger.validation`."""
        values = asdict(self)
        seconds = values.pop("seconds")
        return {**values, "eval_seconds": seconds}


@dataclass
class OpenRollout:
    """A rollout in progress: its counts so far and the sums of what was logged about it.

    Parameters
    ----------
    steps : int
        Optimizer steps done.
    responses, trained : int
        Responses sampled, and those that a gradient has used.
    whole : bool
        All its steps are done.
    sums : dict of str to list of float
        Column to sum of values times steps, and steps.
    validations : list of Validation
        Those made since it was sampled.
    """

    steps: int = 0
    responses: int = 0
    trained: int = 0
    whole: bool = False
    masked: float = 0.0
    sums: dict[str, list[float]] = field(default_factory=dict)
    validations: list[Validation] = field(default_factory=list)

    def add(self, logs: Mapping[str, Any], *, steps: int, masks: bool = False) -> None:
        """Add a training log that covers so many optimizer steps.

        Parameters
        ----------
        logs : mapping
            Keys and values of TRL; null stands for NaN there.
        steps : int
            Steps since the log before.
        masks : bool
            Truncated completions are not trained on.
        """
        for column, keys in _KEYS.items():
            for key in keys:
                if key in logs:
                    value = math.nan if logs[key] is None else float(logs[key])
                    total, weight = self.sums.get(column, [0.0, 0])
                    if column == "lr":
                        total, weight = 0.0, 0  # the last one counts
                    self.sums[column] = [total + value * steps, weight + steps]
        if masks and logs.get("completions/clipped_ratio") is not None:
            self.masked = float(logs["completions/clipped_ratio"])

    def row(self) -> dict[str, Any]:
        """Return the arguments of `RunLogger.rollout`.

        Examples
        --------
        >>> rollout = OpenRollout(steps=2, responses=64, trained=64)
        >>> rollout.add({"loss": 0.5, "reward": 0.25, "learning_rate": 1e-6}, steps=1)
        >>> rollout.add({"loss": 0.0, "learning_rate": 2e-6}, steps=1)
        >>> rollout.row()["loss"], rollout.row()["reward"], rollout.row()["lr"]
        (0.25, 0.25, 2e-06)
        """
        return {
            "responses": self.responses,
            "trained": round(self.trained * (1 - self.masked)),
            "optimizer_steps": self.steps,
            **{name: total / weight for name, (total, weight) in self.sums.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OpenRollout:
        """Return what `to_dict` gave."""
        validations = [Validation(**v) for v in values["validations"]]
        return replace(cls(**values), validations=validations)


def check_reward_name(logs: Mapping[str, Any], accuracy: str | None, where: str) -> None:
    """Raise LogFormatError if evaluations will not have the accuracy, seen from a training log.

    Examples
    --------
    >>> logs = {"rewards/format/mean": 0.5, "rewards/exact/mean": 0.1, "loss": 0.0}
    >>> check_reward_name(logs, "rewards/exact/mean", "run")
    >>> check_reward_name(logs, None, "run")
    Traceback (most recent call last):
    ...
    twoclock.errors.LogFormatError: run: several reward functions; say which is the accuracy:
    accuracy='rewards/exact/mean' or 'rewards/format/mean'
    """
    names = sorted(name for name in logs if _REWARD.fullmatch(name))
    if names and accuracy is None and len(names) > 1:
        raise LogFormatError(_several(names, where))
    if names and accuracy is not None and _REWARD.fullmatch(accuracy) and accuracy not in names:
        msg = f"{where}: no metric {accuracy!r}; there is {' and '.join(map(repr, names))}"
        raise LogFormatError(msg)


def find_validation(
    metrics: Mapping[str, Any],
    accuracy: str | None,
    *,
    right_answer: float,
    n: int | None,
    unfinished: int,
    where: str,
) -> Validation:
    """Return the validation that TRL's evaluation metrics hold.

    Parameters
    ----------
    metrics : mapping
        Keys begin with ``eval_``, and those of the trainer itself with ``eval_NAME_`` where there
        are several data sets.
    accuracy : str or None
        The metric without prefix; None: the only reward function.
    right_answer : float
        The metric's value for a right answer.
    n, unfinished : int
        See `Validation`.
    where : str
        Named in errors.

    Raises
    ------
    LogFormatError
        No such metric, several to choose from, or a value that is no accuracy.

    Examples
    --------
    >>> metrics = {"eval_loss": 0.0, "eval_runtime": 1.5, "eval_rewards/exact/mean": 0.5}
    >>> find_validation(metrics, None, right_answer=2.0, n=100, unfinished=0, where="run")
    Validation(accuracy=0.25, n=100, metric='rewards/exact/mean', seconds=1.5, unfinished=0)
    """
    prefix = next((k.removesuffix("_runtime") for k in metrics if k.endswith("_runtime")), "eval")
    name = accuracy or _only_reward(metrics, where)
    for key in (f"{prefix}_{name}", f"eval_{name}", name):
        if key in metrics:
            break
    else:
        had = ", ".join(sorted(k.removeprefix("eval_") for k in metrics))
        msg = f"{where}: the evaluation has no metric {name!r}; it has {had}"
        raise LogFormatError(msg)
    value = math.nan if metrics[key] is None else float(metrics[key]) / right_answer
    if not 0 <= value <= 1:
        msg = (
            f"{where}: {name} == {metrics[key]} of right_answer == {right_answer:g} is no accuracy "
            "within 0..1; say what a right answer pays (right_answer) or choose another metric"
        )
        raise LogFormatError(msg)
    data = prefix.removeprefix("eval").removeprefix("_")
    return Validation(
        value,
        n,
        f"{data}/{name}" if data else name,
        metrics.get(f"{prefix}_runtime"),
        unfinished,
    )


def _only_reward(metrics: Mapping[str, Any], where: str) -> str:
    names = [k.removeprefix("eval_") for k in metrics]
    names = sorted(name for name in names if _REWARD.fullmatch(name))
    if len(names) == 1:
        return names[0]
    if names:
        raise LogFormatError(_several(names, where))
    msg = f"{where}: the evaluation has no reward function; name the accuracy (accuracy=...)"
    raise LogFormatError(msg)


def _several(names: list[str], where: str) -> str:
    choice = " or ".join(map(repr, names))
    return f"{where}: several reward functions; say which is the accuracy: accuracy={choice}"
