"""Write simulated runs as native run folders, to try the whole path on a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from twoclock.errors import LogFormatError
from twoclock.runlog import create_run
from twoclock.simulate.runs import SimulatedRuns


def write_simulated(made: SimulatedRuns, out: Path) -> list[Path]:
    """Write each run to ``out/RUN_ID`` and the truth to ``OUT.truth.csv`` beside the folder.

    Parameters
    ----------
    made : SimulatedRuns
        From `simulate_runs`.
    out : Path
        Output folder; an existing run in it is an error, and nothing is written then.

    Returns
    -------
    list of Path
        The runs' folders.

    Raises
    ------
    LogFormatError
        A run folder exists, or `out` is no folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from twoclock.simulate.runs import simulate_runs
    >>> from twoclock.simulate.truth import Design, Truth
    >>> made = simulate_runs(Truth(), Design((64, 256), 1, 1024.0), np.random.default_rng(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_simulated(made, Path(folder) / "made")]
    ['b64-s0', 'b256-s0']
    """
    _check_free(out, [str(name) for name in made.runs["run_id"]])
    folders = []
    for run in made.runs.to_dict("records"):
        name = str(run["run_id"])
        values = {k: v for k, v in _known(run).items() if not str(k).endswith("_from")}
        ended = str(values.pop("ended", "completed"))
        for clip in ("clip_low", "clip_high", "clip_dual"):
            values[clip] = None if values.get(clip) == float("inf") else values.get(clip)
        with create_run(out / name, values) as log:
            for row in _rows(made.evals, name, zero=True):
                log.eval(row)
            later = _rows(made.evals, name, zero=False)
            steps = _rows(made.steps, name, zero=False)
            rows = sorted([*steps, *later], key=lambda r: (r["responses"], "accuracy" in r))
            for row in rows:
                (log.eval if "accuracy" in row else log.train)(row)
            log.finish(ended)
        folders.append(out / name)
    made.truth.to_csv(out.with_name(f"{out.name}.truth.csv"), index=False, lineterminator="\n")
    return folders


def _check_free(out: Path, names: list[str]) -> None:
    """Raise LogFormatError unless every run can be created under `out`."""
    place = next((p for p in (out, *out.parents) if p.exists()), None)
    if place is not None and not place.is_dir():
        msg = f"{place}: is a file; OUT must be a folder, new or there, for the runs"
        raise LogFormatError(msg)
    there = [name for name in names if (out / name).exists()]
    if there:
        msg = f"{out / there[0]}: exists; choose another folder for the simulated runs"
        raise LogFormatError(msg)


def _known(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(k): v for k, v in row.items() if not pd.isna(v) and v != ""}


def _rows(table: pd.DataFrame, name: str, *, zero: bool) -> list[dict[str, Any]]:
    own = table[(table["run_id"] == name) & ((table["responses"] == 0) == zero)]
    rows = own.drop(columns="run_id").to_dict("records")
    return [_known(row) for row in rows]
