"""verl's own tracking: its file, its console and its TensorBoard folder, written at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sinks.values import STEPS
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs

pytestmark = [pytest.mark.sinks, pytest.mark.filterwarnings("default")]

VERL = Path(sys.prefix) / "verl"
"""Where verl lies, beside the environment: its wheel holds a package named `tests`."""

WRITE = """
import importlib.util
import os
import sys
import types
from pathlib import Path

root = Path(sys.argv[1]) / "verl"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for name in ("verl", "verl.utils"):  # the packages themselves need a cluster to be imported
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
aggregate = load("verl.utils.logger.aggregate_logger", root / "utils/logger/aggregate_logger.py")
package = sys.modules["verl.utils.logger"] = types.ModuleType("verl.utils.logger")
package.LocalLogger = aggregate.LocalLogger
tracking = load("verl.utils.tracking", root / "utils/tracking.py")
config = {"data": {"train_batch_size": 64}, "trainer": {"project_name": "grpo"}}
track = tracking.Tracking("grpo", "b64-s0", ["file", "console", "tensorboard"], config=config)
for step in map(int, sys.argv[2:]):
    row = {"critic/score/mean": step / 7, "actor/grad_norm": float("nan") if step == 3 else 0.5,
           "actor/lr": 1e-6, "training/global_step": step}
    if step != 2:
        row["val-core/openai/gsm8k/acc/mean@8"] = step / 9
    track.log(row, step)
track.logger["tensorboard"].finish()
sys.stdout.flush()
os._exit(0)  # closing the writer's thread once more while Python ends may wait for ever
"""


@pytest.fixture(scope="module")
def sinks(tmp_path_factory):
    """Write the three sinks of one run; return a folder for each."""
    if not (VERL / "verl").is_dir():
        pytest.skip("verl is not there; see tests/sinks/verl.txt")
    pytest.importorskip("torch.utils.tensorboard")
    folder = tmp_path_factory.mktemp("verl")
    places = {name: folder / name for name in ("file", "console", "tensorboard")}
    places["console"].mkdir()
    environment = {**os.environ, "VERL_FILE_LOGGER_ROOT": str(places["file"]),
                   "TENSORBOARD_DIR": str(places["tensorboard"]), "HOME": str(folder)}  # fmt: skip
    command = [sys.executable, "-c", WRITE, str(VERL), *map(str, STEPS)]
    done = subprocess.run(
        command, env=environment, cwd=folder, check=True, timeout=240, stdout=subprocess.PIPE
    )
    (places["console"] / "train.log").write_bytes(done.stdout)
    return places


@pytest.mark.parametrize("name", ["file", "console", "tensorboard"])
def test_a_sink_of_verl_is_read_back(sinks, name):
    """Rewards and accuracies at every step, with what is not finite told as such."""
    runs = read_runs(sinks[name], ReadOptions(batch_size=8))
    assert runs.steps["responses"].tolist() == [step * 8 for step in STEPS]
    assert runs.steps["reward"].tolist() == pytest.approx([s / 7 for s in STEPS], rel=1e-7)
    assert runs.steps["lr"].tolist() == [1e-6] * len(STEPS)
    assert runs.steps["nonfinite"].fillna("").tolist() == [
        "grad_norm" if step == 3 else "" for step in STEPS
    ]
    validated = [step for step in STEPS if step != 2]
    assert runs.evals["accuracy"].tolist() == pytest.approx([s / 9 for s in validated], rel=1e-7)
    assert runs.runs["framework"].tolist() == ["verl"]
