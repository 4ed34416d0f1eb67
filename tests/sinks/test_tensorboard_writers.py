"""Everything that writes event files: torch, tensorboardX, TensorBoard's own writer."""

import json

import numpy as np
import pytest

from tests.sinks.values import OPTIONS, SERIES, STEPS, check, rows, series, without_signs
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.finding import find_files
from twoclock.sources.tensorboard import read_event_folder

pytestmark = [pytest.mark.sinks, pytest.mark.filterwarnings("default")]


def float32(value):
    """Return what four bytes hold of a number."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def torch_writer(folder, **options):
    """Return torch's writer."""
    module = pytest.importorskip("torch.utils.tensorboard")
    return module.SummaryWriter(str(folder), **options)


def tensorboardx_writer(folder, **options):
    """Return tensorboardX's writer."""
    module = pytest.importorskip("tensorboardX")
    return module.SummaryWriter(str(folder), **options)


def tensorboard_writer(folder):
    """Return TensorBoard's own writer, which writes tensors."""
    pytest.importorskip("tensorboard")
    from tensorboard.summary import Writer

    return Writer(str(folder))


WRITERS = {"torch": torch_writer, "tensorboardX": tensorboardx_writer,
           "tensorboard": tensorboard_writer}  # fmt: skip


def log_of(folder, options=OPTIONS):
    """Return the only log of a folder."""
    found, refused = find_files([folder])
    assert not refused
    logs = [log for file in found for log in read_event_folder(file.path, options)]
    (log,) = logs
    return log


@pytest.mark.parametrize("name", WRITERS)
def test_every_scalar_is_read_back(tmp_path, name):
    """All values of all keys come back as the same numbers of four bytes, none is sampled away."""
    writer = WRITERS[name](tmp_path / "run")
    for step, row in rows():
        for key, value in row.items():
            writer.add_scalar(key, value, step)
    writer.close()
    log = log_of(tmp_path)
    check(log, narrow=float32, rename=without_signs if name == "tensorboardX" else str)
    assert log.notes == ()
    assert len(log.rows.names) == len(SERIES) + 1


@pytest.mark.parametrize("name", ["torch", "tensorboardX"])
def test_values_written_together_and_hyperparameters_belong_to_the_run(tmp_path, name):
    """`add_scalars`, `add_hparams` and `add_text` are of one log, in whatever folders they end."""
    writer = WRITERS[name](tmp_path / "run")
    settings = {"rollout_batch_size": 64, "lr": 1e-6, "adv": "grpo", "kl": True}
    writer.add_hparams(settings, {"hp": 1.0})
    writer.add_text("args", json.dumps({"beta": 0.04, "epsilon": 0.2}))
    for step in STEPS:
        writer.add_scalar("critic/score/mean", step / 7, step)
        writer.add_scalars("val_correct/all", {"mean": step / 9, "max": 1.0}, step)
    writer.close()
    log = log_of(tmp_path, ReadOptions())
    got = series(log, "val_correct/all/mean")
    assert {s: float32(v) for s, v in got.items()} == {s: float32(s / 9) for s in STEPS}
    assert log.config == settings | {"beta": 0.04, "epsilon": 0.2}


@pytest.mark.parametrize("name", ["torch", "tensorboardX"])
def test_a_run_that_was_resumed_with_a_purge(tmp_path, name):
    """A second writer that purges from a step on takes the place of what the first wrote there."""
    for begin, shift, options in ((1, 0.0, {}), (3, 0.5, {"purge_step": 3})):
        writer = WRITERS[name](tmp_path / "run", filename_suffix=f".{begin}", **options)
        for step in range(begin, 6):
            writer.add_scalar("val/acc", step / 16 + shift, step)
        writer.close()
    runs = read_runs(tmp_path, ReadOptions(batch_size=1))
    values = [1 / 16, 2 / 16, *(s / 16 + 0.5 for s in (3, 4, 5))]
    assert runs.evals["accuracy"].tolist() == values
    assert "steps 3-5 overwritten" in next(n.message for n in runs.notes if n.code == "resumed")
