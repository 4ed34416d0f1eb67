"""MLflow's file store and database, and trackio, each in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.sinks.values import OPTIONS, TINY, check
from twoclock.errors import SourceError
from twoclock.runs.finding import find_files
from twoclock.sources import find_reader
from twoclock.sources.base import Head
from twoclock.sources.text import read_head

pytestmark = [pytest.mark.sinks, pytest.mark.filterwarnings("default")]

MLFLOW = """
import sys
import mlflow
from tests.sinks.values import TINY, rows

mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("e")
with mlflow.start_run(run_name="b64 s\\u00fc"):
    mlflow.log_params({"data/train_batch_size": 64, "lr": 1e-06})
    for step, row in rows():
        mlflow.log_metrics({key.replace("@", "_at_"): v for key, v in row.items()}, step=step)
    mlflow.log_metric(TINY, 1e-300, step=1)
with mlflow.start_run(run_name="thrown away") as run:
    mlflow.log_metric("train/reward", 1.0, step=1)
mlflow.delete_run(run.info.run_id)
"""

TRACKIO = """
import trackio
from tests.sinks.values import TINY, rows

for name in ("b64 s\\u00fc", "b64 s\\u00fc"):
    trackio.init(project="grpo", name=name, embed=False, auto_log_cpu=False, auto_log_gpu=False,
                 config={"lr": 1e-6, "actor": {"clip": 0.2}}, resume="never")
    for step, row in rows():
        trackio.log({**row, "nested": {"inner": step}}, step=step)
    trackio.log({TINY: 1e-300}, step=30000)
    trackio.finish()
"""


def run(folder, code, *arguments, **variables):
    """Run a writer in a folder of its own, off the network."""
    settings = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true",
                "DO_NOT_TRACK": "true", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}  # fmt: skip
    root = os.pathsep.join([str(path) for path in sys.path if path])
    environment = {**os.environ, **settings, **variables, "PYTHONPATH": root}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=300)


def logs_below(folder):
    """Return all logs in a folder, each read by the reader that knows it, and the refusals."""
    logs, refused = [], []
    for file in find_files([folder])[0]:
        reader = find_reader(Head(file.path, read_head(file.path)))
        try:
            logs += reader.read(file.path, OPTIONS) if reader is not None else []
        except SourceError as err:
            refused.append(err.reason)
    return logs, refused


@pytest.mark.parametrize("store", ["files", "database"])
def test_mlflow_is_read_back(tmp_path, store):
    """Every value, parameters, name, id and status; what was deleted is not read."""
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    folder = tmp_path / "logs"
    folder.mkdir()
    uri = folder / "mlruns" if store == "files" else f"sqlite:///{folder / 'mlruns.db'}"
    run(folder, MLFLOW, uri)
    (log,), refused = logs_below(folder)
    check(log, rename=lambda key: key.replace("@", "_at_"))
    assert log.rows.values[TINY].value.tolist() == [1e-300]
    assert log.config == {"data.train_batch_size": 64, "lr": 1e-06}
    assert (log.name, len(log.key)) == ("b64 s\u00fc", 32)
    assert log.facts["ended"].value == "completed"
    if store == "files":
        assert [reason for reason in refused if "deleted in MLflow" in reason] == refused
        assert len(refused) == 1
    else:
        assert [(n.code, n.count) for n in log.notes] == [("deleted_runs", 1)]


def test_trackio_is_read_back(tmp_path):
    """Two runs of one name: every value of each, the configuration, and a key of its own."""
    pytest.importorskip("trackio")
    run(tmp_path, TRACKIO, TRACKIO_DIR=str(tmp_path / "logs"))
    logs, refused = logs_below(tmp_path / "logs")
    assert refused == []
    assert [log.name for log in logs] == ["b64 s\u00fc"] * 2
    assert len({log.key for log in logs}) == 2
    for log in logs:
        check(log)
        assert log.rows.values[TINY].value.tolist() == [1e-300]
        assert "nested.inner" in log.rows.names
        assert log.config == {"lr": 1e-6, "actor.clip": 0.2}
        assert log.started is not None
