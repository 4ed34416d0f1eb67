"""verl's configuration as facts: from Hydra files, or from what a console printed of it.

`train_batch_size` and `ppo_mini_batch_size` count prompts. Clipping is decided by configuration;
where a verl configuration does not name a bound, verl's own default stands (source "derived").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from twoclock.frameworks.yaml_text import load_yaml
from twoclock.sources.base import Fact

Flat = dict[str, Any]
"""Dotted names to plain values."""

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_SIZE_LIMIT = 4 << 20
_OVERRIDE = re.compile(
    r"(?<![\w.])[+]{0,2}((?:data|actor_rollout_ref|algorithm|trainer|critic)(?:\.\w+)+)=(\S+)"
)
_TOKEN = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([{}\[\]:,])|([^\s{}\[\]:,'\"]+)")
_WORDS = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
DEFAULT_CLIP, DEFAULT_DUAL_CLIP = 0.2, 3.0


def facts_of(config: Mapping[str, Any], total_steps: int | None = None) -> dict[str, Fact]:
    """Return the facts of a flat verl configuration.

    Parameters
    ----------
    config : mapping
        Dotted names to values.
    total_steps : int, optional
        Training steps planned, for a warm-up given as a share of them.

    Examples
    --------
    >>> flat = {"data.train_batch_size": 64, "actor_rollout_ref.rollout.n": 8,
    ...         "actor_rollout_ref.actor.ppo_mini_batch_size": 16,
    ...         "actor_rollout_ref.actor.ppo_epochs": 4}
    >>> facts = facts_of(flat)
    >>> facts["prompts_per_rollout"].value, facts["group_size"].value, facts["minibatches"].value
    (64.0, 8.0, 4)
    """
    facts: dict[str, Fact] = {}
    prompts, group = _number(config, "data.train_batch_size"), _number(config, f"{_ROLLOUT}.n")
    _put(facts, "prompts_per_rollout", prompts)
    _put(facts, "group_size", group)
    mini = _number(config, f"{_ACTOR}.ppo_mini_batch_size")
    if prompts and mini and mini > 0:
        _put(facts, "minibatches", max(1, -(-int(prompts) // int(mini))))
    _put(facts, "epochs", _number(config, f"{_ACTOR}.ppo_epochs"))
    generated = _number(config, "data.gen_batch_size")
    if generated and group:
        _put(facts, "gen_batch_responses", generated * group)
    _put(facts, "lr", _number(config, f"{_ACTOR}.optim.lr"))
    _put(facts, "grad_clip", _number(config, f"{_ACTOR}.grad_clip"))
    _put(facts, "optimizer", config.get(f"{_ACTOR}.optim.optimizer"))
    scheduler = config.get(f"{_ACTOR}.optim.lr_scheduler_type")
    _put(facts, "lr_schedule", scheduler or config.get(f"{_ACTOR}.optim.warmup_style"))
    _put(facts, "kl_coef", _kl_coef(config))
    _put(facts, "model", config.get("actor_rollout_ref.model.path"))
    _put(facts, "task", _task(config.get("data.train_files")))
    seeds = ("data.seed", f"{_ACTOR}.data_loader_seed", f"{_ACTOR}.fsdp_config.seed")
    _put(facts, "seed", next((s for k in seeds if (s := _number(config, k)) is not None), None))
    if prompts and group:
        _put(facts, "warmup_responses", _warmup(config, prompts * group, total_steps))
    facts.update(_clips(config))
    return facts


def _put(facts: dict[str, Fact], name: str, value: Any) -> None:
    if value is not None:
        facts[name] = Fact(value, "config")


def _number(config: Mapping[str, Any], name: str) -> float | None:
    """Return a number, also where YAML took ``1e-6`` for a text."""
    value = config.get(name)
    if value is None or isinstance(value, bool | list | dict):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number == number else None


def _task(files: Any) -> str | None:
    """Return the data set's name: the last two parts of its path, without the ending."""
    if isinstance(files, list):
        return "+".join(name for item in files if (name := _task(item))) or None
    if not isinstance(files, str):
        return None
    parts = [part for part in files.split("/") if part]
    return "/".join([*parts[-2:-1], parts[-1].partition(".parquet")[0]]) if parts else None


def _kl_coef(config: Mapping[str, Any]) -> float | None:
    in_loss = config.get(f"{_ACTOR}.use_kl_loss")
    in_reward = config.get("algorithm.use_kl_in_reward")
    if in_loss:
        return _number(config, f"{_ACTOR}.kl_loss_coef")
    if in_reward:
        return _number(config, "algorithm.kl_ctrl.kl_coef")
    return 0.0 if in_loss is False and in_reward is False else None


