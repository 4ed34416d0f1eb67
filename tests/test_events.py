"""Events beyond the made-up cases: train rows, flags, notes, marks, grids and settings."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from tests.event_tables import NO_EVALS, NO_STEPS, codes, flags, only, tables, train_rows
from twoclock import schema
from twoclock.errors import SettingsError, TableError
from twoclock.events.find import Failure, Target, find_failures, find_targets
from twoclock.events.precursors import precursors
from twoclock.events.sensitivity import definition_sensitivity, fit_rows, sensitivity_note

ONE = pd.DataFrame({"run_id": ["r"], "batch_size": [64]})
COLLAPSE = [0.20, 0.45, 0.60, 0.62, 0.30, 0.05, 0.00, 0.00]


def stack(*parts):
    """Return the three tables of several runs as one triple."""
    return tuple(pd.concat(list(tabs), ignore_index=True) for tabs in zip(*parts, strict=True))


# --- train rows ---------------------------------------------------------------------------------


def test_grad_norm_needs_three_rows():
    """A non-finite gradient norm alone fails a run after three rows to the end, not after two."""
    for rows, status in ((2, "healthy"), (3, "failed")):
        norm = [1.0] * 5 + [math.nan] * rows
        bad = [""] * 5 + ["grad_norm"] * rows
        row = only(find_failures(ONE, train_rows(grad_norm=norm, nonfinite=bad), NO_EVALS))
        assert row.status == status


def test_grad_norm_with_a_crash_needs_one_row():
    """A crash beside a non-finite gradient norm is enough."""
    steps = train_rows(grad_norm=[1.0, 1.0, math.nan], nonfinite=["", "", "grad_norm"])
    row = only(find_failures(ONE.assign(ended="crashed"), steps, NO_EVALS))
    assert (row.status, row.lower, row.upper) == ("failed", 128, 192)


def test_a_loss_that_becomes_finite_again_is_no_failure():
    """Only rows to the end of the log count."""
    steps = train_rows(loss=[0.1, math.nan, 0.1, 0.1], nonfinite=["", "loss", "", ""])
    assert only(find_failures(ONE, steps, NO_EVALS)).status == "healthy"


def test_infinite_values_count_without_being_named():
    """An inf in the column is as bad as one named in `nonfinite`."""
    row = only(find_failures(ONE, train_rows(kl_ref=[0.1, 0.2, math.inf]), NO_EVALS))
    assert (row.reason, row.lower, row.upper) == ("non-finite kl_ref", 128, 192)


def test_blank_rows_are_no_event():
    """A column that was not logged is missing, not non-finite; a sparse one widens the interval."""
    blank = train_rows(loss=[0.1, math.nan, math.nan, math.nan], nonfinite=[""] * 4)
    assert only(find_failures(ONE, blank, NO_EVALS)).status == "healthy"
    sparse = train_rows(loss=[0.1] + [math.nan] * 3, nonfinite=["", "", "", "loss"])
    row = only(find_failures(ONE, sparse, NO_EVALS))
    assert (row.lower, row.upper) == (64, 256)


def test_a_healthy_validation_after_non_finite_rows_disproves_them():
    """Later good validations say that the run lives."""
    steps = train_rows(loss=[0.1, math.nan, math.nan, math.nan], nonfinite=["", *["loss"] * 3])
    runs, _, evals = tables([0.2, 0.4, 0.5, 0.6, 0.7], every=1)
    assert only(find_failures(runs, steps, evals)).status == "healthy"


def test_a_healthy_validation_before_non_finite_rows_narrows_the_interval():
    """The last healthy validation is a lower end too."""
    steps = train_rows(loss=[0.1, *[math.nan] * 5], nonfinite=[""] * 5 + ["loss"])
    runs, _, evals = tables([0.2, 0.4, 0.5, 0.6], every=1)
    row = only(find_failures(runs, steps, evals))
    assert (row.lower, row.upper) == (192, 384)


def test_non_finite_rows_sharpen_a_collapse():
    """Where both are seen, the non-finite row gives the narrower interval."""
    runs, _, evals = tables(COLLAPSE, 128)
    loss = np.where(np.arange(1, 57) < 36, 0.1, np.nan)
    bad = np.where(np.isnan(loss), "loss", "")
    row = only(find_failures(runs, train_rows(128, loss=loss, nonfinite=bad), evals))
    assert (row.lower, row.upper, row.reason) == (35 * 128, 36 * 128, "non-finite loss")


def test_non_finite_rows_after_a_breach_confirm_it():
    """A last low validation is confirmed when the run then dies, at the validation's interval."""
    runs, _, evals = tables([0.20, 0.45, 0.60, 0.62, 0.48], 128)
    loss = np.where(np.arange(1, 43) < 41, 0.1, np.nan)
    steps = train_rows(128, loss=loss, nonfinite=np.where(np.isnan(loss), "loss", ""))
    row = only(find_failures(runs, steps, evals))
    assert (row.status, row.lower, row.upper) == ("failed", 3840, 5120)
    crashed = only(find_failures(runs.assign(ended="crashed"), NO_STEPS, evals))
    assert (crashed.status, crashed.upper) == ("failed", 5120)


