"""Rows on one clock: what steps of each framework mean, as pure functions of columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frameworks.examples import ALL
from twoclock.frameworks.areal import AREAL
from twoclock.frameworks.art import ART
from twoclock.frameworks.base import Fact
from twoclock.frameworks.openrlhf import OPENRLHF
from twoclock.frameworks.prime_rl import PRIME_RL
from twoclock.frameworks.roll import ROLL
from twoclock.frameworks.slime import SLIME
from twoclock.sources.columns import is_wanted

ARRANGED = [framework for framework in ALL if framework.arrange is not None]


def columns(rows):
    """Return rows (dicts) as columns, and how many there are."""
    out = {}
    for key in {key for row in rows for key in row}:
        at = [i for i, row in enumerate(rows) if key in row]
        out[key] = (np.array(at), np.array([float(rows[i][key]) for i in at]))
    return out, len(rows)


def arranged(framework, rows, **facts):
    """Return {key: {row: value}} of the columns that a framework adds."""
    told = {name: Fact(value, "config") for name, value in facts.items()}
    found = framework.arrange(*columns(rows), told)
    return {
        key: dict(zip(at.tolist(), values.tolist(), strict=True))
        for key, (at, values) in found.items()
    }


def prime(step, **more):
    return {"step": step, "loss/mean": 0.1, "optim/lr": 1e-6, **more}


@pytest.mark.parametrize("begins", [0, 1])
def test_prime_rl_counts_batches_from_zero_in_both_ways(begins):
    """Batches are 0, 1, 2 whether the log counts from 0 or 1; validations keep their step."""
    rows = [{"step": 0, "eval/aime/avg@4": 0.1}, prime(begins), prime(begins + 1),
            {"step": 2, "eval/aime/avg@4": 0.3}]  # fmt: skip
    assert arranged(PRIME_RL, rows)["step"] == {0: 0, 1: 0, 2: 1, 3: 2}


@pytest.mark.parametrize("name", ["eval/aime/policy_version", "progress/ckpt_step"])
def test_prime_rl_validations_stand_at_the_weights_they_measured(name):
    """A validation asked for at step 4 of weights with 2 updates stands at 2."""
    rows = [prime(0), prime(1), prime(2), {"step": 4, "eval/aime/avg@4": 0.3, name: 2}]
    assert arranged(PRIME_RL, rows)["step"][3] == 2


@pytest.mark.parametrize(("extra", "first"), [({}, 101), ({"progress/total_rollouts": 64}, 100)])
def test_prime_rl_without_its_beginning_is_told_by_its_version(extra, first):
    """A log that begins at 101 counts from 0 in old versions and from 1 in the newest."""
    assert arranged(PRIME_RL, [prime(101, **extra), prime(102, **extra)])["step"][0] == first


@pytest.mark.parametrize(
    ("total_key", "each_key", "totals"),
    [
        ("progress/total_rollouts", "progress/rollouts", [0, 64, 130]),
        ("progress/total_samples", "progress/samples", [64, 130, 194]),
        ("progress/total_samples", "progress/samples", [0, 64, 130]),
    ],
)
def test_prime_rl_totals_include_the_batch_of_their_row(total_key, each_key, totals):
    """The total counts the row's own batch, whether the version logs it before or after adding."""
    each = [64, 66, 64]
    rows = [prime(s, **{total_key: totals[s], each_key: each[s]}) for s in range(3)]
    assert arranged(PRIME_RL, rows)["responses"] == {0: 64, 1: 130, 2: 194}


def test_prime_rl_rows_of_other_measurements_are_training_rows():
    """A row without a metric that is read (times, memory) stands at the batch of its step."""
    rows = [prime(1), {"step": 1, "time": 5.0}, prime(2), {"step": 2, "time": 9.0}]
    assert list(arranged(PRIME_RL, rows)["step"].values()) == [0, 0, 1, 1]


