"""Write runs in the native log format, from any training loop; needs no torch.

A run is a folder: `run.json` (one `runs` row and ``"format"``) and `metrics.jsonl`, one line per
rollout (``"kind": "train"``), per validation (``"kind": "eval"``) and per probe (``"kind":
"probe"``), with the column names of `twoclock.schema`. Reading is not done here.

Three conventions. In `run.json` a clip of null means "no such clip"; an absent key means "not
logged". A NaN or infinite value in a train or probe row is written as null and its column named in
``nonfinite`` (``"loss": null, "nonfinite": "loss"``): JSON has no NaN, and it must not get lost.
Rows reach the file when `RunLog.flush` is called, so a killed run ends with whole rollouts.
"""

from __future__ import annotations

import glob
import gzip
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson

from twoclock.errors import LogFormatError
from twoclock.schema import ENDED, EVALS, LOG_FORMAT, PROBES, STEPS

NULLABLE = ("clip_low", "clip_high", "clip_dual", "grad_clip")
"""Columns of `run.json` in which null says "no such clip"."""

_TRAIN = frozenset(STEPS.names) - {"run_id"}
_EVAL = frozenset(EVALS.names) - {"run_id"}
_PROBE = frozenset(PROBES.names) - {"run_id"}


class RunLog:
    """A run folder that is being written; made by `create_run` or `resume_run`.

    Parameters
    ----------
    folder : Path
        The run's folder, with `run.json` and `metrics.jsonl`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with create_run(Path(root) / "a", {"batch_size": 64, "clip_low": None}) as log:
    ...         log.eval({"rollout": 0, "responses": 0, "accuracy": 0.5, "n": 500})
    ...         log.train({"rollout": 1, "responses": 64, "loss": math.nan})
    ...         log.finish("completed")
    ...     print((Path(root) / "a" / "metrics.jsonl").read_text().splitlines()[1])
    {"kind":"train","rollout":1,"responses":64,"loss":null,"nonfinite":"loss"}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = (folder / "metrics.jsonl").open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def train(self, row: Mapping[str, Any]) -> None:
        """Append the row of one rollout; needs `rollout` and `responses`."""
        self._append("train", mark_nonfinite(row), _TRAIN, ("rollout", "responses"))

    def eval(self, row: Mapping[str, Any]) -> None:
        """Append one validation; needs `responses` and `accuracy`."""
        self._append("eval", row, _EVAL, ("responses", "accuracy"))

    def probe(self, row: Mapping[str, Any]) -> None:
        """Append the probe of one rollout; needs `rollout` and `responses`."""
        self._append("probe", mark_nonfinite(row), _PROBE, ("rollout", "responses"))

    def flush(self) -> None:
        """Hand everything appended so far to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file; the run stays resumable."""
        self._file.close()

    def finish(self, ended: str, *, compress: bool = False) -> None:
        """Close the log and set `ended` in `run.json`.

        Parameters
        ----------
        ended : {"completed", "stopped", "crashed", "unknown"}
            How the run ended.
        compress : bool
            Replace `metrics.jsonl` by `metrics.jsonl.gz`; equal rows give equal bytes.
        """
        if ended not in ENDED:
            msg = f"ended == {ended!r}, must be one of {', '.join(ENDED)}"
            raise LogFormatError(msg)
        self.close()
        if compress:
            plain = self.folder / "metrics.jsonl"
            _replace(self.folder / "metrics.jsonl.gz", gzip.compress(plain.read_bytes(), mtime=0))
            plain.unlink()
        run = read_header(self.folder)
        _replace(self.folder / "run.json", _pretty({**run, "ended": ended}))

    def _append(
        self, kind: str, row: Mapping[str, Any], known: frozenset[str], needed: tuple[str, ...]
    ) -> None:
        unknown = sorted(row.keys() - known)
        missing = [name for name in needed if row.get(name) is None]
        if unknown or missing:
            fault = f"unknown column {unknown[0]!r}" if unknown else f"no {missing[0]!r}"
            msg = f"{self.folder.name}: {kind} row has {fault}; `twoclock schema` lists them"
            raise LogFormatError(msg)
        line = orjson.dumps({"kind": kind, **row}, option=orjson.OPT_SERIALIZE_NUMPY)
        self._file.write(line + b"\n")


def create_run(folder: Path, run: Mapping[str, Any], *, replace: bool = False) -> RunLog:
    """Create a run folder in one step and open it for writing.

    Parameters
    ----------
    folder : Path
        Must not exist, unless `replace`.
    run : mapping
        Columns of the `runs` table; None only in `NULLABLE` columns, "no such clip". Other keys
        are kept as they are when they hold a text or a number.
    replace : bool
        Start again an unfinished run that is there.

    Raises
    ------
    LogFormatError
        The folder exists, or a value cannot be written.
    """
    ended = folder.exists() and read_header(folder).get("ended", "unknown") != "unknown"
    if ended or (folder.exists() and not replace):
        msg = f"{folder}: exists; resume it or choose another folder"
        raise LogFormatError(msg)
    _check_run(run, folder)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):  # of a killed process
        shutil.rmtree(left)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    fresh.mkdir(parents=True)
    header = {"format": LOG_FORMAT, "run_id": folder.name, **run}
    (fresh / "run.json").write_bytes(_pretty({"ended": "unknown", **header}))
    (fresh / "metrics.jsonl").touch()
    if folder.exists():  # goes in one step: half a folder would be no run that can start again
        old = folder.with_name(f".{folder.name}.{os.getpid()}.old.new")
        folder.rename(old)
        shutil.rmtree(old)
    fresh.rename(folder)
    return RunLog(folder)


def resume_run(folder: Path, *, rollout: int, reopen: bool = False) -> RunLog:
    """Open an unfinished run for writing after `rollout`, dropping later rows and torn lines.

    Parameters
    ----------
    folder : Path
        The run's folder.
    rollout : int
        Rows of later rollouts go.
    reopen : bool
        Open a run that has ended, too (one that crashed, say); it is unfinished again.

    Raises
    ------
    LogFormatError
        The folder is no unfinished run.
    """
    path, packed = folder / "metrics.jsonl", folder / "metrics.jsonl.gz"
    for left in folder.glob(".*.new"):  # of a killed process
        left.unlink()
    run = read_header(folder)
    ended = run.get("ended", "unknown") != "unknown"
    if (ended and not reopen) or not (path.exists() or packed.exists()):
        msg = f"{folder}: only an unfinished run with its metrics can be resumed"
        raise LogFormatError(msg)
    if packed.exists():  # killed while it was being finished
        if not path.exists():
            _replace(path, gzip.decompress(packed.read_bytes()))
        packed.unlink()
    lines = _whole_lines(path.read_bytes())
    kept = [line for line in lines if _row(line, path)["rollout"] <= rollout]
    _replace(path, b"".join(kept))
    if ended:
        _replace(folder / "run.json", _pretty({**run, "ended": "unknown"}))
    return RunLog(folder)


def read_header(folder: Path) -> dict[str, Any]:
    """Return the content of `run.json`.

    Raises
    ------
    LogFormatError
        It is missing, damaged or of another format.
    """
    path = folder / "run.json"
    try:
        run = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as err:
        msg = f"{path}: cannot be read ({err})"
        raise LogFormatError(msg) from err
    if not isinstance(run, dict) or run.get("format") != LOG_FORMAT:
        msg = f"{path}: 'format' must be {LOG_FORMAT!r}"
        raise LogFormatError(msg)
    return run


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's log, without a last line that a kill has torn.

    Raises
    ------
    LogFormatError
        There is no log, or a line in it is damaged.
    """
    path, packed = folder / "metrics.jsonl", folder / "metrics.jsonl.gz"
    try:
        packed_only = packed.exists() and not path.exists()
        content = gzip.decompress(packed.read_bytes()) if packed_only else path.read_bytes()
    except OSError as err:
        msg = f"{path}: cannot be read ({err})"
        raise LogFormatError(msg) from err
    return [_row(line, path) for line in _whole_lines(content)]


