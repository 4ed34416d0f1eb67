"""Logs at an address (``s3://``, ``gs://``, ``hf://``, ``https://``), read as copies.

Only files that could be logs or their configurations are copied, into a folder that is gone
afterwards. Nothing else knows of it: results and messages carry the addresses.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from twoclock.errors import SourceError, TwoclockError
from twoclock.notes import Refusal, printable
from twoclock.progress import Progress
from twoclock.runs import configs, sidecar
from twoclock.runs.finding import is_tried
from twoclock.runs.places import Place
from twoclock.runs.units import MLFLOW_RUN, TABLES
from twoclock.sources.native import RUN
from twoclock.sources.tensorboard import is_event_file

MAX_DOWNLOAD = 20.0
"""GiB that are copied at most unless the user says otherwise."""

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "hf": "hf"}
"""Extras of this package by protocol; others need ``remote``."""

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_TAKEN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/[^/]")
_CONFIG_ENDINGS = (".yaml", ".yml", ".toml", ".db-wal", ".sqlite-wal", ".sqlite3-wal")
_MLFLOW_PARTS = frozenset(("metrics", "params", "tags"))
_PART = 1 << 20


def is_address(path: str | Path) -> bool:
    """Tell whether a path is an address on another machine (or in a store of fsspec).

    Examples
    --------
    >>> is_address("s3://bucket/logs"), is_address("logs/s3"), is_address("C:/logs")
    (True, False, False)
    """
    return _ADDRESS.match(_spoken(path)) is not None


def _spoken(path: str | Path) -> str:
    """Return a path as it was written: `Path` takes one of the slashes of an address."""
    text = str(path)
    if isinstance(path, Path) and _TAKEN.match(text) and not path.exists():
        return text.replace(":/", ":///" if text.startswith("file:") else "://", 1)
    return text


@contextmanager
def fetched(
    paths: Sequence[str | Path], limit: float | None = None, progress: Progress | None = None
) -> Iterator[Place]:
    """Give the paths on this machine for a while: local ones as they are, others as copies.

    Parameters
    ----------
    paths : sequence of str or Path
        Paths and addresses.
    limit : float, optional
        GiB that are copied at most, all addresses together.
    progress : callable, optional
        Called with (bytes done, bytes in all, address).
    """
    place = Place(tuple(_spoken(path) for path in paths))
    if not any(is_address(path) for path in place.given):
        place.paths.extend(Path(path) for path in paths)
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="twoclock-") as folder:
        budget = _Budget(MAX_DOWNLOAD if limit is None else limit, progress)
        for number, path in enumerate(place.given):
            if not is_address(path):
                place.paths.append(Path(path))
                continue
            try:
                here = _fetch(path, Path(folder).resolve() / str(number), budget, place)
            except Exception as err:  # stores of all kinds raise errors of all kinds
                place.refused.append(Refusal(path, _reason(path, err)))
            else:
                place.paths.append(here)
        try:
            yield place
        except TwoclockError as err:
            raise place.error(err) from err


class _Budget:
    """Bytes that may still be copied, and how far it is."""

    def __init__(self, limit: float, progress: Progress | None) -> None:
        self.limit = limit
        self.left = int(limit * 2**30)
        self._progress = progress
        self._done = self._total = 0

    def plan(self, size: int) -> None:
        """Take the size of what is to be copied into account."""
        self._total += size
        if size > self.left:
            self.exceed()

    def exceed(self) -> None:
        """Raise for more than may be copied."""
        msg = (
            f"holds more than {self.limit:g} GiB of files that could be logs; raise --max-download"
        )
        raise SourceError(msg)

    def copied(self, size: int, address: str) -> None:
        """Count what was copied."""
        self.left -= size
        self._done += size
        if self.left < 0:
            self.exceed()
        if self._progress is not None:
            self._progress(self._done, max(self._total, self._done), f"copying {address}")


def _fetch(address: str, folder: Path, budget: _Budget, place: Place) -> Path:
    """Copy what may be logs at an address; return where it lies now."""
    import fsspec

    store, root = fsspec.core.url_to_fs(address)
    root = str(root).rstrip("/")
    here = folder.joinpath(*_parts(root)) if _parts(root) else folder / "root"
    is_file = store.isfile(root)
    sizes = _file_sizes(store, root) if is_file else _folder_sizes(store, root)
    top = root.rpartition("/")[0] if is_file else root
    place.addresses[str(here)] = address.rstrip("/")
    if is_file:
        place.addresses[str(here.parent)] = address.rstrip("/").rpartition("/")[0]
    budget.plan(sum(size or 0 for size in sizes.values()))
    (here.parent if is_file else here).mkdir(parents=True, exist_ok=True)
    for name in sorted(sizes):
        below = _below(name, top)
        where = f"{place.text(str(here.parent if is_file else here))}/{below}"
        if below is None or ".." in PurePosixPath(below).parts:
            place.refused.append(Refusal(printable(name), "its name leads out of the folder"))
            continue
        target = (here.parent if is_file else here) / below
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(store, name, target, budget, where)
        except (FileNotFoundError, PermissionError, FileExistsError, NotADirectoryError) as err:
            place.refused.append(Refusal(where, _reason(address, err)))
    return here


def _copy(store: Any, name: str, target: Path, budget: _Budget, where: str) -> None:
    """Copy one file in parts, so that a size that was not told costs no more than allowed."""
    with store.open(name, "rb") as source, target.open("xb") as copy:
        while part := source.read(_PART):
            budget.copied(len(part), where)
            if len(part) > shutil.disk_usage(target.parent).free:
                msg = "the disk of this machine is full; set TMPDIR to a larger one"
                raise SourceError(msg)
            copy.write(part)


def _folder_sizes(store: Any, root: str) -> dict[str, int | None]:
    """Return the files below a folder that may be logs or their configurations, with sizes."""
    listed = store.find(root, detail=True)
    if not listed and not store.exists(root):
        raise FileNotFoundError(root)
    return {
        str(name): info.get("size")
        for name, info in listed.items()
        if info.get("type") != "directory" and is_wanted(_below(str(name), root) or "")
    }


def _file_sizes(store: Any, root: str) -> dict[str, int | None]:
    """Return a file and those beside it that belong to it."""
    sizes: dict[str, int | None] = {root: store.info(root).get("size")}
    name = PurePosixPath(root).name
    unit = name in (RUN, MLFLOW_RUN, *TABLES) or is_event_file(name)
    try:
        beside: Iterable[Mapping[str, Any]] = store.ls(root.rpartition("/")[0], detail=True)
    except Exception:  # a server that lists nothing has told the file itself
        return sizes
    for info in beside:
        other = str(info["name"]).rstrip("/")
        known = PurePosixPath(other).name
        if info.get("type") == "file" and (is_setting(known) or (unit and is_wanted(known))):
            sizes.setdefault(other, info.get("size"))
    return sizes


def is_wanted(name: str) -> bool:
    """Tell by its path below the given folder whether a file may be a log or its configuration.

    Examples
    --------
    >>> is_wanted("run1/metrics.jsonl"), is_wanted("run1/model.safetensors"), is_wanted(".git/x")
    (True, False, False)
    >>> is_wanted("run1/.hydra/overrides.yaml"), is_wanted("0/ab12/metrics/loss.mean")
    (True, True)
    """
    path = PurePosixPath(name)
    if any(part.startswith(".") and part not in (*configs.HYDRA, "..") for part in path.parts):
        return False
    mlflow = not _MLFLOW_PARTS.isdisjoint(path.parts[:-1])
    return bool(path.name) and (is_setting(path.name) or mlflow or is_tried(Path(name)))


def is_setting(name: str) -> bool:
    """Tell by its name whether a file may be a configuration of a log."""
    return name in (*configs.NAMES, *sidecar.NAMES) or name.lower().endswith(_CONFIG_ENDINGS)


def _below(name: str, root: str) -> str | None:
    """Return a path as seen from a folder of the store; None when it is not in it."""
    top = root.rstrip("/") + "/"
    if name.startswith(top):
        return name[len(top) :].lstrip("/")
    return name.lstrip("/") if root in ("", ".", "/") else None


def _parts(path: str) -> list[str]:
    path = path.partition("://")[2] or path
    return [part for part in PurePosixPath(path).parts if part not in ("/", "..", ".")]


def _reason(address: str, err: Exception) -> str:
    """Return in one line why an address cannot be read."""
    protocol = address.partition("://")[0].lower()
    kind = type(err).__name__
    text = printable(" ".join(str(err).split()))[:200]
    if isinstance(err, SourceError):
        return err.reason
    if isinstance(err, ImportError):
        extra = EXTRAS.get(protocol, "remote")
        return f"{protocol}:// needs a package more; pip install 'twoclock[{extra}]'"
    if isinstance(err, FileNotFoundError):
        return "no such file or folder"
    if isinstance(err, PermissionError) or "Credential" in kind or "Forbidden" in text:
        return f"access is denied; check the credentials of this machine ({text or kind})"
    if isinstance(err, ValueError) and "rotocol not known" in text:
        return f"{protocol}:// is not known; fsspec reads s3, gs, hf, https and others"
    return f"cannot be read ({kind}: {text})" if text else f"cannot be read ({kind})"
