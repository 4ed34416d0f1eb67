"""Probes of real training: they change nothing, survive a kill, and measure what they say."""

import math

import pytest
import torch

from tests.trainer.conftest import tiny, untimed
from twoclock.errors import SettingsError
from twoclock.runs import read_runs
from twoclock.schema import PROBES
from twoclock.trainer.base import base_policy
from twoclock.trainer.crew import Crew
from twoclock.trainer.loop import train
from twoclock.trainer.probes import measure

PROBED = {"probe_every": 64, "probe_prompts": 32, "probe_twins": 2}


class Killed(Exception):
    """Stands for a kill signal."""


def stop_at(responses):
    """Return a progress callable that kills the training once so many responses are done."""

    def progress(done, total, text):
        if done >= responses:
            raise Killed

    return progress


def kinds(folder):
    """Return the rows of a log without times: probes, and all others."""
    rows = untimed(folder)
    return [r for r in rows if r["kind"] == "probe"], [r for r in rows if r["kind"] != "probe"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"family": "recurrent", "kl_coef": 0.1, "entropy_coef": 0.01, "temperature": 0.8},
        {"optimizer": "sgd", "momentum": 0.5, "base_lr": 0.05, "task": "brackets", "digits": 6},
    ],
    ids=["plain", "recurrent", "sgd"],
)
def test_probes_change_no_other_row(tmp_path, cache, changes):
    """Train and eval rows are the same bytes with probes as without; probes come as asked."""
    (plain,) = train([tiny(**changes)], tmp_path / "plain", cache=cache)
    (probed,) = train([tiny(**PROBED, **changes)], tmp_path / "probed", cache=cache)
    rows, others = kinds(probed)
    assert others == untimed(plain)
    assert [r["rollout"] for r in rows] == [2, 4, 6, 8]
    assert [r["responses"] for r in rows] == [64, 128, 192, 256]
    assert {r["heldout_responses"] for r in rows} == {128}
    assert all("nonfinite" not in r for r in rows)


def test_probe_rows_have_the_columns_of_the_schema_and_are_read_back(tmp_path, cache):
    """A probe fills every column, and `Runs.probes` holds exactly what was written."""
    settings = tiny(base_lr=1e-4, probe_every=256, probe_prompts=512)
    (folder,) = train([settings], tmp_path, cache=cache)
    ((row,), _) = kinds(folder)
    assert set(row) - {"kind"} == set(PROBES.names) - {"run_id", "nonfinite", "probe_seconds"}
    probes = read_runs(folder).probes
    assert probes["run_id"].tolist() == [folder.name]
    for name in set(row) - {"kind"}:
        assert probes[name].tolist() == [row[name]]


def test_a_killed_run_has_the_probes_of_a_whole_one(tmp_path, cache):
    """Sums along the path go on from the checkpoint: resumed rows are those of a whole run."""
    members = [tiny(seed=0, responses=128, **PROBED), tiny(seed=1, **PROBED)]
    train(members, tmp_path / "whole", cache=cache)
    with pytest.raises(Killed):
        train(members, tmp_path / "cut", progress=stop_at(32 * 2 * 4 + 32), cache=cache,
              checkpoint_every=96)  # fmt: skip
    for folder in train(members, tmp_path / "cut", cache=cache):
        assert untimed(folder) == untimed(tmp_path / "whole" / folder.name)


def test_a_probe_is_the_same_in_every_crew(tmp_path, cache, monkeypatch):
    """Alone or with others, probed at once or in turn, a member has the same probes."""
    (alone,) = train([tiny(seed=3, **PROBED)], tmp_path / "alone", cache=cache)
    members = [tiny(seed=s, base_lr=lr, **PROBED) for s in (2, 3) for lr in (1e-3, 3e-3)]
    monkeypatch.setattr(measure, "MEMBER_FLOATS", 3 * 2 * 16 * members[0].shape().n_stored)
    train(members, tmp_path / "crew", cache=cache)
    assert untimed(alone) == untimed(tmp_path / "crew" / alone.name)


def test_a_broken_run_says_so_in_its_probes(tmp_path, cache, monkeypatch):
    """Non-finite parameters give null columns that are named; the neighbour is untouched."""
    real = Crew.advance

    def advance(crew):
        if crew.rollout == 3:
            crew.theta[0] = float("nan")
        return real(crew)

    members = [tiny(seed=0, **PROBED), tiny(seed=1, **PROBED)]
    train(members[1:], tmp_path / "alone", cache=cache)
    monkeypatch.setattr(Crew, "advance", advance)
    bad, good = train(members, tmp_path, cache=cache)
    rows, _ = kinds(bad)
    assert [r["rollout"] for r in rows if "nonfinite" in r] == [4, 6]
    assert rows[1]["slope"] is None
    assert {"slope", "slope_se", "update_length"} <= set(rows[1]["nonfinite"].split(","))
    assert untimed(good) == untimed(tmp_path / "alone" / good.name)


