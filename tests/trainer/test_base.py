import numpy as np
import pytest
import torch

from tests.trainer.conftest import tiny
from twoclock.errors import TrainingError
from twoclock.trainer.base import base_policy, train_base
from twoclock.trainer.crew import Crew


def test_base_policy_is_the_same_when_trained_again(cache):
    """The cached base policy equals a freshly trained one, bit by bit."""
    assert torch.equal(base_policy(tiny(), cache), train_base(tiny()))


def test_noise_lowers_the_accuracy_that_the_base_policy_starts_with(base, tmp_path):
    """Noise 0.3 gives per-token accuracy 0.73 at best, hence about 0.39 for three tokens."""
    clean = base_policy(tiny(noise=0.0), tmp_path)
    (noisy_accuracy,), _ = Crew([tiny()], base).validate()
    (clean_accuracy,), _ = Crew([tiny(noise=0.0)], clean).validate()
    assert 0.1 < noisy_accuracy < 0.55 < clean_accuracy


@pytest.mark.parametrize("damage", [b"", b"PK broken", None])
def test_damaged_cache_is_an_error_that_names_the_file(tmp_path, damage):
    """A broken or wrong cache file is refused in one line."""
    path = tmp_path / f"base-{tiny().base_key()}.npz"
    if damage is None:
        np.savez(path, theta=np.zeros((1, 3)))
    else:
        path.write_bytes(damage)
    with pytest.raises(TrainingError, match="delete the file"):
        base_policy(tiny(), tmp_path)


def test_cache_never_unpickles(tmp_path):
    """An object array, which only pickle can read, is refused."""
    np.savez(tmp_path / f"base-{tiny().base_key()}.npz", theta=np.array([{}], dtype=object))
    with pytest.raises(TrainingError):
        base_policy(tiny(), tmp_path)
