"""Small helpers for tests that read logs."""

import gzip
from pathlib import Path

from twoclock.reading import ReadOptions
from twoclock.runs import Runs, read_runs

SHARED = Path(__file__).parents[1].parent / "shared" / "logs"


def write(folder, files):
    """Write {name: text or bytes} under a folder, making folders as needed."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(
            gzip.compress(data) if name.endswith(".gz") and data[:1] != b"\x1f" else data
        )
    return Path(folder)


def read(folder, files, **options) -> Runs:
    """Write the files and read the folder."""
    return read_runs(write(folder, files), ReadOptions(**options))


def curve(runs: Runs, run_id=None, metric=None):
    """Return [(responses, accuracy)] of a run (the only one by default)."""
    evals = runs.evals
    if run_id is not None:
        evals = evals[evals["run_id"] == run_id]
    if metric is not None:
        evals = evals[evals["metric"] == metric]
    pairs = zip(evals["responses"], evals["accuracy"], strict=True)
    return [(int(r), round(float(a), 6)) for r, a in pairs]


def codes(runs: Runs):
    """Return the codes of all notes."""
    return {note.code for note in runs.notes}


def note(runs: Runs, code):
    """Return the only note with a code."""
    (found,) = [n for n in runs.notes if n.code == code]
    return found


def reasons(runs: Runs):
    """Return {file name: reason} of what was refused."""
    return {Path(r.path.split(" line ")[0]).name: r.reason for r in runs.refused}
