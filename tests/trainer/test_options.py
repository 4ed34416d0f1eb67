"""Every option of the trainer in real, short runs: what it must change, and what it must not."""

import json

import pytest
import torch

from tests.trainer.conftest import tiny, untimed
from twoclock.errors import SettingsError, TrainingError
from twoclock.runs import read_runs
from twoclock.trainer import SweepOptions, train
from twoclock.trainer.base import base_policy
from twoclock.trainer.crew import Crew
from twoclock.trainer.settings import SIZES, with_size

BRACKETS = {"task": "brackets", "digits": 8, "symbols": 4, "base_steps": 200}
FAMILIES = pytest.mark.parametrize("family", ["transformer", "recurrent"])


class Killed(Exception):
    """Raised by a progress callable."""


def advanced(base, rollouts=3, **changes):
    """Return a crew of one member after some rollouts, and its last report."""
    crew = Crew([tiny(**changes)], base)
    for _ in range(rollouts):
        report = crew.advance()
    return crew, report


@pytest.fixture(scope="module")
def brackets(cache):
    """Parameters of a base policy that closes brackets."""
    return base_policy(tiny(**BRACKETS), cache)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "addition", "digits": 2, "symbols": 5},
        {"task": "chain", "digits": 4, "symbols": 6},
        BRACKETS,
        {**BRACKETS, "family": "recurrent"},
        {"optimizer": "sgd", "momentum": 0.9, "base_lr": 0.01},
        {"kl_coef": 0.1, "entropy_coef": 0.01, "loss_mean": "sequence", "temperature": 1.5},
        {"normalize_std": False, "clip_low": None, "clip_high": 0.3, "grad_clip": 0.5},
    ],
    ids=["addition", "chain", "brackets", "recurrent", "sgd", "loss", "clip"],
)
def test_any_options_train_resume_bit_for_bit_and_read_back(tmp_path, cache, changes):
    """Killed and resumed, a run has the uninterrupted rows, and read_runs finds its facts."""
    settings = tiny(responses=160, **{"base_steps": 60, **changes})
    (whole,) = train([settings], tmp_path / "whole", cache=cache)

    def stop(done, total, text):
        if done >= 96:
            raise Killed

    with pytest.raises(Killed):
        train([settings], tmp_path / "cut", cache=cache, progress=stop, checkpoint_every=64)
    (again,) = train([settings], tmp_path / "cut", cache=cache)
    assert untimed(again) == untimed(whole)
    (run,) = read_runs(tmp_path / "whole").runs.to_dict("records")
    assert run["batch_size"] == 32
    assert run["kl_coef"] == settings.kl_coef
    assert run["temperature"] == settings.temperature
    assert run["optimizer"].startswith(settings.optimizer)
    assert run["lr_gamma"] == 0.5


def test_early_ends_are_counted_as_tokens(tmp_path, cache):
    """Bracket answers end early: tokens are those up to the end, summed over rollouts."""
    (folder,) = train([tiny(responses=96, **BRACKETS)], tmp_path, cache=cache)
    rows = [row for row in untimed(folder) if row["kind"] == "train"]
    length = tiny(**BRACKETS).make_task().answer_length
    assert all(1 <= row["response_tokens"] < length for row in rows)
    sums = [round(sum(r["response_tokens"] * 32 for r in rows[: i + 1])) for i in range(len(rows))]
    assert [row["tokens"] for row in rows] == sums


def test_means_of_the_loss_differ_only_where_lengths_do(base, brackets):
    """With answers of one length the three means train alike; with brackets they do not."""
    same = [advanced(base, loss_mean=mean)[0].theta for mean in ("token", "sequence", "constant")]
    torch.testing.assert_close(same[0], same[1], rtol=0, atol=1e-3)
    torch.testing.assert_close(same[0], same[2], rtol=0, atol=1e-3)
    token, sequence = (
        advanced(brackets, loss_mean=mean, **BRACKETS)[0].theta for mean in ("token", "sequence")
    )
    assert float((token - sequence).abs().max()) > 1e-3


def test_kl_penalty_keeps_the_policy_near_the_base(base):
    """A heavy penalty leaves less KL to the base than a light one, and both log it."""
    _, light = advanced(base, rollouts=8, kl_coef=1e-6, base_lr=3e-3)
    _, heavy = advanced(base, rollouts=8, kl_coef=10.0, base_lr=3e-3)
    assert light.stats.kl_ref is not None
    assert heavy.stats.kl_ref is not None
    assert float(heavy.stats.kl_ref) < 0.5 * float(light.stats.kl_ref)
    _, without = advanced(base, rollouts=1)
    assert without.stats.kl_ref is None


