"""Properties of the rules, a slow second writing of the failure rule, and target choice."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.event_tables import only, tables
from twoclock.errors import TableError, TargetError
from twoclock.events.failure import judge_accuracy, peaks
from twoclock.events.find import Failure, Target, find_failures, find_targets
from twoclock.events.grid import coarse_cells, common_grid
from twoclock.events.series import Series
from twoclock.events.target import CROSSINGS, bracket, pooled
from twoclock.events.target_choice import check_target, default_target

curves = st.lists(st.sampled_from(np.round(np.arange(0, 1.01, 0.05), 2).tolist()), max_size=14).map(
    np.array
)
values = st.floats(0.05, 0.95)
sizes = st.sampled_from([math.nan, 30.0, 300.0])


def series(accuracy, n=math.nan, spacing=64.0):
    """Return a series validated every `spacing` responses from 0 on."""
    at = np.arange(len(accuracy)) * spacing
    return Series(at, np.asarray(accuracy, dtype=float), np.full(len(accuracy), n))


def judged(accuracy, n=math.nan, rule=None, spacing=64.0):
    """Return the accuracy verdict of a log that ends with its last validation."""
    own = series(accuracy, n, spacing)
    end = float(own.responses[-1]) if len(accuracy) else 0.0
    return judge_accuracy(own, rule or Failure(), end=end, died=math.inf)


def slow_rule(a, r, n, rule):
    """Return (status, index of the failing validation), written point by point from the words."""
    i, dip = 1, False
    while i < len(a):
        before = sorted(a[:i])
        peak = before[-2] if i > 1 else before[-1]
        floor = rule.floor
        if not math.isnan(n):
            floor = max(floor, 3 * math.sqrt(2 * peak * (1 - peak) / n))
        drop = min(max(min(rule.drop_abs, rule.drop_rel * peak), floor), rule.hard * peak)
        if peak == 0 or a[i] > peak - drop + 1e-12:
            i += 1
            continue
        back = [j for j in range(i + 1, len(a)) if a[j] >= peak - rule.recover * drop - 1e-12]
        if back:
            if r[back[0]] - r[i] > rule.dip_limit * r[i]:
                return "failed", i
            i, dip = back[0] + 1, True
            continue
        confirmed = len(a) - i >= 2 and r[-1] >= r[i] * (1 + rule.confirm) - 1e-12
        lost = any(x <= peak - rule.hard * peak + 1e-12 for x in a[i:])
        return ("failed" if confirmed or lost else "suspect"), i
    return ("dip" if dip else "healthy"), None


@given(curves, sizes, st.sampled_from([1.0, 2.0, math.inf]))
@settings(max_examples=300, deadline=None)
def test_the_failure_rule_equals_its_words(accuracy, n, limit):
    """The vectorised rule and a literal one agree on any curve."""
    rule = Failure(dip_limit=limit)
    verdict = judged(accuracy, n, rule)
    responses = [64.0 * i for i in range(len(accuracy))]
    assert (verdict.status, verdict.breach) == slow_rule(accuracy.tolist(), responses, n, rule)


@given(curves)
@settings(deadline=None)
def test_peaks_are_the_second_highest_before(accuracy):
    """One value: itself; more: the second-highest of those before."""
    for i, peak in enumerate(peaks(accuracy)):
        before = sorted(accuracy[:i].tolist())
        assert peak == (0 if i == 0 else before[-2] if i > 1 else before[0])


@given(curves, st.sampled_from([2, 7, 1000]))
@settings(deadline=None)
def test_counting_in_other_units_changes_no_status(accuracy, factor):
    """The rule has no length of its own: intervals scale with the responses."""
    one, many = judged(accuracy), judged(accuracy, spacing=64.0 * factor)
    assert (many.status, many.breach) == (one.status, one.breach)
    assert (many.lower, many.upper) == (one.lower * factor, one.upper * factor)


@given(curves, st.integers(1, 5))
@settings(deadline=None)
def test_healthy_points_never_make_a_failure(accuracy, count):
    """A healthy run that goes on at its best stays healthy."""
    if len(accuracy) and judged(accuracy).kind == "healthy":
        longer = np.append(accuracy, np.full(count, accuracy.max()))
        assert judged(longer).kind == "healthy"


@given(values, st.integers(1, 20), sizes)
@settings(deadline=None)
def test_constant_accuracy_never_fails(value, count, n):
    """No drop, no failure."""
    assert judged(np.full(count, value), n).status == "healthy"


@given(curves, values)
@settings(deadline=None)
def test_first_is_never_later_than_the_other_rules(accuracy, value):
    """A pooled or sustained value above the target needs a single one at or before it."""
    upper = {rule: bracket(series(accuracy), Target(value, rule))[1] for rule in CROSSINGS}
    assert upper["first"] <= min(upper["isotonic"], upper["sustain2"])


@given(curves, values, st.sampled_from(CROSSINGS))
@settings(deadline=None)
def test_intervals_have_a_length(accuracy, value, rule):
    """Lower is below upper, but for a target that was met before training."""
    lower, upper = bracket(series(accuracy), Target(value, rule))
    assert lower < upper or lower == upper == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array), st.booleans())
@settings(deadline=None)
def test_pooling_is_monotone_and_keeps_the_mean(accuracy, weighted):
    """Isotonic regression: non-decreasing, within the data, with their weighted mean."""
    n = np.arange(1.0, len(accuracy) + 1) if weighted else np.full(len(accuracy), math.nan)
    fitted = pooled(accuracy, n)
    stop = len(fitted)
    assert np.all(np.diff(fitted) >= -1e-12)
    assert accuracy.min() - 1e-12 <= fitted.min() <= fitted.max() <= accuracy.max() + 1e-12
    weights = n[:stop] if weighted else None
    assert np.average(fitted, weights=weights) == pytest.approx(
        np.average(accuracy[:stop], weights=weights)
    )


def test_a_later_collapse_does_not_undo_a_crossing():
    """The curve is pooled up to its best three validations only."""
    curve = np.array([0.2, 0.5, 0.7, 0.7, 0.7, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert bracket(series(curve), Target(0.6)) == (64.0, 128.0)


# --- grids and cells ----------------------------------------------------------------------------


def test_common_grid_is_the_coarsest_usual_spacing():
    """One missed validation does not make the grid coarser, and other runs do not count."""
    runs, _, evals = tables([0.5] * 9, 64, run_id="a")
    _, _, coarse = tables([0.5] * 9, 512, run_id="b")
    both = pd.concat([evals, coarse.drop(index=4)])
    everyone = pd.DataFrame({"run_id": ["a", "b"]})
    assert common_grid(runs, both) == 640
    assert common_grid(everyone, both) == 5120
    with pytest.raises(TableError, match="no common grid"):
        common_grid(runs, evals.iloc[:1])


def test_runs_on_one_grid_are_judged_alike():
    """A fine series and its own coarse part have the same verdict on the coarse grid."""
    curve = [0.2, 0.45, 0.6, 0.62, 0.3, 0.05, 0.0, 0.0]
    fine = np.repeat(curve, 4)[3:]  # the same policy, validated four times as often
    coarse = only(find_failures(*tables(curve, 256), grid=2560.0))
    dense = only(find_failures(*tables(fine, 64), grid=2560.0))
    assert (dense.lower, dense.upper) == (coarse.lower, coarse.upper) == (7680, 10240)


def test_cells_too_coarse_or_too_short_are_named():
    """Case 102's cells: spacing beyond a quarter of the median failure, or too few validations."""
    rows = []
    for size in (64, 256, 1024, 4096):
        at = np.arange(5 + 163_840 // (20 * size)) * 20 * size
        curve = np.where(at < 30_000, np.where(at > 0, 0.6, 0.2), 0.0)
        rows.append(find_failures(*tables(curve, size, every=20, run_id=f"b{size}")).events)
    cells = coarse_cells(pd.concat(rows))
    assert [cell.batch_size for cell in cells] == [1024, 4096]
    assert cells[1].to_dict()["spacing"] == 81920
    short = find_failures(*tables([0.2, 0.5, 0.6])).events
    assert [cell.reason for cell in coarse_cells(short)] == [
        "3 validations in its longest run, fewer than 8"
    ]


# --- which target -------------------------------------------------------------------------------


def two_sizes(*curves_of_runs, n=None):
    """Return runs and evals with two runs of B=64 and one of B=512."""
    parts = [
        tables(curve, size, n=n, run_id=f"r{k}")
        for k, (curve, size) in enumerate(zip(curves_of_runs, (64, 64, 512), strict=True))
    ]
    return tuple(pd.concat([part[i] for part in parts], ignore_index=True) for i in (0, 2))


def test_default_target_is_reached_by_half_of_every_cell():
    """Half of the two small runs, and the only large one."""
    data = two_sizes([0.1, 0.5, 0.93], [0.1, 0.2, 0.3], [0.12, 0.5, 0.72])
    assert default_target(*data) == 0.7
    assert default_target(*two_sizes([0.1, 0.7], [0.1, 0.2], [0.1, 0.7])) == 0.7


def test_no_default_target_says_why():
    """No multiple of 0.05 between the first validations and what was reached."""
    with pytest.raises(TargetError, match=r"half of the runs of B=512 reached no multiple"):
        default_target(*two_sizes([0.31, 0.7], [0.31, 0.7], [0.31, 0.34]))
    runs, evals = two_sizes([0.1, 0.7], [0.1, 0.2], [0.1, 0.7])
    with pytest.raises(TargetError, match="score"):
        default_target(runs, evals.assign(scale="score", metric="points"))
    with pytest.raises(TargetError, match="none of these runs has a validation"):
        default_target(runs, evals.iloc[:0])
    mixed = evals.assign(metric=np.where(evals["run_id"] == "r0", "a", "b"))
    with pytest.raises(TargetError, match=r"different metrics \(a, b\)"):
        default_target(runs, mixed)


def test_a_target_at_the_base_accuracy_is_refused():
    """Pooled over runs: 0.30 with 3 * 100 answers has a standard error of 0.026."""
    runs, evals = two_sizes([0.3, 0.7], [0.3, 0.7], [0.3, 0.7], n=100)
    with pytest.raises(TargetError, match="target_at_base"):
        check_target(runs, evals, Target(0.37))
    check_target(runs, evals, Target(0.38))
    with pytest.raises(TargetError, match="target_at_base"):
        check_target(runs, evals.assign(n=None), Target(0.3))


def test_the_base_accuracy_is_per_model():
    """A strong model's base does not hide behind a weak one's."""
    runs, evals = two_sizes([0.1, 0.7], [0.1, 0.7], [0.6, 0.7], n=10_000)
    check_target(runs, evals, Target(0.6))
    with pytest.raises(TargetError, match=r"0\.600 \(big\)"):
        check_target(runs.assign(model=["small", "small", "big"]), evals, Target(0.6))


def test_a_target_off_the_scale_is_refused():
    """Per cent for fractions is a likely slip."""
    runs, evals = two_sizes([0.1, 0.7], [0.1, 0.7], [0.1, 0.7])
    with pytest.raises(TargetError, match="target == 60, must be above 0 and at most 1"):
        check_target(runs, evals, Target(60.0))
    check_target(runs, evals.assign(scale="score", metric="points"), Target(1.2))


def test_targets_of_a_score_work_in_its_unit():
    """A score has crossings like any accuracy."""
    runs, steps, evals = tables([0.4, 0.9, 1.3, 1.25])
    row = only(find_targets(runs, steps, evals.assign(scale="score", metric="s"), Target(1.2)))
    assert (row.lower, row.upper) == (640, 1280)
