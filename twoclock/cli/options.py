"""Option groups: each option is written once and stands on every command that takes its group.

A group is a dataclass whose fields are typer options. `grouped` turns a command with group
parameters into the flat command that typer needs. Heavy imports wait until a group is used.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from twoclock.errors import SettingsError

if TYPE_CHECKING:
    from twoclock.events.failure import Failure
    from twoclock.reading import ReadOptions
    from twoclock.settings import Settings

LR_RULES = {"sqrt": 0.5, "linear": 1.0, "fixed": 0.0}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with every dataclass parameter replaced by that dataclass's fields."""
    flat: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if not dataclasses.is_dataclass(parameter.annotation):
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = parameter.annotation
        hints = get_type_hints(parameter.annotation, include_extras=True)
        for item in dataclasses.fields(parameter.annotation):
            kind = inspect.Parameter.KEYWORD_ONLY
            flat.append(
                inspect.Parameter(
                    item.name, kind, default=item.default, annotation=hints[item.name]
                )
            )

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            taken = {item.name: values.pop(item.name) for item in dataclasses.fields(group)}
            values[name] = group(**taken)
        command(**values)

    call.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {item.name: item.annotation for item in flat}
    return call


def panel(name: str, text: str, *names: str, metavar: str | None = None) -> Any:
    """Return a typer option that stands under the heading `name` in the help."""
    return typer.Option(*names, help=text, rich_help_panel=name, metavar=metavar)


_READING = "Reading the logs"


@dataclass(frozen=True)
class Reading:
    """What the logs do not tell."""

    map: Annotated[
        list[str] | None,
        panel(
            _READING, "Key of the log for a column; aliases in order.", metavar="COLUMN=KEY[,KEY2]"
        ),
    ] = None
    scale: Annotated[
        list[str] | None,
        panel(_READING, "Factor for a column, e.g. accuracy=0.5.", metavar="COLUMN=FACTOR"),
    ] = None
    val_n: Annotated[
        int | None, panel(_READING, "Problems times samples of one validation.", "--val-n")
    ] = None
    batch_size: Annotated[int | None, panel(_READING, "Responses per rollout (not prompts).")] = (
        None
    )
    group_size: Annotated[int | None, panel(_READING, "Responses per prompt.")] = None
    lr: Annotated[float | None, panel(_READING, "Peak learning rate.")] = None
    run_seed: Annotated[int | None, panel(_READING, "Seed of the runs that do not log one.")] = None
    world_size: Annotated[
        int | None, panel(_READING, "Training processes (without a GPU that only samples).")
    ] = None
    reference_batch: Annotated[
        int | None, panel(_READING, "B0 of base_lr = lr * (B/B0)**-gamma; default: smallest B.")
    ] = None
    lr_rule: Annotated[
        str | None, panel(_READING, "sqrt, linear, fixed or gamma; default: detected.")
    ] = None
    on_reset: Annotated[
        str | None, panel(_READING, "Step counter falls back to its start: offset or restart.")
    ] = None
    duplicates: Annotated[
        str, panel(_READING, "A step that was logged several times: last or mean.")
    ] = "last"
    max_download: Annotated[
        float | None, panel(_READING, "GiB copied at most from s3://, gs://, hf://, https://; 20.")
    ] = None

    def options(self) -> ReadOptions:
        """Return the reading options of the library."""
        from twoclock.reading import ReadOptions

        return ReadOptions(
            map={name: tuple(v.split(",")) for name, v in _pairs(self.map, "--map")},
            scale={n: _number(v, f"--scale {n}") for n, v in _pairs(self.scale, "--scale")},
            val_n=self.val_n,
            batch_size=self.batch_size,
            group_size=self.group_size,
            lr=self.lr,
            seed=self.run_seed,
            world_size=self.world_size,
            on_reset=self.on_reset,  # type: ignore[arg-type]
            duplicates=self.duplicates,  # type: ignore[arg-type]
            max_download=self.max_download,
        )

    def gamma(self) -> float | None:
        """Return gamma of the lr rule, None when it is to be detected."""
        if self.lr_rule is None:
            return None
        if self.lr_rule in LR_RULES:
            return LR_RULES[self.lr_rule]
        return _number(self.lr_rule, "--lr-rule: sqrt, linear, fixed or a number; got")


_RULE = "When is a run reached or failed"