def test_a_rollout_without_signal_leaves_out_what_it_cannot_tell(tmp_path, cache):
    """No reward, no gradient, no step: lengths are 0, ratios are missing, nothing is broken."""
    settings = tiny(
        optimizer="sgd", digits=6, base_steps=0, responses=32, **{**PROBED, "probe_every": 32}
    )
    (folder,) = train([settings], tmp_path, cache=cache)
    ((row,), _) = kinds(folder)
    assert "nonfinite" not in row
    assert row["update_length"] == row["gradient_square"] == row["measured_gain"] == 0
    missing = {"path_ratio", "noise_batch_size", "alignment", "update_cosine", "curvature_share"}
    assert not missing & set(row)


def test_step_lengths_and_rates_add_up(base):
    """|D|, its share of the path, the squared steps and rates are what the steps say."""
    settings = tiny(**{**PROBED, "probe_every": 32}, warmup_responses=64)
    crew = Crew([settings], base)
    inner, steps, rates = crew.optimizer.inner, [], []
    real = inner.step

    def step(theta, grad, lr):
        before = theta.clone()
        real(theta, grad, lr)
        steps.append((theta - before)[0].double())
        rates.append(lr.item())

    inner.step = step
    for rollout in (1, 2, 3):
        probe = measure.begin(crew)
        del steps[(rollout - 1) * 4 :], rates[(rollout - 1) * 4 :]  # those of the twins
        before = crew.theta.clone()
        crew.advance()
        (row,) = probe.finish(crew)
        taken = [float(s.norm()) for s in steps]
        moved = float((crew.theta - before).double().norm())
        assert row["update_length"] == pytest.approx(moved, rel=1e-9)
        assert row["path_ratio"] == pytest.approx(moved / sum(taken[-4:]), rel=1e-9)
        assert row["path_square"] == pytest.approx(sum(s**2 for s in taken), rel=1e-9)
        assert row["lr_square"] == pytest.approx(sum(r**2 for r in rates), rel=1e-9)
        away = float((crew.theta - base).double().norm())
        assert row["distance"] == pytest.approx(away, rel=1e-9)
    assert len(taken) == 12


def test_predicted_and_measured_gain_agree_for_small_steps(tmp_path, cache):
    """Where the second order is enough, fresh rewards rise by what gradient and curvature say."""
    settings = tiny(base_lr=2e-4, responses=96, probe_every=32, probe_prompts=1024, probe_twins=0)
    (folder,) = train([settings], tmp_path, cache=cache)
    rows, _ = kinds(folder)
    gaps = [r["gain_residual"] / r["gain_residual_se"] for r in rows]
    assert abs(sum(gaps)) / math.sqrt(len(gaps)) < 3.5
    assert sum(r["measured_gain"] for r in rows) > 0
    assert all(r["predicted_gain_se"] < 0.02 for r in rows)
    assert "coherent_loss" not in rows[0]


def test_twins_split_what_noise_and_mean_lose(base):
    """Twin updates are other draws of the real one: their errors shrink as they get more."""
    rows = {}
    for twins in (2, 12):
        crew = Crew([tiny(probe_every=32, probe_prompts=256, probe_twins=twins)], base)
        probe = measure.begin(crew)
        crew.advance()
        (rows[twins],) = probe.finish(crew)
        assert rows[twins]["twins"] == twins == len(probe.twins)
        total = rows[twins]["coherent_loss"] + rows[twins]["noise_loss"]
        assert total == pytest.approx(rows[twins]["curvature_loss"], rel=1e-4)
        lengths = probe.twins.norm(dim=2)
        real = (crew.theta - probe.theta).norm(dim=1)
        assert ((lengths / real - 1).abs() < 0.5).all()
        assert not torch.equal(probe.twins[0], probe.twins[1])
    same = [name for name in rows[2] if name not in ("twins", "probe_seconds")]
    for name in same:
        if not name.startswith(("coherent", "noise_loss", "noise_share")):
            assert rows[2][name] == rows[12][name]


def test_no_probes_no_tracking(cache):
    """Without probes nothing is tracked and no probe begins."""
    crew = Crew([tiny()], base_policy(tiny(), cache))
    assert measure.begin(crew) is None
    assert "path_square" not in crew.optimizer.state()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probe_every": -1}, "probe_every == -1, must be >= 0"),
        ({"probe_prompts": 40}, "probe_prompts == 40, must be a multiple of 16"),
        ({"probe_prompts": 0}, "probe_prompts == 0, must be >= 1"),
        ({"probe_twins": -1}, "probe_twins == -1, must be >= 0"),
    ],
)
def test_impossible_probes_are_refused(changes, message):
    """Wrong settings are refused when made, in one line."""
    with pytest.raises(SettingsError, match=message):
        tiny(**changes)
