"""The made-up cases of target and failure detection, with their exact answers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from tests.event_tables import NO_EVALS, NO_STEPS, codes, flags, only, tables, train_rows
from twoclock.events.find import Failure, Target, find_failures, find_targets


def test_plain_collapse():
    """Case 66: the interval runs from the last healthy validation to the first bad one."""
    curve = [0.20, 0.45, 0.60, 0.62, 0.30, 0.05, 0.00, 0.00]
    row = only(find_failures(*tables(curve, 128)))
    assert (row.status, row.lower, row.upper, row.censoring) == ("failed", 3840, 5120, "interval")


def test_dip_then_recovery():
    """Case 67: a dip that recovers is recorded and is no failure."""
    table = find_failures(*tables([0.20, 0.45, 0.60, 0.62, 0.30, 0.41, 0.58, 0.63], 128))
    row = only(table)
    assert (row.status, row.lower, row.upper) == ("dip", 8960, math.inf)
    assert row.n_dips == 1
    dips = table.marks[table.marks.kind == "dip"]
    assert dips[["responses", "until"]].to_numpy().tolist() == [[5120, 7680]]


def test_low_peak_needs_the_relative_rule():
    """Case 68: a peak under the absolute drop can still be lost."""
    curve = [0.038, 0.050, 0.070, 0.085, 0.096, 0.000, 0.000]
    row = only(find_failures(*tables(curve, 256, every=50)))
    assert (row.status, row.lower, row.upper) == ("failed", 51200, 64000)


def test_nan_before_the_first_validation():
    """Case 69: a loss that turns NaN fails the run although nothing was validated."""
    runs = pd.DataFrame({"run_id": ["r"], "batch_size": [64]})
    loss, bad = [0.1] * 5 + [math.nan], [""] * 5 + ["loss"]
    steps = train_rows(loss=loss, grad_norm=[0.2] * 6, nonfinite=bad)
    failures = find_failures(runs, steps, NO_EVALS)
    row = only(failures)
    assert (row.status, row.reason) == ("failed", "non-finite loss")
    assert (row.lower, row.upper) == (320, 384)
    learning = only(find_targets(runs, steps, NO_EVALS, Target(0.6), failures.events))
    assert (learning.lower, learning.upper) == (384, math.inf)
    assert learning.censoring == "right"
    assert "failed_before_target" in flags(learning)


def test_grad_norm_never_finite():
    """Case 70: a column that was never finite says nothing."""
    runs, _, evals = tables([0.2, 0.4, 0.6], every=1)
    steps = train_rows(reward=[0.2, 0.3, 0.4, 0.5], nonfinite=["grad_norm"] * 4)
    table = find_failures(runs, steps, evals)
    assert only(table).status == "healthy"
    note = next(n for n in table.notes if n.code == "never_finite")
    assert "grad_norm unusable (never finite)" in note.message


def test_broken_evaluation():
    """Case 72: zeros beside a normal train reward are set aside, not failures."""
    curve, reward = [0.20, 0.45, 0.60, 0.61, 0.0, 0.0], [0.5, 0.6, 0.65, 0.66, 0.66, 0.67]
    table = find_failures(*tables(curve, reward=reward))
    row = only(table)
    assert (row.status, row.lower, row.upper) == ("healthy", 3 * 640, math.inf)
    assert "validation 0 but train reward normal" in table.notes[0].message
    assert table.marks.loc[table.marks.kind == "invalid", "responses"].tolist() == [2560, 3200]


def test_user_stops_a_healthy_run():
    """Case 73: a run that was stopped is censored at its last validation, not its last step."""
    runs, _, evals = tables([0.20, 0.35, 0.50, 0.61], ended="stopped")
    row = only(find_failures(runs, train_rows(reward=np.linspace(0.2, 0.7, 37)), evals))
    assert (row.status, row.lower, row.upper) == ("healthy", 1920, math.inf)


def test_never_learned():
    """Case 74: a run that never rose is neither a failure nor a success, and is named."""
    data = tables([0.21, 0.20, 0.22, 0.21, 0.20])
    table = find_failures(*data)
    row = only(table)
    assert (row.lower, row.upper, row.censoring) == (2560, math.inf, "right")
    assert "never_learned" in flags(row)
    assert "never_learned" in codes(table)
    learning = only(find_targets(*data, Target(0.6)))
    assert (learning.lower, learning.censoring) == (2560, "right")


def test_only_the_last_validation_is_low():
    """Case 75: one low validation at the end makes a suspect, censored before it and named."""
    data = tables([0.20, 0.45, 0.60, 0.62, 0.48], 128)
    table = find_failures(*data)
    row = only(table)
    assert (row.status, row.lower, row.upper) == ("suspect", 3840, math.inf)
    assert next(n for n in table.notes if n.code == "suspect").runs == ("r",)
    event = only(find_failures(*data, Failure(suspect="event")))
    assert (event.lower, event.upper) == (3840, 5120)
    assert (row.doubt_lower, row.doubt_upper) == (3840, 5120)


def test_slow_decline():
    """Case 77: a slow decline fails where it passes the drop, and only at the default drop."""
    data = tables([0.20, 0.50, 0.60, 0.61, 0.58, 0.55, 0.52, 0.50, 0.48, 0.47], 128)
    row = only(find_failures(*data))
    assert (row.status, row.lower, row.upper) == ("failed", 7680, 8960)
    assert only(find_failures(*data, Failure(drop_abs=0.20))).censoring == "right"


def test_one_lucky_validation_is_no_peak():
    """Case 78, first reading: the peak is the second-highest value so far."""
    assert only(find_failures(*tables([0.30, 0.33, 0.47, 0.33, 0.37, 0.33]))).status == "healthy"


@pytest.mark.parametrize(("n", "status"), [(None, "failed"), (30, "healthy")])
def test_two_high_validations_are_a_peak_unless_noisy(n, status):
    """Case 78, second reading: with 30 answers per validation such a drop is noise."""
    curve = [0.30, 0.47, 0.47, 0.33, 0.37, 0.33]
    assert only(find_failures(*tables(curve, n=n))).status == status


@pytest.mark.parametrize(
    ("value", "reached"), [(0.60, True), (0.6000000000000001, True), (0.5999, False)]
)
def test_value_on_the_line(value, reached):
    """Case 79: a value equal to the target counts; one that only prints so does not."""
    row = only(find_targets(*tables([0.10, 0.30, value]), Target(0.6)))
    assert (row.censoring == "interval") is reached


@pytest.mark.parametrize(("rule", "at"), [("isotonic", 4), ("first", 1), ("sustain2", 4)])
def test_noise_crosses_once(rule, at):
    """Case 80: the three rules, each by name."""
    data = tables([0.50, 0.61, 0.52, 0.58, 0.62, 0.63])
    row = only(find_targets(*data, Target(0.6, rule)))
    assert (row.lower, row.upper) == ((at - 1) * 640, at * 640)


def test_reached_then_collapsed():
    """Case 82: both clocks have this run."""
    data = tables([0.2, 0.5, 0.62, 0.65, 0.1, 0.0])
    failures = find_failures(*data)
    assert (only(failures).lower, only(failures).upper) == (1920, 2560)
    row = only(find_targets(*data, Target(0.6), failures.events))
    assert (row.lower, row.upper) == (640, 1280)


def test_entropy_is_never_an_event():
    """Case 84: large entropy, KL or gradient norm beside good validations is no failure."""
    runs, _, evals = tables([0.4, 0.5, 0.6, 0.62], every=1)
    steps = train_rows(
        entropy=[0.5, 1.0, 2.0, 2.1], kl_ref=[0.1, 0.5, 2, 9], grad_norm=[1, 9, 80, 900]
    )
    assert only(find_failures(runs, steps, evals)).status == "healthy"


def test_no_validation_at_all():
    """Case 87: lost train reward makes a suspect; the learning clock knows nothing."""
    runs = pd.DataFrame({"run_id": ["r"], "batch_size": [32]})
    steps = train_rows(32, reward=[0.2, 0.4, 0.6, 0.6] + [0.0] * 12)
    row = only(find_failures(runs, steps, NO_EVALS))
    assert (row.status, row.reason) == ("suspect", "suspect: train reward low")
    assert (row.censoring, row.doubt_lower, row.doubt_upper) == ("right", 128, 160)
    event = only(find_failures(runs, steps, NO_EVALS, Failure(suspect="event")))
    assert (event.lower, event.upper) == (128, 160)
    table = find_targets(runs, steps, NO_EVALS, Target(0.6))
    assert (only(table).lower, only(table).censoring) == (0, "right")
    assert "no_validation" in codes(table)


@pytest.mark.parametrize(
    ("batch_size", "lower", "upper"),
    [(64, 29440, 30720), (256, 25600, 30720), (1024, 20480, 40960), (4096, 0, 81920)],
)
def test_intervals_hold_the_resolution(batch_size, lower, upper):
    """Case 102: a failure at 30,000 responses, validated every 20 rollouts."""
    at = np.arange(5 + 163_840 // (20 * batch_size)) * 20 * batch_size
    curve = np.where(at < 30_000, np.where(at > 0, 0.6, 0.2), 0.0)
    row = only(find_failures(*tables(curve, batch_size, every=20)))
    assert (row.status, row.lower, row.upper) == ("failed", lower, upper)
    assert row.censoring == ("left" if lower == 0 else "interval")


def test_last_written_validation_counts():
    """Case 5: of validations at equal responses the last one written counts."""
    runs = pd.DataFrame({"run_id": ["r"], "batch_size": [8]})
    evals = pd.DataFrame({"run_id": "r", "responses": np.array([1, 2, 3, 4, 5, 6, 5, 6, 7]) * 8,
                          "accuracy": [.1, .2, .3, .4, .9, .95, .45, .5, .55]})  # fmt: skip
    table = find_targets(runs, NO_STEPS, evals, Target(0.6))
    assert (only(table).lower, only(table).censoring) == (56, "right")
    assert "repeated_validation" in codes(table)
