"""Settings given as ``name=value``: Hydra's overrides in `overrides.yaml` and on command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from twoclock.frameworks.yaml_text import load_yaml

_OVERRIDE = re.compile(r"(?<![\w.])[+]{0,2}([A-Za-z_]\w*(?:\.\w+)+|[a-z]\w*)=(\S+)")
_WORDS = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
_SIZE_LIMIT = 1 << 20


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return the ``name=value`` overrides in command lines or in the items of `overrides.yaml`.

    Examples
    --------
    >>> parse_overrides(["python -m verl.trainer.main_ppo data.train_batch_size=64 +trainer.x=1"])
    {'data.train_batch_size': '64', 'trainer.x': '1'}
    """
    out: dict[str, Any] = {}
    for text in texts:
        for name, value in _OVERRIDE.findall(text):
            value = value.strip("'\"")
            out[name] = _WORDS.get(value, value)
    return out


def load_overrides(folder: Path) -> dict[str, Any]:
    """Return the overrides in the `overrides.yaml` of a Hydra folder; empty when there is none."""
    file = folder / "overrides.yaml"
    try:
        if not file.is_file() or file.stat().st_size > _SIZE_LIMIT:
            return {}
        items = load_yaml(file.read_text(encoding="utf-8-sig", errors="replace"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return parse_overrides(str(item) for item in items) if isinstance(items, list) else {}