def mark_nonfinite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return `row` with NaN and infinite values as None, their columns named in ``nonfinite``.

    Examples
    --------
    >>> mark_nonfinite({"rollout": 3, "loss": float("inf"), "kl_old": float("nan")})
    {'rollout': 3, 'loss': None, 'kl_old': None, 'nonfinite': 'loss,kl_old'}
    """
    bad = [k for k, v in row.items() if isinstance(v, float | np.floating) and not math.isfinite(v)]
    if not bad:
        return dict(row)
    return {**{k: None if k in bad else v for k, v in row.items()}, "nonfinite": ",".join(bad)}


def _whole_lines(content: bytes) -> list[bytes]:
    """Return the lines of a log but a last one that a kill has torn."""
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def _row(line: bytes, path: Path) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
        return {**row, "rollout": int(row.get("rollout", 0))}
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as err:
        msg = f"{path}: a damaged line ({err}); delete the run's folder to start it again"
        raise LogFormatError(msg) from err


def _check_run(run: Mapping[str, Any], folder: Path) -> None:
    for name, value in run.items():
        if value is None and name not in NULLABLE:
            msg = f"{folder.name}: {name} is None; leave out what is not known"
            raise LogFormatError(msg)
        if value is not None and not isinstance(value, str | int | float):
            msg = f"{folder.name}: {name} is a {type(value).__name__}; must be a text or a number"
            raise LogFormatError(msg)
        if isinstance(value, float) and not math.isfinite(value):
            msg = f"{folder.name}: {name} is {value}; for 'no such clip' write None"
            raise LogFormatError(msg)


def _pretty(run: Mapping[str, Any]) -> bytes:
    return orjson.dumps(dict(run), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees either the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    temporary.write_bytes(content)
    temporary.replace(path)
