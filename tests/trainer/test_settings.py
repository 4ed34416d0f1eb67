import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.conftest import tiny
from twoclock.errors import SettingsError


@given(st.sampled_from([0.0, 0.5, 1.0, 0.25]), st.integers(0, 6))
def test_lr_follows_the_rule(gamma, doublings):
    """The peak rate is base_lr * (B/B0)**gamma for any gamma."""
    settings = tiny(batch_size=64 * 2**doublings, gamma=gamma)
    assert settings.lr == pytest.approx(settings.base_lr * 2 ** (gamma * doublings))


def test_lengths_are_rounded_up_to_whole_rollouts():
    """A run has enough rollouts for the responses asked for."""
    assert tiny(responses=65).rollouts == 3
    assert tiny(eval_every=100).eval_rollouts == 3
    assert tiny(batch_size=256).eval_rollouts == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_lr": 0.0}, "base_lr == 0.0, must be > 0"),
        ({"base_lr": float("nan")}, "base_lr == nan, must be > 0"),
        ({"clip_low": -0.1}, "clip_low == -0.1"),
        ({"noise": 1.0}, "noise == 1.0"),
        ({"batch_size": 30}, "must be a multiple of group_size"),
        ({"width": 17}, "must be a multiple of heads"),
        ({"group_size": 1}, "group_size == 1, must be >= 2"),
        ({"task": "chess"}, "must be one of addition, brackets"),
    ],
)
def test_impossible_settings_name_value_and_rule(changes, message):
    """Wrong settings are refused when made, in one line."""
    with pytest.raises(SettingsError, match=message):
        tiny(**changes)


def test_base_policy_key_depends_on_what_decides_it():
    """Runs share a base policy unless its data, model or held-out problems differ."""
    assert tiny().base_key() == tiny(seed=1, batch_size=64, base_lr=1.0).base_key()
    keys = {tiny(**c).base_key() for c in ({}, {"noise": 0.2}, {"width": 32}, {"eval_seed": 1})}
    assert len(keys) == 4
