"""verl: console logs of a Ray job, and the `file` logger.

A step is one rollout and counts from the very start, also in a resumed log that begins later.
Values of a validation ride on the training row of the same step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclock.errors import SourceError
from twoclock.notes import Note
from twoclock.reading import ReadOptions
from twoclock.sources.base import Fact, Head, Log, Reader
from twoclock.sources.json_rows import iter_objects, mapped_keys, parse
from twoclock.sources.rows import RowStore
from twoclock.sources.text import iter_lines
from twoclock.sources.verl_config import (
    Flat,
    facts_of,
    find_config,
    parse_overrides,
    parse_printed,
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(r"^\s*\(([^()]*\bpid=[^()]*)\)\s?")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
_STEP = re.compile(r"(?:^|[\s\]|])step:(\d+)((?: - [^\s:]+:.*)?)$")
_CONFIG_START = re.compile(r"^\s*\{'(?:actor_rollout_ref|algorithm|data|critic|ray_kwargs)'")
_CONFIG_LINE = re.compile(r"^\s*(?:[{}\[\]'\"]|\d|None|True|False)")
_RESUMED = re.compile(r"Setting global step to \d+|Load from checkpoint folder|Resuming from ")
_PLANNED = re.compile(r"Total training steps: (\d+)")
_ROUNDED = re.compile(r"\d+\.\d{3}")
_MAX_CONFIG_LINES = 20_000
_SEARCHED = 8 << 20
"""Bytes of a console log that are searched for its first step."""


@dataclass
class _Console:
    """What has been seen of a console log so far."""

    store: RowStore
    config: Flat = field(default_factory=dict)
    planned: int | None = None
    last_step: int = 0
    resumed_at: list[int] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    printer: str | None = None
    depth: int = 0
    rounded_lr: int = 0
    decimals: dict[str, int] = field(default_factory=dict)
    cut: int = 0


def read_console(path: Path, options: ReadOptions) -> list[Log]:
    """Read a console log.

    Raises
    ------
    SourceError
        There is no line with a step and metrics.
    """
    notes: list[Note] = []
    seen = _Console(RowStore(mapped_keys(options)))
    for number, prefix, text, ended in _lines(path, notes):
        _see(seen, number, prefix, text, ended)
    if not seen.store.count:
        msg = "no metrics: no line 'step:N - key:value'; the run stopped before its first step"
        raise SourceError(msg, where=str(path))
    seen.config.update(parse_printed("\n".join(seen.printed)))
    facts, config_notes, files = _configured(path, seen.config, seen.planned)
    if seen.planned is not None and seen.last_step >= seen.planned:
        facts["ended"] = Fact("completed", "log")
    if seen.rounded_lr:
        message = "the console rounds lr to 3 decimals: unknown, not 0"
        config_notes.append(Note("rounded_lr", message, where=str(path), count=seen.rounded_lr))
    if seen.cut:
        message = "last line is cut; its last value is left out"
        config_notes.append(Note("cut_line", message, where=f"{path} line {seen.cut}"))
    return [
        Log(
            path,
            seen.store.finish(),
            "verl-console",
            framework="verl",
            facts=facts,
            columns={"step": ("step",)},
            synchronous=True,
            resumed_at=tuple(seen.resumed_at),
            files=(path, *files),
            notes=(*notes, *config_notes),
        )
    ]


def _lines(path: Path, notes: list[Note]) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line, worker, text, has an end) with colours, prefixes and repeat marks removed."""
    for number, raw in iter_lines(path, notes):
        ended = raw.endswith(b"\n")
        pieces = _ANSI.sub("", raw.decode("utf-8", errors="replace")).rstrip("\n").split("\r")
        worker = ""
        for index, piece in enumerate(pieces):
            prefix = _PREFIX.match(piece)
            if prefix:
                worker = prefix[1]
                piece = piece[prefix.end() :]
            yield number, worker, _REPEATED.sub("", piece), ended or index < len(pieces) - 1


def _see(seen: _Console, number: int, worker: str, text: str, ended: bool) -> None:
    if seen.printer is not None:
        if worker == seen.printer and _CONFIG_LINE.match(text):
            seen.printed.append(text)
            seen.depth += text.count("{") - text.count("}")
            if seen.depth <= 0 or len(seen.printed) > _MAX_CONFIG_LINES:
                seen.printer = None
            return
    elif _CONFIG_START.match(text) and not seen.printed:
        seen.printed.append(text)
        seen.depth = text.count("{") - text.count("}")
        seen.printer = worker if seen.depth > 0 else None
        return
    step = _STEP.search(text) if "step:" in text else None
    if step:
        seen.printer = None
        _add_row(seen, number, int(step[1][:18]), step[2], ended)
    elif _RESUMED.search(text):
        seen.resumed_at.append(seen.store.count)
    elif planned := _PLANNED.search(text):
        seen.planned = int(planned[1][:18])
    elif "main_ppo" in text or text.lstrip().startswith(("data.", "actor_rollout_ref.")):
        seen.config.update(parse_overrides([text]))