def test_a_crash_alone_is_censoring():
    """Out of memory, node loss and time limits are no failure of training."""
    row = only(find_failures(*tables([0.2, 0.4, 0.5, 0.6], ended="crashed")))
    assert (row.status, row.lower, row.censoring) == ("healthy", 1920, "right")


def test_never_finite_here_but_elsewhere_and_dead_at_once():
    """A loss that is NaN from the first row on is a failure when the run shows that it died."""
    good = train_rows(loss=[0.1] * 6, nonfinite=[""] * 6, reward=[0.5] * 6).assign(run_id="good")
    bad = train_rows(loss=[math.nan] * 6, nonfinite=["loss"] * 6)
    runs = pd.DataFrame({"run_id": ["good", "r"], "batch_size": 64})
    for reward, status in (([0.5, 0, 0, 0, 0, 0], "failed"), ([0.5] * 6, "healthy")):
        steps = pd.concat([good, bad.assign(reward=reward)])
        row = find_failures(runs, steps, NO_EVALS).events.iloc[1]
        assert row.status == status
    failed = find_failures(runs, pd.concat([good, bad.assign(reward=[0.5, *[0.0] * 5])]), NO_EVALS)
    assert failed.events.iloc[1][["lower", "upper", "censoring"]].tolist() == [0, 64, "left"]


def test_abort_for_lack_of_signal():
    """A crash at the lowest reward is a failure, at the highest one a solved task."""
    fell = train_rows(reward=[0.3, 0.5, 0.6, 0.6, 0.0, 0.0, 0.0])
    row = only(find_failures(ONE.assign(ended="crashed"), fell, NO_EVALS))
    assert (row.status, row.reason) == ("failed", "abort: no reward signal")
    assert (row.lower, row.upper) == (256, 320)
    solved = find_failures(
        ONE.assign(ended="crashed"), train_rows(reward=[0.5] + [1.0] * 10), NO_EVALS
    )
    assert only(solved).censoring == "right"
    assert "solved" in codes(solved)


def test_lost_reward_is_overruled_by_validations():
    """Where validations go on, they decide."""
    reward = [0.2, 0.4, 0.6, 0.6] + [0.0] * 12
    runs, _, evals = tables([0.2, 0.4, 0.6, 0.62], every=5)
    assert only(find_failures(runs, train_rows(reward=reward), evals)).status == "healthy"


def test_a_constant_reward_is_not_lost():
    """A reward that never was above its lowest value is no suspicion."""
    assert only(find_failures(ONE, train_rows(reward=[0.4] * 30), NO_EVALS)).status == "healthy"


# --- broken evaluations -------------------------------------------------------------------------


def test_zero_validations_of_a_dead_policy_count():
    """Zeros beside lost rewards are true."""
    curve, reward = [0.20, 0.45, 0.60, 0.61, 0.0, 0.0], [0.5, 0.6, 0.65, 0.66, 0.1, 0.0]
    assert only(find_failures(*tables(curve, reward=reward))).status == "failed"


def test_a_collapse_in_the_last_update_is_not_a_broken_evaluation():
    """The rewards after a zero were sampled by the validated policy: they decide."""
    curve, reward = [0.2, 0.45, 0.6, 0.61, 0.0, 0.0], [0.5, 0.6, 0.65, 0.66, 0.66, 0.0]
    row = only(find_failures(*tables(curve, reward=reward)))
    assert (row.status, row.lower, row.upper) == ("failed", 1920, 2560)


