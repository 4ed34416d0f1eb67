"""Files that may be logs, found under the given paths: each once, in an order of its own.

Real folders come before links to them, so that a run behind a `latest` link keeps its own name.
Hidden files and folders are passed over. Nothing is opened here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from twoclock.notes import Refusal
from twoclock.runs.units import MLFLOW_RUN, is_service_log, stands_for, unit
from twoclock.sources.tensorboard import is_event_file

LISTED = frozenset(
    (
        ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".log", ".out", ".wandb",
        ".db", ".sqlite", ".sqlite3",
    )
)  # fmt: skip
"""Endings of files that are named when nothing can be read from them."""

TRIED = LISTED | {".txt", ""}
"""Endings of files that are looked at in a folder."""

SUMMARY = "wandb-summary.json"
"""What W&B keeps of a run beside its log."""

UNREADABLE = {".swanlab": "SwanLab's own format, which is not read; export the run as CSV"}
"""Endings of logs that are known and not read, and what to do with them."""

NOT_LOGS = frozenset(
    (
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "vocab.json", "adapter_config.json",
        "preprocessor_config.json", "chat_template.json", "model.safetensors.index.json",
        "wandb-metadata.json", "wandb-summary.json", "package.json", "settings.json",
        "checkpoints.jsonl", "timing_spans.jsonl", "args.json", "hparams.json", "params.json",
        "training_args.json", "training_config.json", "run_config.json", "grpo_config.json",
        "rl.json", "trainer_config.json", "launch.json", "accelerate_config.json", "ds_config.json",
    )
)  # fmt: skip
"""Files that are never logs, in a folder that is searched."""


@dataclass(frozen=True)
class Found:
    """A file to look at.

    Parameters
    ----------
    path : Path
        The file, under the path as the user gave it.
    root : Path
        The given path.
    """

    path: Path
    root: Path

    @property
    def listed(self) -> bool:
        """Is it worth a line when it is no log? Yes if given by name or by its ending."""
        return (
            self.path == self.root or ending(self.path) in LISTED or is_event_file(self.path.name)
        )


def ending(path: Path) -> str:
    """Return the ending of a file name in lower case, looking through ``.gz`` and ``.zst``.

    Examples
    --------
    >>> ending(Path("a/Run.JSONL.gz")), ending(Path("log"))
    ('.jsonl', '')
    """
    if path.suffix.lower() in (".gz", ".zst"):
        path = path.with_suffix("")
    return path.suffix.lower()


def find_files(paths: Sequence[Path]) -> tuple[list[Found], list[Refusal]]:
    """Return the files to look at, sorted by path, and what could not be searched.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders; links are followed, each real file is returned once.
    """
    walk = _Walk()
    for path in paths:
        if path.is_dir():
            walk.folder(path, path)
        elif path.is_file():
            walk.file(*stands_for(path))
        else:
            reason = "is no regular file" if os.path.lexists(path) else "no such file or folder"
            walk.refused.append(Refusal(str(path), reason))
    walk.links()
    return sorted(walk.found, key=lambda f: str(f.path)), walk.refused


class _Walk:
    def __init__(self) -> None:
        self.found: list[Found] = []
        self.refused: list[Refusal] = []
        self._seen: set[str] = set()
        self._links: list[tuple[Path, Path]] = []

    def folder(self, path: Path, root: Path) -> None:
        """Search a folder, nearest files first; without recursion, so depth costs nothing."""
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if not self._is_new(here):
                continue
            try:
                with os.scandir(here) as entries:
                    inside = sorted(entries, key=lambda e: e.name)
            except OSError as err:
                reason = f"folder cannot be searched ({(err.strerror or str(err)).lower()})"
                self.refused.append(Refusal(str(here), reason))
                continue
            waiting += [here / name for name in self._entries(here, root, inside)]

    def _entries(self, here: Path, root: Path, inside: Iterable[os.DirEntry[str]]) -> list[str]:
        folders: list[str] = []
        files: list[str] = []
        for entry in inside:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                self._links.append((here / entry.name, root))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
        if _only_last_values(here, files):
            reason = "holds last values only; give the run's .wandb file or its exported history"
            self.refused.append(Refusal(str(here / SUMMARY), reason))
        files, folders = unit(here, files, folders)
        for name in files:
            if is_tried(here / name):
                self.file(here / name, root)
            elif Path(name).suffix in UNREADABLE:
                reason = UNREADABLE[Path(name).suffix]
                self.refused.append(Refusal(str(here / name), reason))
        return folders[::-1]

    def file(self, path: Path, root: Path) -> None:
        """Take a file unless it was taken under another name."""
        if self._is_new(path):
            self.found.append(Found(path, root))

    def links(self) -> None:
        """Follow the links that were passed over, after all real folders."""
        while self._links:
            links, self._links = sorted(self._links), []
            for path, root in links:
                if path.is_dir():
                    self.folder(path, root)
                elif path.is_file() and is_tried(path) and path.name != MLFLOW_RUN:
                    self.file(path, root)

    def _is_new(self, path: Path) -> bool:
        real = os.path.realpath(path)
        if real in self._seen:
            return False
        self._seen.add(real)
        return True


def _only_last_values(here: Path, files: Collection[str]) -> bool:
    """Tell whether a folder is what is left of a W&B run without its log and its console."""
    if SUMMARY not in files or "output.log" in files:
        return False
    return not any(here.glob("*.wandb")) and not any(here.parent.glob("*.wandb"))


def is_tried(path: Path) -> bool:
    """Tell by its name whether a file of a folder is looked at."""
    if path.name in NOT_LOGS or is_service_log(path):
        return False
    known = path.name == MLFLOW_RUN or is_event_file(path.name)
    return known or ending(path) in TRIED
