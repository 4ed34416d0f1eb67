"""Grids of runs: batch sizes x base learning rates x seeds, described by a TOML file.

All runs of one batch size are trained at once. Seeds are never averaged and no run is dropped.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from twoclock.errors import SettingsError
from twoclock.trainer.loop import Progress, train
from twoclock.trainer.settings import TrainSettings

_GRID = ("batch_sizes", "base_lrs", "seeds", "responses")
_VARIED = ("batch_size", "base_lr", "seed", "responses")


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """A grid of runs.

    Parameters
    ----------
    batch_sizes : tuple of int
        Responses per rollout.
    base_lrs : tuple of float
        Learning rates at the reference batch.
    seeds : tuple of int
        Seeds; each cell (batch size, base learning rate) has a run of every seed.
    responses : tuple of tuple of int
        Length of the runs: a row for each batch size with a value for each base learning rate,
        because slow rates and large batches need more. It is fixed beforehand, so that the end
        of a run tells nothing about its outcome.
    shared : mapping
        Any other field of `TrainSettings`, the same in all runs.

    Raises
    ------
    SettingsError
        A list is empty or has repeats, the lengths disagree, or a run's settings are impossible.

    Examples
    --------
    >>> grid = SweepSettings(
    ...     batch_sizes=(64, 128),
    ...     base_lrs=(1e-4,),
    ...     seeds=(0, 1),
    ...     responses=((500,), (1000,)),
    ...     shared={},
    ... )
    >>> [m.run_id for m in grid.members(128)], grid.total_responses
    (['B00128-lr0.0001-s0', 'B00128-lr0.0001-s1'], 3072)
    """

    batch_sizes: tuple[int, ...]
    base_lrs: tuple[float, ...]
    seeds: tuple[int, ...]
    responses: tuple[tuple[int, ...], ...]
    shared: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in ("batch_sizes", "base_lrs", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                msg = f"{name} == {list(values)}, must have one or more different values"
                raise SettingsError(msg)
        rows = [len(row) for row in self.responses]
        if rows != [len(self.base_lrs)] * len(self.batch_sizes):
            msg = (
                f"responses has rows of {rows}, must have one row per batch size "
                "with one value per base_lr"
            )
            raise SettingsError(msg)
        for batch_size in self.batch_sizes:
            self.members(batch_size)

    def members(self, batch_size: int) -> list[TrainSettings]:
        """Return the runs of one batch size."""
        caps = self.responses[self.batch_sizes.index(batch_size)]
        return [
            TrainSettings(
                seed=seed,
                batch_size=batch_size,
                base_lr=base_lr,
                responses=responses,
                **self.shared,
            )
            for base_lr, responses in zip(self.base_lrs, caps, strict=True)
            for seed in self.seeds
        ]

    @property
    def total_responses(self) -> int:
        """Responses of all runs together, an estimate of the work."""
        return sum(m.rollouts * m.batch_size for b in self.batch_sizes for m in self.members(b))


def load_sweep(path: Path) -> SweepSettings:
    """Read a sweep from a TOML file with a table ``[grid]`` and, if wanted, a table ``[train]``.

    ``[grid]`` holds `batch_sizes`, `base_lrs`, `seeds` and `responses` (a number, a list with one
    for each base learning rate, or a list of such lists, one for each batch size); ``[train]``
    holds other fields of `TrainSettings`, where ``"none"`` stands for "no clip".

    Raises
    ------
    SettingsError
        In one line: no TOML, an unknown or missing key, a wrong type, a value out of range.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
        msg = f"{path}: cannot be read as TOML ({err})"
        raise SettingsError(msg) from err
    _known(content, ("grid", "train"), f"{path}")
    tables = {name: content.get(name, {}) for name in ("grid", "train")}
    for name, table in tables.items():
        if not isinstance(table, dict):
            msg = f"{path}: {name} must be a table, [{name}]"
            raise SettingsError(msg)
    grid, shared = tables["grid"], tables["train"]
    _known(grid, _GRID, f"{path}: [grid]", all_needed=True)
    hints = get_type_hints(TrainSettings)
    _known(shared, [f.name for f in fields(TrainSettings) if f.name not in _VARIED],
           f"{path}: [train]")  # fmt: skip
    try:
        settings = {k: _typed(k, v, hints[k]) for k, v in shared.items()}
        return _sweep(grid, settings)
    except SettingsError as err:
        msg = f"{path}: {err}"
        raise SettingsError(msg) from err


