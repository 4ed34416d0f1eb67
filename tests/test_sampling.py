"""A log that is a random sample of the rows is told from a whole one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import codes, curve, note, read
from twoclock.runs.sampling import looks_sampled


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1_000, 100_000), st.integers(460, 540))
def test_a_random_draw_is_recognised(seed, length, rows):
    """Case 12: about 500 rows of a longer history, whichever were drawn."""
    rng = np.random.default_rng(seed)
    step = np.sort(rng.choice(length, size=rows, replace=False)).astype(float)
    assert looks_sampled(step, rows)


def drifting():
    """Return a logger's counter with a second call at every tenth step, as at validations."""
    return np.cumsum(np.where(np.arange(500) % 10 == 0, 2.0, 1.0))


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (np.arange(500.0), 500),
        (np.arange(500.0) * 8, 500),
        (np.sort(np.random.default_rng(0).choice(9000, 300, replace=False)) * 1.0, 300),
        (np.sort(np.random.default_rng(0).choice(9000, 5000, replace=False)) * 1.0, 5000),
        (drifting(), 500),
        (np.concatenate([np.arange(250.0), np.arange(200.0, 450.0)]) * 5, 500),
        (np.array([1.0, 2.0]), 500),
        (np.empty(0), 0),
    ],
    ids=["every-step", "every-eighth", "fewer", "more", "two-calls", "resumed", "rare", "empty"],
)
def test_a_whole_log_is_no_sample(step, rows):
    """Regular steps, other numbers of rows and steps that fall back are not taken for samples."""
    assert not looks_sampled(step, rows)


def history(steps):
    """Return a history export of W&B: its own counter runs twice as fast as the trainer's."""
    lines = ["_step,train/global_step,train/reward,val/acc"]
    for index, step in enumerate(steps):
        accuracy = f"0.{index + 100}" if index % 100 == 50 else ""
        lines.append(f"{step},{step // 2},0.5,{accuracy}")
    return "\n".join(lines) + "\n"


def test_a_sampled_history_is_told(tmp_path):
    """Case 12: 500 random rows of 20,000 with five validations are read, with a warning."""
    steps = np.sort(np.random.default_rng(0).choice(20_000, 500, replace=False)).tolist()
    runs = read(tmp_path, {"r.csv": history(steps)}, batch_size=8)
    assert "look like a random sample" in note(runs, "sampled_history").message
    assert curve(runs) == [(steps[i] // 2 * 8, float(f"0.{i + 100}")) for i in range(50, 500, 100)]


def test_a_full_history_is_not_told(tmp_path):
    """Every second row of the logger, 500 of them, is no sample."""
    runs = read(tmp_path, {"r.csv": history(range(0, 1000, 2))}, batch_size=8)
    assert "sampled_history" not in codes(runs)
