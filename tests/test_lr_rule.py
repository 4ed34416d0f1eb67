"""How lr was scaled with B."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoclock.lr_rule import detect_lr_rule, families, with_base_lr


def grid(gamma, base_lrs, sizes):
    """Make a grid of runs whose lr follows the rule gamma from B0 = 64."""
    rows = [(b, lr * (b / 64) ** gamma) for lr in base_lrs for b in sizes]
    frame = pd.DataFrame(rows, columns=["batch_size", "lr"])
    return frame.assign(run_id=[f"r{i}" for i in range(len(frame))])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_the_rule_behind_a_grid_is_detected(gamma):
    """Each of the three rules is recovered from a grid made with it, as are its base rates."""
    runs, rule, notes = with_base_lr(grid(gamma, [1e-6, 3e-6], [64, 256, 1024]))
    assert (rule.gamma, rule.origin, notes) == (gamma, "detected", ())
    assert sorted(set(runs["base_lr"])) == [1e-6, 3e-6]


def test_square_root_scaling_survives_rounded_rates():
    """Rates printed with three digits stay in one family (3 % tolerance)."""
    runs = pd.DataFrame({"batch_size": [256, 512, 1024], "lr": [1e-6, 1.41e-6, 2e-6]})
    assert detect_lr_rule(runs).gamma == 0.5


def test_an_undecidable_rule_is_said_and_falls_back_to_the_raw_rate():
    """One run per B with unrelated rates: no guess, base_lr is lr, and the option is named."""
    runs = pd.DataFrame({"run_id": ["a", "b"], "batch_size": [64, 256], "lr": [1e-6, 9e-6]})
    out, rule, notes = with_base_lr(runs)
    assert rule.origin == "undecidable"
    assert out["base_lr"].tolist() == [1e-6, 9e-6]
    assert "--lr-rule" in notes[0].message


def test_a_logged_base_rate_is_kept_unless_a_rule_is_given():
    """base_lr from the log wins over detection, the user's rule over the log."""
    runs = grid(0.5, [1e-6], [64, 256]).assign(base_lr=[1e-6, 1e-6])
    assert with_base_lr(runs)[1].origin == "logged"
    fixed, rule, _ = with_base_lr(runs, gamma=0.0)
    assert rule.origin == "user"
    assert fixed["base_lr"].tolist() == [1e-6, 2e-6]


def test_no_lr_is_missing_never_zero():
    """Runs without lr get a missing base_lr."""
    runs = pd.DataFrame({"run_id": ["a"], "batch_size": [64], "lr": [np.nan]})
    out, rule, _ = with_base_lr(runs)
    assert out["base_lr"].isna().all()
    assert rule.origin == "no lr"


@given(st.lists(st.floats(1e-7, 1e-3), min_size=1, max_size=20))
def test_families_keep_distant_values_apart_and_do_not_depend_on_order(values):
    """A family's label is within 3 % of each member; reversing the input reverses the labels."""
    labels = families(values)
    assert families(values[::-1]) == labels[::-1]
    for value, label in zip(values, labels, strict=True):
        assert abs(np.log(label / value)) <= np.log(1.03) + 1e-5