def _warmup(config: Mapping[str, Any], responses: float, total_steps: int | None) -> float | None:
    steps = _number(config, f"{_ACTOR}.optim.lr_warmup_steps")
    share = _number(config, f"{_ACTOR}.optim.lr_warmup_steps_ratio")
    if steps is not None and steps >= 0:
        return steps * responses
    if share is None:
        return None
    planned = _number(config, "trainer.total_training_steps") or total_steps
    if share == 0:
        return 0.0
    return int(share * planned) * responses if planned else None


def _clips(config: Mapping[str, Any]) -> dict[str, Fact]:
    """Return the clip bounds; truncated or masked ratios count as clipping that acts."""
    if not any(name.startswith("actor_rollout_ref.") for name in config):
        return {}
    both = _number(config, f"{_ACTOR}.clip_ratio")
    out: dict[str, Fact] = {}
    for name in ("low", "high"):
        own = _number(config, f"{_ACTOR}.clip_ratio_{name}")
        value = own if own is not None else both
        known = value is not None
        out[f"clip_{name}"] = Fact(
            value if known else DEFAULT_CLIP, "config" if known else "derived"
        )
    dual = _number(config, f"{_ACTOR}.clip_ratio_c")
    known = dual is not None
    out["clip_dual"] = Fact(dual if known else DEFAULT_DUAL_CLIP, "config" if known else "derived")
    cap = _number(config, f"{_ACTOR}.tis_imp_ratio_cap")
    truncated = config.get("algorithm.rollout_correction.rollout_is") not in (None, False)
    if truncated or (cap is not None and cap > 0):
        out["clip_active"] = Fact("yes", "config")
    return out


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of nested mappings, without recursion deeper than 40."""
    if isinstance(value, Mapping) and prefix.count(".") < 40:
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def parse_overrides(texts: Iterable[str]) -> Flat:
    """Return the ``key=value`` overrides in command lines or in `overrides.yaml`.

    Examples
    --------
    >>> parse_overrides(["python -m verl.trainer.main_ppo data.train_batch_size=64 +x=1"])
    {'data.train_batch_size': '64'}
    """
    out: Flat = {}
    for text in texts:
        for name, value in _OVERRIDE.findall(text):
            value = value.strip("'\"")
            out[name] = _WORDS.get(value, value)
    return out


def parse_printed(text: str) -> Flat:
    """Return what a pretty-printed Python dict says, tolerating damage; nothing is evaluated.

    Examples
    --------
    >>> parse_printed("{'data': {'train_batch_size': 32, 'files': ['a', 'b']}, 'x': None}")
    {'data.train_batch_size': '32', 'data.files': ['a', 'b'], 'x': None}
    """
    out: Flat = {}
    path: list[str] = []
    key: str | None = None
    items: list[Any] | None = None
    pending: str | None = None
    for single, double, mark, word in _TOKEN.findall(text):
        if mark == ":" and pending is not None:
            key, pending = pending, None
        elif mark == "{" and items is None:
            if key is not None:
                path.append(key)
            key = None
        elif mark == "}" and items is None:
            if path:
                path.pop()
        elif mark == "[":
            items = []
        elif mark == "]":
            if key is not None:
                out[".".join([*path, key])] = items or []
            key, items = None, None
        elif not mark:
            value = _WORDS.get(word, word) if word else single or double
            if items is not None:
                items.append(value)
            elif key is not None:
                out[".".join([*path, key])] = value
                key = None
            else:
                pending = single or double
    return out


def find_config(log: Path) -> tuple[Flat, tuple[Path, ...]]:
    """Return the Hydra configuration of a log: beside it, or one whose experiment it names.

    Parameters
    ----------
    log : Path
        The log file.

    Returns
    -------
    tuple of dict, tuple of Path
        The flat configuration and the files that it came from; both empty when there is none.
    """
    name = log.name.split(".")[0]
    for distance, folder in enumerate([log.parent, log.parent / name, *log.parent.parents[:2]]):
        for place in (folder / ".hydra", folder / "hydra", folder):
            config = _load(place / "config.yaml")
            overrides = _load(place / "overrides.yaml")
            flat = dict(flatten(config)) if isinstance(config, Mapping) else {}
            if isinstance(overrides, list):
                flat |= parse_overrides(str(item) for item in overrides)
            if not any(key.startswith(("data.", "actor_rollout_ref.")) for key in flat):
                continue
            experiment = flat.get("trainer.experiment_name")
            alone = distance < 2 and (experiment is None or _alone(log))
            if alone or experiment == name:
                used = (place / "config.yaml", place / "overrides.yaml")
                return flat, tuple(path for path in used if path.is_file())
    return {}, ()


def _alone(log: Path) -> bool:
    """Tell whether no other log file shares the folder."""
    try:
        return sum(1 for path in log.parent.iterdir() if ".jsonl" in path.suffixes) <= 1
    except OSError:
        return False


def _load(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > _SIZE_LIMIT:
            return None
        return load_yaml(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        return None