def _add_row(seen: _Console, number: int, step: int, rest: str, ended: bool) -> None:
    row: dict[str, Any] = {"step": step}
    items = [item.partition(":") for item in rest.split(" - ") if ":" in item]
    if not ended and items and _is_cut(seen, *items[-1]):
        items.pop()
        seen.cut = number
    for key, _, text in items:
        value = text.strip()
        if key.endswith("/lr") and _ROUNDED.fullmatch(value):
            seen.rounded_lr += 1
            continue
        row[key] = value
        if not ended or len(seen.decimals) < 1000:
            seen.decimals[key] = min(_decimals(value), seen.decimals.get(key, 99))
    seen.last_step = max(seen.last_step, step)
    seen.store.add(row, number)


def _is_cut(seen: _Console, key: str, _: str, text: str) -> bool:
    """Tell whether a value at the end of a file without a line end has lost digits."""
    text = text.strip()
    return not text or text[-1] in ".-+e" or _decimals(text) < seen.decimals.get(key, 0)


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _configured(
    path: Path, config: Flat, planned: int | None
) -> tuple[dict[str, Fact], list[Note], tuple[Path, ...]]:
    """Return the facts of the configuration that the log holds, or that lies beside it."""
    files: tuple[Path, ...] = ()
    if not any(key.startswith("actor_rollout_ref.") for key in config):
        near, files = find_config(path)
        config = {**near, **config}
    notes: list[Note] = []
    estimator = config.get("algorithm.adv_estimator")
    if estimator == "gae":
        message = "adv_estimator is gae: PPO with a critic, not GRPO"
        notes.append(Note("not_grpo", message, where=str(path)))
    return facts_of(config, planned), notes, files


def _sniff_console(head: Head) -> bool:
    text = _ANSI.sub("", head.text)
    lines = re.split(r"[\r\n]+", text)
    if any("step:" in line and _STEP.search(line) and " - " in line for line in lines):
        return True
    if "'actor_rollout_ref'" in text or "verl.trainer.main_ppo" in text:
        return True
    if not head.name.endswith((".log", ".out", ".txt")):
        return False
    return _has_step_later(head.path)


def _has_step_later(path: Path) -> bool:
    left = _SEARCHED
    for _, raw in iter_lines(path, []):
        if b"step:" in raw and b" - " in raw:
            line = _ANSI.sub("", raw.decode("utf-8", errors="replace"))
            if any(_STEP.search(piece) for piece in line.rstrip().split("\r")):
                return True
        left -= len(raw)
        if left < 0:
            return False
    return False


VERL_CONSOLE = Reader("verl-console", _sniff_console, read_console)


def read_file_logger(path: Path, options: ReadOptions) -> list[Log]:
    """Read a log of verl's `file` logger, with the Hydra configuration near it.

    Raises
    ------
    SourceError
        There is no row.
    """
    notes: list[Note] = []
    store = RowStore(mapped_keys(options))
    for line, row in iter_objects(path, notes):
        data = row.get("data")
        if isinstance(data, Mapping):
            store.add({**data, "step": row.get("step")}, line)
    if not store.count:
        msg = "no data: not one complete row"
        raise SourceError(msg, where=str(path))
    facts, more, files = _configured(path, {}, None)
    return [
        Log(
            path,
            store.finish(),
            "verl-file",
            framework="verl",
            facts=facts,
            columns={"step": ("step",)},
            synchronous=True,
            files=(path, *files),
            notes=(*notes, *more),
        )
    ]


def _sniff_file(head: Head) -> bool:
    first = head.data.lstrip().partition(b"\n")[0]
    if not first.startswith(b"{"):
        return False
    try:
        row = parse(first)
    except (ValueError, RecursionError):
        return first.startswith((b'{"step":', b'{"data":')) and b'"data":{' in first[:60]
    data = row.get("data") if isinstance(row, dict) else None
    return isinstance(data, dict) and "step" in row and any("/" in str(key) for key in data)


VERL_FILE = Reader("verl-file", _sniff_file, read_file_logger)
