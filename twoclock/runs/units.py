"""Folders that are one log: which file stands for them, and what in them is no log.

Only names are looked at here, and which of many event files is the first with any content.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from twoclock.sources.native import RUN, is_foreign
from twoclock.sources.tensorboard import is_event_file

TABLES = ("runs.parquet", "steps.parquet", "evals.parquet")
"""A folder with these holds tables that twoclock wrote itself."""

MLFLOW_RUN = "meta.yaml"
"""Stands for the folder of an MLflow run, beside folders of metrics and parameters."""

_MLFLOW_PARTS = frozenset(("metrics", "params", "tags", "inputs", "outputs", "traces"))
_WANDB_RUN = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-.+")
_WANDB_OWN = frozenset(("logs", "tmp"))


def unit(
    here: Path, files: Collection[str], folders: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the files of a folder that may be logs, and the folders to go on in.

    Parameters
    ----------
    here : Path
        The folder.
    files, folders : collection of str
        Names in it.

    Examples
    --------
    >>> unit(Path("mlruns/1/ab12"), ["meta.yaml"], ["artifacts", "metrics"])
    (['meta.yaml'], ['artifacts'])
    >>> names = ["events.out.tfevents.7.host", "events.out.tfevents.5.host", "train.log"]
    >>> unit(Path("logs"), names, ["b"])
    (['events.out.tfevents.5.host', 'train.log'], ['b'])
    """
    if RUN in files and not is_foreign(here / RUN):
        return [RUN], list(folders)
    if all(name in files for name in TABLES):
        return [TABLES[0]], list(folders)
    if MLFLOW_RUN in files and not _MLFLOW_PARTS.isdisjoint(folders):
        return [MLFLOW_RUN], [name for name in folders if name not in _MLFLOW_PARTS]
    events = [name for name in files if is_event_file(name)]
    first = _first_event_file(here, events)
    kept = [
        name
        for name in files
        if (name == first or name not in events)
        and not (name == RUN and _is_object(here / name))
        and not is_service_log(here / name)
    ]
    if any(name.endswith(".wandb") for name in files):
        folders = [name for name in folders if name not in _WANDB_OWN]
    elif here.name == "files" and _WANDB_RUN.fullmatch(here.parent.name):
        folders = [name for name in folders if name != "media"]
    return sorted(kept), list(folders)


def _is_object(path: Path) -> bool:
    """Tell whether a JSON file holds one object, such as settings; rows are in an array."""
    try:
        with path.open("rb") as file:
            return file.read(4096).lstrip().startswith(b"{")
    except OSError:
        return False


def _first_event_file(here: Path, names: Collection[str]) -> str:
    """Return the first event file by name that is not empty; the first if all are."""
    in_order = sorted(names)
    return next((name for name in in_order if not _is_empty(here / name)), next(iter(in_order), ""))


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def is_service_log(path: Path) -> bool:
    """Tell whether a file is a log of what W&B itself did.

    Examples
    --------
    >>> is_service_log(Path("wandb/debug-internal.log")), is_service_log(Path("logs/debug.log"))
    (True, False)
    """
    return path.parent.name == "wandb" and path.name.startswith("debug")


def stands_for(path: Path) -> tuple[Path, Path]:
    """Return the file to read for a file that is given by name, and the path it is named after.

    An event file of TensorBoard stands for all in its folder, of which the first by name is taken;
    a file that describes a run stands for its folder.
    """
    if is_event_file(path.name):
        beside = [p.name for p in path.parent.iterdir() if is_event_file(p.name) and p.is_file()]
        return path.parent / _first_event_file(path.parent, beside), path.parent
    if path.name in (RUN, MLFLOW_RUN):
        return path, path.parent
    return path, path
