"""W&B offline, in a process of its own as in real runs."""

import os
import subprocess
import sys

import pytest

from tests.sinks.values import OPTIONS, check
from twoclock.runs import read_runs
from twoclock.runs.finding import find_files
from twoclock.sources.wandb_run import read_wandb

pytestmark = [pytest.mark.sinks, pytest.mark.filterwarnings("default")]

WRITE = """
import sys
import wandb
from tests.sinks.values import TINY, rows

code = int(sys.argv[1])
run = wandb.init(
    project="grpo", id="fixed", name="b64 s\\u00fc", config={"lr": 1e-6, "actor": {"clip": 0.2}},
    settings=wandb.Settings(console="off", x_disable_stats=True, x_disable_meta=True),
)
run.config.update({"seed": 3})
run.config.update({"lr": 2e-6}, allow_val_change=True)
for step, row in rows():
    run.log({**row, "nested": {"inner": step}, "text": "x"}, step=step)
run.log({TINY: 1e-300, "h": wandb.Histogram([1.0, 2.0])}, step=30000)
run.finish(exit_code=code)
"""


def environment(folder):
    """Return an environment in which W&B stays below a folder and off the network."""
    own = {name: str(folder / "own") for name in
           ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR")}  # fmt: skip
    return {**os.environ, **own, "WANDB_MODE": "offline", "WANDB_SILENT": "true",
            "WANDB_DIR": str(folder / "logs"), "HOME": str(folder)}  # fmt: skip


@pytest.mark.parametrize(("code", "ended"), [(0, "completed"), (3, "crashed")])
def test_an_offline_run_is_read_back(tmp_path, code, ended):
    """Every value, the configuration with its updates, the name, the id and how it ended."""
    pytest.importorskip("wandb")
    (tmp_path / "logs").mkdir()
    subprocess.run(
        [sys.executable, "-c", WRITE, str(code)], env=environment(tmp_path), check=True, timeout=240
    )
    found, _ = find_files([tmp_path / "logs"])
    (path,) = [f.path for f in found if f.path.suffix == ".wandb"]
    (log,) = read_wandb(path, OPTIONS)
    check(log, step_key="_step")
    assert log.rows.values["tiny"].value.tolist() == [1e-300]
    assert "nested.inner" in log.rows.names
    assert (log.name, log.key, log.notes) == ("b64 s\u00fc", "grpo/fixed", ())
    assert log.config == {"lr": 2e-6, "actor.clip": 0.2, "seed": 3}
    assert log.started is not None
    assert log.started > 1_700_000_000
    assert log.facts["ended"].value == ended
    runs = read_runs(tmp_path / "logs", OPTIONS.__class__(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["b64 s\u00fc"]
    assert [r.path for r in runs.refused] == []
