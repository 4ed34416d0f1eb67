"""The facts of a run as its trainer states them: checked, completed, ready for `run.json`.

Names are the columns of the `runs` table (`twoclock.schema`). A clip of None says "no such clip"; a
fact that is left out is not known.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any, TypedDict

import numpy as np

from twoclock.clipping import clip_active
from twoclock.errors import LogFormatError
from twoclock.runlog import NULLABLE
from twoclock.schema import RUNS

_CLIPS = ("clip_low", "clip_high", "clip_dual")
_COUNTS = (
    "batch_size", "group_size", "prompts_per_rollout", "minibatches", "epochs",
    "optimizer_steps_per_rollout", "n_params", "eval_size",
)  # fmt: skip
_POSITIVE = ("lr", "base_lr", "temperature", *NULLABLE)
_NOT_NEGATIVE = ("kl_coef", "entropy_coef", "warmup_responses")


class RunFacts(TypedDict, total=False):
    """What a run's trainer can say about it; units and meanings are those of `schema.RUNS`."""

    framework: str
    model: str
    task: str
    seed: int
    prompts_per_rollout: int
    group_size: int
    batch_size: int
    minibatches: int
    epochs: int
    optimizer_steps_per_rollout: int
    lr: float
    base_lr: float
    lr_gamma: float
    lr_schedule: str
    warmup_responses: float
    clip_low: float | None
    clip_high: float | None
    clip_dual: float | None
    clip_active: str
    kl_coef: float
    entropy_coef: float
    loss_mean: str
    advantage: str
    temperature: float
    grad_clip: float | None
    optimizer: str
    n_params: int
    eval_size: int


def complete_facts(
    facts: Mapping[str, Any], *, synchronous: bool = True, where: str = "run"
) -> dict[str, Any]:
    """Check facts and add those that follow: prompts or group size, K, whether clipping can act.

    ``batch_size = prompts_per_rollout * group_size`` and
    ``optimizer_steps_per_rollout = minibatches * epochs``.

    Parameters
    ----------
    facts : mapping
        The columns of `RunFacts`; `batch_size`, in responses per rollout, is needed.
    synchronous : bool
        Whether each rollout is sampled by the policy that its first step updates.
    where : str
        Named in errors.

    Raises
    ------
    LogFormatError
        An unknown name, an impossible value, or facts that contradict each other.

    Examples
    --------
    >>> facts = complete_facts({"batch_size": 64, "group_size": 8, "minibatches": 4, "epochs": 2})
    >>> facts["prompts_per_rollout"], facts["optimizer_steps_per_rollout"]
    (8, 8)
    >>> complete_facts({"batch_size": 64, "group_size": 8, "prompts_per_rollout": 64})
    Traceback (most recent call last):
    ...
    twoclock.errors.LogFormatError: run: prompts_per_rollout * group_size is 64 * 8 == 512, must be
    batch_size == 64; count batch_size in responses
    """
    known = {name: _fact(name, value, where) for name, value in facts.items()}
    if "batch_size" not in known:
        msg = f"{where}: batch_size is missing; give the responses (not prompts) of one rollout"
        raise LogFormatError(msg)
    _complete_batch(known, where)
    _complete_steps(known, where)
    if "clip_active" not in known:
        bounds = [math.inf if known.get(n, 0) is None else known.get(n) for n in _CLIPS]
        steps = known.get("optimizer_steps_per_rollout")
        active = clip_active(bounds, steps, synchronous=synchronous)
        if active != "unknown":
            known["clip_active"] = active
    return known


def check_name(name: str, known: Collection[str], where: str) -> None:
    """Raise LogFormatError for a name that is none of `known`, with the nearest one.

    Examples
    --------
    >>> check_name("rewrad", ["reward", "loss"], "run")
    Traceback (most recent call last):
    ...
    twoclock.errors.LogFormatError: run: unknown column 'rewrad'; did you mean 'reward'?
    """
    if name not in known:
        near = difflib.get_close_matches(name, sorted(known), n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
        msg = f"{where}: unknown column {name!r}; {remedy}"
        raise LogFormatError(msg)


def plain(value: Any) -> Any:
    """Return numpy scalars, and tensors with one element, as plain numbers; others as they are.

    Examples
    --------
    >>> plain(np.float64(0.5)), plain("adam")
    (0.5, 'adam')
    """
    return value.item() if hasattr(value, "item") and np.size(value) == 1 else value


def whole_number(name: str, value: Any, where: str, *, least: int = 1, of: str = "") -> int:
    """Return a count as int.

    Raises
    ------
    LogFormatError
        It is no whole number or below `least`.
    """
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or number % 1 != 0:
        raise _refused(name, value, "a whole number", where)
    if number < least:
        raise _refused(name, value, f"{least} or more{of}", where)
    return int(number)


def real_number(name: str, value: Any, where: str) -> float:
    """Return a measured value as float, NaN and inf included.

    Raises
    ------
    LogFormatError
        It is no number.
    """
    try:
        return float(plain(value))
    except (TypeError, ValueError):
        raise _refused(name, value, "a number", where) from None


def _fact(name: str, value: Any, where: str) -> Any:
    check_name(name, RunFacts.__annotations__, where)
    value = plain(value)
    column = RUNS[name]
    if name in NULLABLE and (value is None or value == math.inf):
        return None
    if column.kind == "str":
        if not isinstance(value, str) or (column.choices and value not in column.choices):
            rule = f"one of {', '.join(column.choices)}" if column.choices else "a text"
            raise _refused(name, value, rule, where)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(name, value, "a finite number; leave out what is not known", where)
    if column.kind == "int":
        return whole_number(name, value, where, least=1 if name in _COUNTS else -(2**63))
    if name in _POSITIVE and value <= 0:
        none = "; None says that there is no such clip" if name in NULLABLE else ""
        raise _refused(name, value, f"above 0{none}", where)
    if name in _NOT_NEGATIVE and value < 0:
        raise _refused(name, value, "0 or more", where)
    return float(value)


def _refused(name: str, value: Any, rule: str, where: str) -> LogFormatError:
    return LogFormatError(f"{where}: {name} == {value!r}, must be {rule}")


def _complete_batch(known: dict[str, Any], where: str) -> None:
    size, prompts, group = (
        known.get(name) for name in ("batch_size", "prompts_per_rollout", "group_size")
    )
    if prompts is not None and group is not None:
        if prompts * group != size:
            msg = (
                f"{where}: prompts_per_rollout * group_size is {prompts} * {group} == "
                f"{prompts * group}, must be batch_size == {size}; count batch_size in responses"
            )
            raise LogFormatError(msg)
        return
    for given, other in (
        ("group_size", "prompts_per_rollout"),
        ("prompts_per_rollout", "group_size"),
    ):
        if given in known:
            if size % known[given]:
                rule = f"a divisor of batch_size == {size}, which counts responses"
                raise _refused(given, known[given], rule, where)
            known[other] = size // known[given]


def _complete_steps(known: dict[str, Any], where: str) -> None:
    if "minibatches" not in known or "epochs" not in known:
        return
    steps = known["minibatches"] * known["epochs"]
    if known.setdefault("optimizer_steps_per_rollout", steps) != steps:
        name = "optimizer_steps_per_rollout"
        raise _refused(name, known[name], f"minibatches * epochs == {steps}", where)