def test_broken_evaluations_are_found_in_very_long_logs():
    """A quarter of a million train rows take no noticeable time."""
    rows = 250_000
    steps = train_rows(reward=np.linspace(0.2, 0.8, rows))
    runs, _, evals = tables([0.2, 0.45, 0.6, 0.0, 0.61, 0.0], every=rows // 5)
    table = find_failures(runs, steps, evals)
    assert (only(table).status, only(table).n_validations) == ("healthy", 4)


def test_zero_on_one_key_only_counts():
    """A zero is broken only when every key of that validation is 0."""
    runs, steps, evals = tables([0.2, 0.45, 0.6, 0.61, 0.0, 0.0], reward=[0.6] * 6)
    both = pd.concat([evals.assign(metric="a"), evals.assign(metric="b", accuracy=0.3)])
    assert only(find_failures(runs, steps, both, metric="a")).status == "failed"
    zero = pd.concat([evals.assign(metric="a"), evals.assign(metric="b")])
    assert only(find_failures(runs, steps, zero, metric="a")).status == "healthy"


def test_several_metrics_need_a_choice():
    """Two metrics in a run are never averaged or guessed: both are listed."""
    runs, steps, evals = tables([0.2, 0.4])
    both = pd.concat([evals.assign(metric="easy"), evals.assign(metric="hard")])
    with pytest.raises(TableError, match=r"several metrics \(easy, hard\)"):
        find_targets(runs, steps, both, Target(0.6))
    with pytest.raises(TableError, match="no metric 'c'; there are easy, hard"):
        find_targets(runs, steps, both, Target(0.6), metric="c")


def test_missing_validations_are_not_zero():
    """A validation without a value is set aside and noted."""
    table = find_failures(*tables([0.2, 0.4, math.nan, 0.6]))
    assert only(table).status == "healthy"
    assert only(table).n_validations == 3
    assert codes(table) == {"invalid_validation"}


# --- dips, limits, suspects ---------------------------------------------------------------------


def test_a_dip_longer_than_all_training_before_it_is_a_failure():
    """A long early dip fails although it recovers later, unless the limit is lifted."""
    data = tables([0.2, 0.6, 0.62, 0.1, 0.1, 0.1, 0.1, 0.6, 0.7, 0.7])
    row = only(find_failures(*data))
    assert (row.status, row.reason, row.lower, row.upper) == ("failed", "long dip", 1280, 1920)
    assert only(find_failures(*data, Failure(dip_limit=math.inf))).status == "dip"
    short = tables([0.2, 0.6, 0.62, 0.1, 0.1, 0.1, 0.6, 0.7, 0.7])
    assert only(find_failures(*short)).status == "dip"


def test_one_validation_that_lost_most_of_the_peak_needs_no_confirmation():
    """A last validation at a fifth of the peak fails; just above it is suspect."""
    assert only(find_failures(*tables([0.2, 0.5, 0.6, 0.6, 0.12]))).status == "failed"
    assert only(find_failures(*tables([0.2, 0.5, 0.6, 0.6, 0.13]))).status == "suspect"


def test_confirmation_needs_a_log_that_goes_on():
    """Two low validations within 10 % of the breach are not enough; a longer log is."""
    curve = [0.2] + [0.6] * 20 + [0.45, 0.45]
    row = only(find_failures(*tables(curve)))
    assert (row.status, row.reason) == ("suspect", "suspect: low to the end of a short log")
    assert only(find_failures(*tables([*curve, 0.45, 0.45]))).status == "failed"
    runs, _, evals = tables(curve)
    longer = train_rows(reward=np.full(240, 0.5))
    assert only(find_failures(runs, longer, evals)).status == "failed"


def test_suspects_can_be_left_out():
    """`--suspect drop` leaves the run in the table and out of the fit, named."""
    rule = Failure(suspect="drop")
    table = find_failures(*tables([0.2, 0.45, 0.6, 0.62, 0.48]), rule)
    assert only(table).censoring == "right"
    kept, notes = fit_rows(table.events, rule)
    assert kept.empty
    assert notes[0].code == "suspect_left_out"


def test_never_learned_leaves_the_fit_by_default():
    """The two choices for runs that never rose."""
    events = find_failures(*tables([0.21, 0.20, 0.22, 0.21, 0.20])).events
    assert fit_rows(events, Failure())[0].empty
    assert len(fit_rows(events, Failure(never_learned="censor"))[0]) == 1


def test_a_fall_without_a_rise_is_censored_yet_dead():
    """Such a run cannot fall on the failure clock, but it ends the learning clock."""
    data = tables([0.58, 0.57, 0.30, 0.05, 0.0, 0.0])
    failures = find_failures(*data)
    row = only(failures)
    assert (row.status, row.censoring, row.lower) == ("failed", "right", 640)
    assert "never_learned" in flags(row)
    assert (row.doubt_lower, row.doubt_upper) == (640, 1280)
    learning = only(find_targets(*data, Target(0.8), failures.events))
    assert (learning.lower, learning.censoring) == (1280, "right")


def test_a_fall_before_a_rise_could_be_seen_is_a_failure():
    """When the second validation is bad already, the run may have risen in between."""
    row = only(find_failures(*tables([0.58, 0.05, 0.0, 0.0])))
    assert (row.lower, row.upper, row.censoring) == (0, 640, "left")
    assert "never_learned" not in flags(row)


def test_scores_are_judged_on_the_range_seen():
    """A score from 0 to 4 is not a failure when it drops by a tenth of a point."""
    for last, status in ((3.7, "healthy"), (1.0, "failed")):
        runs, steps, evals = tables([0.5, 2.0, 3.8, 4.0, last, last])
        evals = evals.assign(scale="score", metric="points")
        row = only(find_failures(runs, steps, evals))
        assert row.status == status
        assert row.peak == pytest.approx(3.8)


# --- the learning clock -------------------------------------------------------------------------


def test_responses_zero_makes_no_event():
    """A run above the target before training has no likelihood term, and is named."""
    table = find_targets(*tables([0.62, 0.65, 0.70]), Target(0.6))
    row = only(table)
    assert (row.lower, row.upper, row.censoring) == (0, 0, "before_start")
    assert "before_start" in codes(table)


def test_reached_at_the_first_validation_is_left_censored():
    """The first validation after 0 bounds the event from above only."""
    row = only(find_targets(*tables([0.1, 0.7, 0.8]), Target(0.6)))
    assert (row.lower, row.upper, row.censoring) == (0, 640, "left")
    runs, steps, evals = tables([0.1, 0.7, 0.8])
    row = only(find_targets(runs, steps, evals.iloc[1:], Target(0.6)))
    assert (row.lower, row.upper, row.censoring) == (0, 640, "left")


def test_sustain2_leaves_a_last_hit_undecided():
    """A first hit at the last validation is neither an event nor ruled out."""
    row = only(find_targets(*tables([0.1, 0.5, 0.7]), Target(0.6, "sustain2")))
    assert (row.lower, row.censoring) == (640, "right")


def test_target_reached_inside_warmup_is_named():
    """A target inside the learning-rate warm-up measures the warm-up."""
    big = tables([0.1, 0.3, 0.7], 1024, every=4, run_id="b", warmup_responses=10 * 1024)
    small = tables([0.1, 0.3, 0.7], 64, every=20, run_id="a", warmup_responses=10 * 64)
    table = find_targets(*stack(small, big), Target(0.6))
    assert [note.runs for note in table.notes if note.code == "inside_warmup"] == [("b",)]


def test_reached_after_failing_does_not_count():
    """A crossing after the failure interval is a censored run, not an event."""
    data = tables([0.2, 0.5, 0.52, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7, 0.8])
    failures = find_failures(*data)
    assert only(failures).reason == "long dip"
    row = only(find_targets(*data, Target(0.6), failures.events))
    assert (row.lower, row.upper) == (1920, math.inf)


def test_weights_follow_the_answers_behind_a_validation():
    """A small lucky validation does not pull a large one over the target."""
    data = tables([0.10, 0.80, 0.55, 0.62, 0.63], n=[500, 20, 500, 500, 500])
    assert only(find_targets(*data, Target(0.6))).upper == 3 * 640
    equal = tables([0.10, 0.80, 0.55, 0.62, 0.63])
    assert only(find_targets(*equal, Target(0.6))).upper == 640


# --- tables, grids, definitions -----------------------------------------------------------------


def test_events_keep_the_schema_and_the_order_of_runs():
    """Every run has one row, in order, with the schema's columns first; absent runs included."""
    data = stack(tables(COLLAPSE, 128, run_id="z"), tables([0.2, 0.5], 64, run_id="a"))
    runs = pd.concat([data[0], pd.DataFrame({"run_id": ["none"], "batch_size": [64]})])
    runs = runs.assign(base_lr=1e-5, seed=3, clip_active="no")
    table = find_failures(runs, *data[1:])
    assert table.events["run_id"].tolist() == ["z", "a", "none"]
    assert tuple(table.events.columns[: len(schema.EVENTS.names)]) == schema.EVENTS.names
    assert table.events["base_lr"].tolist() == [1e-5] * 3
    assert not table.events[["lower", "upper"]].isna().any().any()
    assert codes(table) >= {"no_validation"}


def test_no_runs_make_an_empty_table():
    """Nothing in, an empty typed table out."""
    runs = pd.DataFrame({"run_id": pd.Series(dtype="string"), "batch_size": []})
    assert find_failures(runs, NO_STEPS, NO_EVALS).events.empty
    assert find_targets(runs, NO_STEPS, NO_EVALS, Target(0.6)).events.empty


def test_missing_columns_are_named():
    """The door names what is missing."""
    with pytest.raises(TableError, match="evals: needs column 'accuracy'"):
        find_failures(ONE, NO_STEPS, NO_EVALS.drop(columns="accuracy"))


def test_a_coarse_grid_can_hide_a_failure():
    """A run judged differently on the grid is flagged, and its own verdict stays available."""
    curve = np.r_[0.2, np.full(7, 0.6), np.full(9, 0.2), np.full(8, 0.65)]
    data = tables(curve, 64)
    assert only(find_failures(*data)).status == "failed"
    table = find_failures(*data, grid=640.0 * 16)
    assert only(table).grid == 640 * 16
    coarse = find_failures(*data, grid=640.0 * 24)
    assert only(coarse).status == "healthy"
    assert "grid_sensitive" in codes(coarse)


@pytest.mark.parametrize("grid", [0.0, -1.0, math.nan, {"other": 640.0}])
def test_a_bad_grid_is_refused(grid):
    """The grid must be positive and cover every run."""
    with pytest.raises(SettingsError, match="grid"):
        find_failures(*tables(COLLAPSE), grid=grid)


def test_definition_sensitive_runs_are_named():
    """Case 77's run fails at drops of 0.05 and 0.10, not at 0.20."""
    slow = tables([0.2, 0.5, 0.6, 0.61, 0.58, 0.55, 0.52, 0.5, 0.48, 0.47], 128, run_id="slow")
    table = definition_sensitivity(*stack(slow, tables(COLLAPSE, 128, run_id="cliff")))
    assert table["definition_sensitive"].tolist() == [True, False]
    assert table.loc[0, ["drop_0.10", "drop_0.20"]].tolist() == ["failed", "healthy"]
    assert sensitivity_note(table)[0].runs == ("slow",)
    assert sensitivity_note(table.iloc[1:]) == ()


def test_marks_hold_peak_and_breach():
    """Plots get the peak that was lost and the validation that lost it."""
    marks = find_failures(*tables(COLLAPSE, 128)).marks.set_index("kind")
    assert marks.loc["peak", ["responses", "value"]].tolist() == [2560, 0.60]
    assert marks.loc["breach", ["responses", "value"]].tolist() == [5120, 0.30]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"drop_rel": 1.5}, "drop_rel == 1.5, must be above 0 and at most 1"),
        ({"floor": -0.1}, "floor == -0.1, must be from 0 to 1"),
        ({"recover": 2}, "recover == 2, must be from 0 to 1"),
        ({"confirm": -1}, "confirm == -1, must be 0 or more"),
        ({"dip_limit": 0}, "dip_limit == 0, must be above 0"),
        ({"hard": math.nan}, "hard == nan, must be above 0"),
        ({"suspect": "maybe"}, "suspect == 'maybe', must be censor or event or drop"),
        ({"never_learned": "event"}, "never_learned == 'event', must be drop or censor"),
    ],
)
def test_settings_out_of_range_are_refused(setting, text):
    """Every refusal says name, value and rule."""
    with pytest.raises(SettingsError, match=text):
        Failure(**setting)


def test_a_target_must_be_a_number():
    """NaN is no target."""
    with pytest.raises(SettingsError, match="must be a finite number"):
        Target(math.nan)


def test_precursors_are_shown_for_what_moved():
    """The first row outside the frozen baseline; inf when there is none."""
    entropy = [1.0, 1.1, 0.9] * 10 + [0.2]
    steps = train_rows(entropy=entropy, kl_ref=[0.1, 0.2, 0.3] * 10 + [0.2], ratio_mean=[1.0] * 31)
    table = precursors(steps).set_index("quantity")
    assert table.loc["entropy", "responses"] == 31 * 64
    assert table.loc["kl_ref", "responses"] == math.inf
    assert "ratio_mean" not in table.index
    assert precursors(steps.iloc[:0]).empty