def test_entropy_bonus_keeps_entropy_up(base):
    """With a bonus the policy's entropy ends higher than without."""
    _, plain = advanced(base, rollouts=8, base_lr=3e-3)
    _, bonus = advanced(base, rollouts=8, base_lr=3e-3, entropy_coef=1.0)
    assert float(bonus.entropy) > float(plain.entropy) + 0.1


def test_temperature_flattens_what_is_sampled(base):
    """Hotter sampling has more entropy, and the first ratios are 1 at any temperature."""
    reports = [
        advanced(base, 1, temperature=t, minibatches=1, epochs=1)[1] for t in (0.5, 1.0, 2.0)
    ]
    entropies = [float(r.entropy) for r in reports]
    assert entropies == sorted(entropies)
    for report in reports:
        assert float(report.stats.ratio_max) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(("minibatches", "epochs"), [(1, 1), (8, 8), (2, 32)])
def test_k_runs_from_1_to_64(base, minibatches, epochs):
    """K = minibatches * epochs steps are taken, from on-policy to 64 per rollout."""
    crew, report = advanced(base, 1, minibatches=minibatches, epochs=epochs)
    assert crew.optimizer.steps == minibatches * epochs
    spread = float(report.stats.ratio_max) - 1
    assert spread < 1e-4 if minibatches * epochs == 1 else spread > 1e-4


@FAMILIES
@pytest.mark.parametrize("size", sorted(SIZES))
def test_three_sizes_of_both_families_train(tmp_path, family, size):
    """Each named size makes a model that takes steps with finite losses."""
    sized = with_size({"size": size})
    base = base_policy(tiny(family=family, base_steps=2, **sized), tmp_path)
    _, report = advanced(base, 1, family=family, base_steps=2, **sized)
    assert bool(report.stats.loss.isfinite())


def test_sizes_grow():
    """Small < medium < large in parameters, for both families."""
    for family in ("transformer", "recurrent"):
        counts = [tiny(family=family, **SIZES[s]).shape().n_params for s in SIZES]
        assert counts == sorted(set(counts))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "mamba"}, "must be one of transformer, recurrent"),
        ({"optimizer": "adamw"}, "must be one of adam, sgd"),
        ({"loss_mean": "mean"}, "must be one of token, sequence, constant"),
        ({"temperature": 0.0}, "temperature == 0.0, must be > 0"),
        ({"kl_coef": -1.0}, "kl_coef == -1.0, must be >= 0"),
        ({"momentum": 1.0}, "momentum == 1.0"),
        ({"symbols": 11}, "symbols == 11, must be <= 10"),
        ({"task": "brackets", "symbols": 5}, "must be even"),
        ({"variant": "K 8"}, "variant == 'K 8'"),
    ],
)
def test_impossible_options_are_refused_in_one_line(changes, message):
    """A wrong option names its value and its rule."""
    with pytest.raises(SettingsError, match=message):
        tiny(**changes)


@pytest.mark.parametrize(
    ("device", "message"),
    [("tpu", "no such device"), ("meta", "must be cpu or cuda"), ("cuda:7", "sees no such GPU")],
)
def test_a_device_that_is_not_there_is_refused(base, device, message):
    """One line says what to use instead; nothing is trained."""
    with pytest.raises(TrainingError, match=message):
        Crew([tiny()], base, device)


def test_a_sweep_refuses_a_device_before_it_starts():
    """The options of a sweep are checked when they are made, before anything is written."""
    with pytest.raises(TrainingError, match="sees no such GPU"):
        SweepOptions(device="cuda:7")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_sees_the_same_problems_and_learns_alike(tmp_path, cache):
    """On a GPU the first validation and rollout are those of the CPU but for rounding."""
    (cpu,) = train([tiny()], tmp_path / "cpu", cache=cache)
    (gpu,) = train([tiny()], tmp_path / "gpu", cache=cache, device="cuda")
    for one, two in zip(untimed(cpu)[:2], untimed(gpu)[:2], strict=True):
        for name in ("accuracy", "reward", "entropy"):
            if name in one:
                assert two[name] == pytest.approx(one[name], abs=0.02)
    assert json.loads((gpu / "run.json").read_text())["ended"] == "completed"
