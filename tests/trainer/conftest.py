from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.data_check import TIMES  # noqa: E402
from twoclock.runlog import read_rows  # noqa: E402
from twoclock.trainer.base import base_policy  # noqa: E402 - after the skip
from twoclock.trainer.settings import TrainSettings  # noqa: E402

TINY = {
    "task": "sorting",
    "digits": 3,
    "noise": 0.3,
    "base_steps": 200,
    "width": 16,
    "layers": 1,
    "group_size": 4,
    "minibatches": 2,
    "epochs": 2,
    "eval_every": 64,
    "eval_size": 100,
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small tensors are slower on more threads, and workers share the cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    """Folder in which the tests share base policies."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def base(cache):
    """Parameters of the tiny base policy."""
    return base_policy(tiny(), cache)


def tiny(seed: int = 0, **changes) -> TrainSettings:
    """Return settings of a run of a second or so."""
    settings = {"batch_size": 32, "base_lr": 1e-3, "responses": 256, **TINY, **changes}
    return TrainSettings(seed=seed, **settings)


def untimed(folder: Path) -> list[dict]:
    """Return the rows of a finished or running log without their wall times."""
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_rows(folder)]