def run_sweep(
    sweep: SweepSettings, out: Path, *, progress: Progress | None = None, resume: bool = True
) -> list[Path]:
    """Train every run of a sweep into ``out/runs/RUN_ID``, one batch size after the other.

    Parameters
    ----------
    sweep : SweepSettings
        The grid.
    out : Path
        Output folder; base policies and checkpoints go to ``out/.cache``.
    progress : Progress, optional
        Called with responses done, responses in all and a text.
    resume : bool
        Skip finished runs and continue unfinished ones; else an existing run is an error.

    Returns
    -------
    list of Path
        The runs' folders.
    """
    total, before, folders = sweep.total_responses, 0, []
    for batch_size in sweep.batch_sizes:
        members = sweep.members(batch_size)
        inner = None if progress is None else _Shifted(progress, before, total)
        folders += train(members, out / "runs", progress=inner, resume=resume, cache=out / ".cache")
        before += sum(m.rollouts * m.batch_size for m in members)
        if progress is not None:
            progress(before, total, f"B={batch_size} done")
    return folders


@dataclass(frozen=True)
class _Shifted:
    """A progress callable for one part of a larger work."""

    inner: Progress
    before: int
    whole: int

    def __call__(self, done: int, total: int, text: str) -> None:  # noqa: ARG002 - Progress
        self.inner(self.before + done, self.whole, text)


def _sweep(grid: Mapping[str, Any], shared: Mapping[str, Any]) -> SweepSettings:
    lists: dict[str, Any] = {}
    for name, kind in zip(_GRID, (int, float, int, int), strict=True):
        value = grid[name]
        if name == "responses":
            lists[name] = _caps(value, len(lists["batch_sizes"]), len(lists["base_lrs"]))
            continue
        if not isinstance(value, list):
            msg = f"{name} == {value!r}, must be a list"
            raise SettingsError(msg)
        lists[name] = tuple(_typed(name, item, kind) for item in value)
    return SweepSettings(**lists, shared=dict(shared))


def _caps(value: Any, n_sizes: int, n_lrs: int) -> tuple[tuple[int, ...], ...]:
    """Spread a number, or a row, to a row for each batch size."""
    row = value if isinstance(value, list) else [value] * n_lrs
    rows = row if row and isinstance(row[0], list) else [row] * n_sizes
    return tuple(
        tuple(_typed("responses", item, int) for item in (r if isinstance(r, list) else [r]))
        for r in rows
    )


def _known(table: Mapping[str, Any], names: Any, where: str, *, all_needed: bool = False) -> None:
    unknown = sorted(set(table) - set(names))
    if unknown:
        msg = f"{where}: unknown key {unknown[0]!r}; known: {', '.join(names)}"
        raise SettingsError(msg)
    missing = [name for name in names if name not in table]
    if all_needed and missing:
        msg = f"{where}: key {missing[0]!r} is missing"
        raise SettingsError(msg)


def _typed(name: str, value: Any, kind: Any) -> Any:
    """Return `value` as `kind`, a type or ``float | None``; ``"none"`` is None in the latter."""
    optional = kind == (float | None)
    if optional and value == "none":
        return None
    wanted = float if optional else kind
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        also = ' or "none"' if optional else ""
        msg = f"{name} == {value!r}, must be {wanted.__name__}{also}"
        raise SettingsError(msg)
    return value