def test_prime_rl_names_losses_that_its_lines_leave_out():
    """A row with nan_count above 0 has a loss that is not finite, though the line has none."""
    rows = [prime(0, **{"loss/nan_count": 0}), {"step": 1, "loss/nan_count": 3, "optim/lr": 1e-6}]
    loss = arranged(PRIME_RL, rows)["loss/mean"]
    assert loss[0] == 0.1
    assert np.isnan(loss[1])


def slime(kind, step, **more):
    key = {"rollout": "rollout/raw_reward", "train": "train/pg_loss", "eval": "eval/aime/reward"}
    return {f"{kind}/step": step, key[kind]: 0.5, **more}


def test_slime_has_one_clock_of_finished_rollouts():
    """Rollouts, optimizer steps (two a rollout) and validations meet on finished rollouts."""
    rows = [
        slime("eval", 0), slime("rollout", 0), slime("train", 0), slime("train", 1),
        slime("rollout", 1), slime("train", 2), slime("train", 3), slime("eval", 1),
    ]  # fmt: skip
    found = arranged(SLIME, rows, optimizer_steps_per_rollout=2, eval_interval=2)["step"]
    assert list(found.values()) == [0, 1, 1, 1, 2, 2, 2, 2]


def test_slime_on_the_train_clock_means_the_same():
    """With every step in optimizer steps (wandb_always_use_train_step) the clock is the same."""
    rows = [slime("eval", 0), slime("rollout", 0), slime("rollout", 2), slime("train", 3),
            slime("eval", 2)]  # fmt: skip
    found = arranged(SLIME, rows, optimizer_steps_per_rollout=2, clocks="train", eval_interval=2)
    assert list(found["step"].values()) == [0, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, [0, 1, 1]),
        ({"eval_interval": 1}, [0, 1, 1]),
        ({"validates_first": "no"}, [1, 1, 1]),
    ],
)
def test_slime_tells_the_two_validations_at_zero_apart(facts, expected):
    """At eval/step 0 the one before the first rows of training is untrained, unless skipped."""
    rows = [slime("eval", 0), slime("rollout", 0), slime("eval", 0)]
    assert list(arranged(SLIME, rows, **facts)["step"].values()) == expected


@pytest.mark.parametrize(
    ("rollouts", "steps", "expected"), [(10, 40, 4), (10, 37, 4), (10, 36, 4), (2, 1, 1)]
)
def test_slime_counts_steps_per_rollout_by_the_clocks(rollouts, steps, expected):
    """Without a setting, the last steps tell K, also when the last rollout is trained in part."""
    rows = [slime("rollout", r) for r in range(rollouts)]
    rows += [slime("train", t) for t in range(steps)]
    step = arranged(SLIME, rows)["step"]
    assert step[rollouts + steps - 1] == (steps - 1) // expected + 1


def test_slime_leaves_steps_out_where_two_answers_fit():
    """Three rollouts and six steps can be two or three a rollout: the steps stay unplaced."""
    rows = [slime("rollout", r) for r in range(3)] + [slime("train", t) for t in range(6)]
    assert set(arranged(SLIME, rows)["step"]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        ("eval/aime-2024", "eval/aime-2024/reward"),
        ("eval/aime-truncated_ratio", "eval/aime-truncated_ratio"),
        ("eval/aime-pass@4", "eval/aime-pass@4"),
        ("eval/aime/response_len/mean", "eval/aime/response_len/mean"),
        ("eval/step", "eval/step"),
    ],
)
def test_slime_validations_are_the_rewards_of_data_sets(key, plain):
    """Of the keys below eval/ only the name of a data set alone is its mean reward."""
    assert SLIME.plain(key) == plain


def areal(step, begins=True):
    row = {"_step": step, "ppo_actor/update/grad_norm": 1.0}
    return {**row, "ppo_actor/task_reward/avg": 0.4} if begins else row