@dataclass(frozen=True)
class Rule:
    """Definition of the two events."""

    target: Annotated[
        list[str] | None,
        panel(
            _RULE, "Target accuracy (repeatable), or per task: addition=0.5.", metavar="[TASK=]X"
        ),
    ] = None
    crossing: Annotated[
        str, panel(_RULE, "How a noisy curve crosses: isotonic, first or sustain2.")
    ] = "isotonic"
    drop_abs: Annotated[float, panel(_RULE, "Fall below the peak that is a failure.")] = 0.10
    drop_rel: Annotated[
        float, panel(_RULE, "The same as a share of the peak; the smaller counts.")
    ] = 0.50
    floor: Annotated[float, panel(_RULE, "Smallest fall that can be told from noise.")] = 0.02
    recover: Annotated[float, panel(_RULE, "Share of the fall that undoes it when regained.")] = (
        0.50
    )
    hard: Annotated[float, panel(_RULE, "Fall (share of the peak) that needs no confirmation.")] = (
        0.80
    )
    confirm: Annotated[float, panel(_RULE, "Share of more responses that confirms a fall.")] = 0.10
    dip_limit: Annotated[
        float, panel(_RULE, "A dip longer than this times all training before it is a failure.")
    ] = 1.0
    suspect: Annotated[str, panel(_RULE, "An unconfirmed fall: censor, event or drop.")] = "censor"
    never_learned: Annotated[
        str, panel(_RULE, "Runs that never rose, in the failure fit: drop or censor.")
    ] = "drop"
    include_clipped: Annotated[
        bool,
        panel(
            _RULE, "Let runs in which clipping can act feed the failure clock.", "--include-clipped"
        ),
    ] = False

    def failure(self) -> Failure:
        """Return the failure rule of the library."""
        from twoclock.events.failure import Failure

        return Failure(
            drop_abs=self.drop_abs,
            drop_rel=self.drop_rel,
            floor=self.floor,
            recover=self.recover,
            hard=self.hard,
            confirm=self.confirm,
            dip_limit=self.dip_limit,
            suspect=self.suspect,  # type: ignore[arg-type]
            never_learned=self.never_learned,  # type: ignore[arg-type]
        )

    def targets(self) -> tuple[tuple[float, ...], dict[str, float]]:
        """Return the targets for all tasks, and those for a task by name."""
        plain = [v for v in self.target or [] if "=" not in v]
        named = dict(_pairs([v for v in self.target or [] if "=" in v], "--target"))
        return (
            tuple(_number(v, "--target") for v in plain),
            {task: _number(v, f"--target {task}") for task, v in named.items()},
        )


_FIT = "Fitting"


@dataclass(frozen=True)
class Fitting:
    """How the exponents are estimated."""

    by: Annotated[list[str] | None, panel(_FIT, "Column that splits the runs in addition.")] = None
    pool: Annotated[list[str] | None, panel(_FIT, "Stratum column that does not split.")] = None
    select: Annotated[
        str | None, panel(_FIT, "Keep runs by an expression: 'batch_size >= 256 and seed < 5'.")
    ] = None
    draws: Annotated[int, panel(_FIT, "Bootstrap draws.")] = 10_000
    level: Annotated[float, panel(_FIT, "Confidence level.")] = 0.95
    seed: Annotated[int, panel(_FIT, "Seed of the bootstrap.")] = 0
    margin: Annotated[float, panel(_FIT, "Exponents within +-margin count as zero.")] = 0.10
    law: Annotated[str, panel(_FIT, "Law of responses against B: power.")] = "power"
    sigma: Annotated[
        str, panel(_FIT, "Spread between seeds over B: auto, constant or loglinear.")
    ] = "auto"
    error: Annotated[
        str, panel(_FIT, "Law of the seeds about the median: lognormal, loglogistic or weibull.")
    ] = "lognormal"
    interval: Annotated[
        str,
        panel(
            _FIT,
            "Headline interval: jackknife-t, percentile, bootstrap-t, profile-t, cell-means or "
            "model.",
        ),
    ] = "jackknife-t"
    random: Annotated[
        str, panel(_FIT, "Effect that the runs of a batch size share: none or cell.")
    ] = "none"
    resample: Annotated[
        str,
        panel(_FIT, "What is drawn: runs within batch sizes (cells), or seed numbers (seeds)."),
    ] = "cells"


def settings_of(reading: Reading, rule: Rule, fitting: Fitting) -> Settings:
    """Return the settings of the analysis from the option groups."""
    from twoclock.settings import Settings

    targets, task_targets = rule.targets()
    return Settings(
        targets=targets,
        task_targets=task_targets,
        crossing=rule.crossing,
        failure=rule.failure(),
        include_clipped=rule.include_clipped,
        by=tuple(fitting.by or ()),
        pool=tuple(fitting.pool or ()),
        select=fitting.select,
        draws=fitting.draws,
        level=fitting.level,
        seed=fitting.seed,
        margin=fitting.margin,
        law=fitting.law,
        sigma=fitting.sigma,
        error=fitting.error,
        interval=fitting.interval,
        random=fitting.random,
        resample=fitting.resample,
        reference_batch=reading.reference_batch,
        lr_rule=reading.gamma(),
    )


def _pairs(values: list[str] | None, option: str) -> list[tuple[str, str]]:
    out = []
    for value in values or []:
        name, found, rest = value.partition("=")
        if not (name and found and rest):
            msg = f"{option} {value}: must be NAME=VALUE"
            raise SettingsError(msg)
        out.append((name, rest))
    return out


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"{what} {text!r} is not a number"
        raise SettingsError(msg) from None


Paths = Annotated[
    list[str] | None,  # a path type would take a slash from s3://
    typer.Argument(
        help="Folders searched for runs, log files, or an events table; also s3://, gs://, hf://, "
        "https://.",
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Machine-readable result on stdout, nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress bar.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for tables, figures and settings.toml.")
]
