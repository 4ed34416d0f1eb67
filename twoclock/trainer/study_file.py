"""Read a study from its TOML file, with every fault told in one line. Nothing is trained here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from twoclock.errors import SettingsError
from twoclock.trainer.settings import TrainSettings, with_size
from twoclock.trainer.study import Grid, Study

_GRID = ("batch_sizes", "base_lrs", "seeds", "responses")
_BY_GRID = ("batch_size", "base_lr", "seed", "responses", "variant")
"""Fields of `TrainSettings` that the grid and the variants' names give."""


def load_study(path: Path) -> Study:
    """Read a study from a TOML file.

    ``[grid]`` holds `batch_sizes`, `base_lrs`, `seeds` and `responses` (a number, a list with one
    for each base learning rate, or a list of such lists, one for each batch size). ``[train]``
    holds other fields of `TrainSettings`, where ``"none"`` stands for "no clip", or the key `size`
    for the three of a model's size. Each
    ``[[variant]]`` has a `name`, which ends the names of its runs, and any keys of both tables
    that it replaces; without one the two tables are the study.

    Raises
    ------
    SettingsError
        In one line: no TOML, an unknown or missing key, a wrong type, a value out of range.

    Examples
    --------
    >>> import tempfile
    >>> text = '''
    ... [grid]
    ... batch_sizes = [64]
    ... base_lrs = [1e-4]
    ... seeds = [0]
    ... responses = 4096
    ... [[variant]]
    ... name = "k8"
    ... [[variant]]
    ... name = "k1"
    ... minibatches = 1
    ... base_lrs = [8e-4]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "study.toml"
    ...     _ = file.write_text(text)
    ...     print(*(m.run_id for m in load_study(file).members))
    B00064-lr0.0001-s0-k8 B00064-lr0.0008-s0-k1
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
        msg = f"{path}: cannot be read as TOML ({err})"
        raise SettingsError(msg) from err
    try:
        return _study(content)
    except SettingsError as err:
        msg = f"{path}: {err}"
        raise SettingsError(msg) from err


def _study(content: Mapping[str, Any]) -> Study:
    _known(content, ("grid", "train", "variant"))
    grid, train = (_table(content.get(name, {}), name) for name in ("grid", "train"))
    _known(grid, _GRID, "[grid]: ")
    _known(train, _train_keys(), "[train]: ")
    variants = content.get("variant", [])
    if not isinstance(variants, list):
        msg = "variant must be an array of tables, [[variant]]"
        raise SettingsError(msg)
    if not variants:
        return Study((_grid(grid, _settings(train)),))
    grids: list[Grid] = []
    names: list[str] = []
    for number, variant in enumerate(variants, 1):
        name = _variant_name(_table(variant, "variant"), number, names)
        names.append(name)
        try:
            grids.append(_variant(grid, train, variant))
        except SettingsError as err:
            msg = f"variant {name!r}: {err}"
            raise SettingsError(msg) from err
    return Study(tuple(grids))


def _variant(grid: Mapping[str, Any], train: Mapping[str, Any], variant: Mapping[str, Any]) -> Grid:
    """Return the grid of a variant: the tables of all, with its own keys in their place."""
    own = {k: v for k, v in variant.items() if k != "name"}
    _known(own, (*_GRID, *_train_keys()))
    lists = {**grid, **{k: v for k, v in own.items() if k in _GRID}}
    shared = _settings({k: v for k, v in own.items() if k not in _GRID})
    return _grid(lists, {**_settings(train), **shared, "variant": variant["name"]})


def _variant_name(variant: Mapping[str, Any], number: int, taken: Sequence[str]) -> str:
    name = variant.get("name")
    if not isinstance(name, str) or not name or name in taken:
        got = "is missing" if name is None else f"== {name!r}"
        msg = f"[[variant]] {number}: name {got}, must be a text of its own for each variant"
        raise SettingsError(msg)
    return name


def _train_keys() -> list[str]:
    return ["size", *(f.name for f in fields(TrainSettings) if f.name not in _BY_GRID)]


def _settings(table: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(TrainSettings)
    return {name: _typed(name, value, hints[name]) for name, value in with_size(table).items()}


def _grid(grid: Mapping[str, Any], shared: Mapping[str, Any]) -> Grid:
    _known(grid, _GRID, "[grid]: ", all_needed=True)
    lists: dict[str, Any] = {}
    for name, kind in zip(_GRID[:3], (int, float, int), strict=True):
        value = grid[name]
        if not isinstance(value, list):
            msg = f"{name} == {value!r}, must be a list"
            raise SettingsError(msg)
        lists[name] = tuple(_typed(name, item, kind) for item in value)
    lengths = _lengths(grid["responses"], len(lists["batch_sizes"]), len(lists["base_lrs"]))
    return Grid(**lists, responses=lengths, shared=dict(shared))


def _lengths(value: Any, n_sizes: int, n_lrs: int) -> tuple[tuple[int, ...], ...]:
    """Spread a number, or a row, to a row for each batch size."""
    row = value if isinstance(value, list) else [value] * n_lrs
    rows = row if row and isinstance(row[0], list) else [row] * n_sizes
    return tuple(
        tuple(_typed("responses", item, int) for item in (r if isinstance(r, list) else [r]))
        for r in rows
    )


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        msg = f"{name} must be a table, [{name}]"
        raise SettingsError(msg)
    return value


def _known(
    table: Mapping[str, Any], names: Sequence[str], where: str = "", *, all_needed: bool = False
) -> None:
    unknown = sorted(set(table) - set(names))
    if unknown:
        msg = f"{where}unknown key {unknown[0]!r}; known: {', '.join(names)}"
        raise SettingsError(msg)
    missing = [name for name in names if name not in table]
    if all_needed and missing:
        msg = f"{where}key {missing[0]!r} is missing"
        raise SettingsError(msg)


def _typed(name: str, value: Any, hint: Any) -> Any:
    """Return `value` as `hint`, a type or one ``| None``; ``"none"`` is None in the latter."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    optional = type(None) in get_args(hint)
    if optional and value == "none":
        return None
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and float in kinds and int not in kinds:
        return float(value)
    if type(value) not in kinds:
        also = ' or "none"' if optional else ""
        msg = f"{name} == {value!r}, must be {' or '.join(k.__name__ for k in kinds)}{also}"
        raise SettingsError(msg)
    return value
