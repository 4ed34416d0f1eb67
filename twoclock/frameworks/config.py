"""Configurations as flat mappings: dotted names to plain values, whatever wrote them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from twoclock.frameworks.yaml_text import load_yaml

Flat = Mapping[str, Any]
"""Dotted names to plain values."""

SIZE_LIMIT = 1 << 20
"""Largest configuration file that is read, in bytes."""

MAX_NAMES = 20_000
"""Names of a configuration beyond which the rest is not looked at."""

_DEPTH = 40
_WRAPPERS = ("config", "args", "cfg", "hparams", "training_args", "params")


def flat_config(value: Any) -> dict[str, Any]:
    """Return a nested configuration as a flat one.

    Names given as flags or with slashes become dotted ones, ``{"value": x}`` as in the
    configuration of W&B becomes x, and a wrapper around everything is taken off.

    Examples
    --------
    >>> flat_config({"args": {"lr": {"desc": None, "value": 1e-6}, "--eps-clip": 0.2}})
    {'lr': 1e-06, 'eps_clip': 0.2}
    >>> flat_config({"actor/optim/lr": 1, "a": {"b": [1, 2]}})
    {'actor.optim.lr': 1, 'a.b': [1, 2]}
    """
    out: dict[str, Any] = {}
    for name, item in _flatten(value, ""):
        out[name] = item
        if len(out) >= MAX_NAMES:
            break
    heads = {name.partition(".")[0] for name in out if name != "_wandb"}
    if len(heads) == 1 and (head := next(iter(heads))) in _WRAPPERS:
        out = {name.removeprefix(f"{head}."): item for name, item in out.items()}
    return out


def _flatten(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value and prefix.count(".") < _DEPTH:
        if "value" in value and set(value) <= {"value", "desc"}:
            yield from _flatten(value["value"], prefix)
            return
        for key, item in value.items():
            name = _name(str(key))
            if name != "_wandb":
                yield from _flatten(item, f"{prefix}.{name}" if prefix else name)
    elif prefix:
        yield prefix, value


def _name(key: str) -> str:
    if key.startswith("--"):
        key = key[2:].replace("-", "_")
    return key.replace("/", ".")


def load_config(path: Path) -> dict[str, Any]:
    """Return the flat configuration in a YAML, JSON or TOML file; empty when there is none.

    Nothing is executed: tags of YAML that build objects make the file unreadable.
    """
    try:
        if not path.is_file() or path.stat().st_size > SIZE_LIMIT:
            return {}
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        return flat_config(_parse(text, path.suffix.lower()))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}


def _parse(text: str, ending: str) -> Any:
    if ending == ".json":
        return json.loads(text)
    if ending == ".toml":
        return tomllib.loads(text)
    return load_yaml(text)


def number(config: Flat, name: str) -> float | None:
    """Return a number of a configuration, also where YAML took ``1e-6`` for a text.

    Examples
    --------
    >>> number({"lr": "1e-6", "on": True}, "lr"), number({"on": True}, "on")
    (1e-06, None)
    """
    value = config.get(name)
    if value is None or isinstance(value, bool | list | dict):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found == found else None