def test_areal_rollouts_are_counted_where_minibatches_have_rows():
    """Four rows a rollout at steps 0 to 7 are two rollouts."""
    rows = [areal(step, step % 4 == 0) for step in range(8)]
    assert list(arranged(AREAL, rows)["step"].values()) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_areal_goes_on_counting_after_a_resume():
    """A log that begins at 40 with four rows a rollout begins at rollout 10, repeats included."""
    steps = [40, 41, 42, 43, 44, 45, 46, 47, 44, 45, 46, 47]
    rows = [areal(step, step % 4 == 0) for step in steps]
    assert list(arranged(AREAL, rows)["step"].values()) == [10] * 4 + [11] * 8


@pytest.mark.parametrize("steps", [[0, 1, 2, 3], [0, 40, 85, 120]])
def test_areal_steps_stand_where_each_rollout_has_one_row(steps):
    """One row a rollout is right as logged, also in a history of which rows are missing."""
    assert arranged(AREAL, [areal(step) for step in steps]) == {}


def test_openrlhf_validations_have_the_step_of_their_own_axis():
    """A row of a validation stands at eval/global_step; training rows keep theirs."""
    rows = [{"global_step": 1}, {"global_step": 2}, {"eval/global_step": 2, "eval_a_pass1": 0.3}]
    assert arranged(OPENRLHF, rows)["global_step"] == {0: 1, 1: 2, 2: 2}
    assert arranged(OPENRLHF, rows[:2]) == {}


def test_roll_forks_count_from_one():
    """system/step from 1 becomes a step from 0; one that begins at 0 stays."""
    assert arranged(ROLL, [{"system/step": 1}, {"system/step": 2}])["step"] == {0: 0, 1: 1}
    assert arranged(ROLL, [{"system/step": 0}, {"system/step": 1}])["step"] == {0: 0, 1: 1}
    assert arranged(ROLL, [{"step": 0}]) == {}


def test_art_rows_of_both_ages_meet():
    """A training row that made version 1 stands at 0, whether it was logged at 0 or at 1."""
    val = {"step": 0, "val/reward": 0.1}
    for begins in (0, 1):
        rows = [val, {"step": begins, "train/reward": 0.2}, {"step": begins + 1, "loss/train": 0.1}]
        assert arranged(ART, rows)["step"] == {0: 0, 1: 0, 2: 1}


@pytest.mark.parametrize("framework", ARRANGED, ids=lambda f: f.name)
def test_what_arranging_needs_is_read(framework):
    """Keys that only an arrangement uses are kept by the readers, too."""
    assert all(is_wanted(key.replace("*", "x")) for key in framework.needs)


@pytest.mark.parametrize("framework", ARRANGED, ids=lambda f: f.name)
@given(data=st.data())
def test_any_columns_are_arranged(framework, data):
    """Columns of any rows and values, NaN and infinity included, give columns within the log."""
    rows = data.draw(st.integers(0, 12))
    keys = [key.replace("*", "x") for key in framework.keys] + [
        "rollout/step", "train/step", "eval/step", "system/step", "loss/nan_count", "step",
        "_step", "training_step", *(key for group in framework.writes for key in group),
    ]  # fmt: skip
    held = data.draw(st.lists(st.sampled_from(keys), max_size=6, unique=True))
    log = {}
    for key in held:
        at = sorted(data.draw(st.sets(st.integers(0, max(0, rows - 1)), max_size=rows)))
        values = data.draw(st.lists(st.floats(width=32) | st.integers(-3, 9).map(float),
                                    min_size=len(at), max_size=len(at)))  # fmt: skip
        log[key] = (np.array(at, dtype=np.int64), np.array(values, dtype=np.float64))
    with np.errstate(all="ignore"):
        found = framework.arrange(log, rows, {})
    for at, values in found.values():
        assert len(at) == len(values)
        assert (np.diff(at) > 0).all()
        assert not len(at) or (at[0] >= 0 and at[-1] < rows)


@pytest.mark.parametrize("framework", ARRANGED, ids=lambda f: f.name)
def test_arranged_steps_are_those_of_the_description(framework):
    """The column that an arrangement adds is the first that the description counts steps by."""
    first = next(iter(framework.steps))
    assert first == ("global_step" if framework is OPENRLHF else "step")
