"""What every reader takes and gives: a file with its first bytes in, logs out.

A reader says what stands in a log. It does not count responses, choose between keys or resolve
resumed steps: that is the same for every framework and is done once, after reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twoclock.frameworks.base import Fact, Framework, Source
from twoclock.frameworks.config import Flat
from twoclock.notes import Note, printable
from twoclock.reading import ReadOptions
from twoclock.sources.rows import Rows

__all__ = ["Fact", "Head", "Log", "ReadFile", "Reader", "Source"]


@dataclass(frozen=True)
class ReadFile:
    """A file that was read.

    Parameters
    ----------
    path : str
        As given.
    sha256 : str
        Of the file as it lies on disk.
    reader : str
        Name of the reader.
    run_ids : tuple of str
        Runs that were read from it.
    """

    path: str
    sha256: str
    reader: str
    run_ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the file as plain data."""
        return {
            "path": printable(self.path),
            "sha256": self.sha256,
            "reader": self.reader,
            "run_ids": list(self.run_ids),
        }


@dataclass(frozen=True)
class Head:
    """A file before reading: its path and first bytes, decompressed, without a byte-order mark."""

    path: Path
    data: bytes

    @property
    def name(self) -> str:
        """File name in lower case, without ``.gz`` and ``.zst``."""
        name = self.path.name.lower()
        return name.removesuffix(".gz").removesuffix(".zst")

    @property
    def text(self) -> str:
        """First bytes as text."""
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True)
class Log:
    """What one file says about one run.

    Parameters
    ----------
    path : Path
        The file (for a native run: the folder).
    rows : Rows
        Its rows.
    reader : str
        Name of the reader.
    name : str
        Name of the run where the file itself gives one; empty: named after the path.
    framework : str, optional
        Name of the framework that wrote it, where the format tells.
    config : mapping
        The configuration that the sink itself holds (W&B, MLflow, trackio, printed), flat.
    key : str
        What names the run across files (the run id of W&B, MLflow, trackio): logs with one key are
        one run; empty where the format has none.
    started : float, optional
        When writing began (seconds since 1970), to order the parts of a resumed run.
    known : Framework, optional
        The description of the framework, once it has been recognised.
    facts : mapping of str to Fact
        What the log or its configuration says about the run.
    columns : mapping of str to tuple of str
        Keys of this format that go before the general ones.
    metrics : tuple of str
        Keys that are validation series, where the format says so.
    scales : mapping of str to str
        Scale of such a series ("accuracy" or "score") where the format states it.
    step_counts : {"rollout", "optimizer"}
        What one step is.
    first_step : int, optional
        Step of the first training row of the run, where it is known (0 or 1).
    synchronous : bool, optional
        Does the trainer sample and train in turn? None: unknown.
    resumed_at : tuple of int
        Rows before which the log says that it resumed from a checkpoint.
    files : tuple of Path
        Every file that was read for it.
    notes : tuple of Note
        Remarks, without run names yet.
    """

    path: Path
    rows: Rows
    reader: str
    name: str = ""
    framework: str | None = None
    config: Flat = field(default_factory=dict)
    key: str = ""
    started: float | None = None
    known: Framework | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    scales: Mapping[str, str] = field(default_factory=dict)
    step_counts: Literal["rollout", "optimizer"] = "rollout"
    first_step: int | None = None
    synchronous: bool | None = None
    resumed_at: tuple[int, ...] = ()
    files: tuple[Path, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Reader:
    """A log format.

    Parameters
    ----------
    name : str
        Shown by ``twoclock runs``.
    sniff : callable
        Tell from the head whether the file is in this format.
    read : callable
        Read the file; one log for each run in it. Raises SourceError.
    """

    name: str
    sniff: Callable[[Head], bool]
    read: Callable[[Path, ReadOptions], list[Log]]
