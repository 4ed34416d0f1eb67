"""What configurations say: one table over all frameworks, then what no table says."""

import json
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.frameworks.examples import (
    ALL,
    CONFIGS,
    NEMO,
    OPEN,
    OPENRLHF_OLD,
    ROLL_CONFIG,
    SKY,
    SLIME_CONFIG,
    TINKER_CONFIG,
    TUNE_CONFIG,
)
from twoclock.frameworks.areal import AREAL
from twoclock.frameworks.config import flat_config
from twoclock.frameworks.nemo_rl import NEMO_RL
from twoclock.frameworks.open_instruct import OPEN_INSTRUCT
from twoclock.frameworks.openrlhf import OPENRLHF
from twoclock.frameworks.roll import ROLL, device_count
from twoclock.frameworks.skyrl import SKYRL
from twoclock.frameworks.slime import SLIME
from twoclock.frameworks.tinker import TINKER
from twoclock.frameworks.torchtune import TORCHTUNE
from twoclock.runs.deriving import derive


def told(framework, config, **changes):
    """Return {fact: value} of a configuration, with what follows from the facts."""
    flat = {**flat_config(config), **changes}
    facts = framework.facts_of(flat)
    derive(facts, "run", framework)
    return {name: fact.value for name, fact in facts.items()}


@pytest.mark.parametrize("case", CONFIGS, ids=lambda case: case[0].name)
def test_configurations_give_their_facts(case):
    """B in responses, group, K, rate, schedule, clips, seed and model are what was set."""
    framework, config, expected = case
    found = told(framework, config)
    assert {name: found.get(name) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("case", CONFIGS, ids=lambda case: case[0].name)
def test_configurations_of_texts_give_the_same_facts(case):
    """TensorBoard and MLflow keep every setting as a text: numbers and switches are read there."""
    framework, config, expected = case
    flat = flat_config(config)
    texts = {k: str(v) for k, v in flat.items() if not isinstance(v, list | dict) and v is not None}
    found = told(framework, {}, **{**flat, **texts})
    assert {name: found.get(name) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("framework", "config", "changes", "clips"),
    [
        (NEMO_RL, NEMO, {"loss_fn.ratio_clip_c": 3.0}, (0.2, 0.28, 3.0)),
        (NEMO_RL, NEMO, {"loss_fn.disable_ppo_ratio": True}, (inf, inf, inf)),
        (NEMO_RL, NEMO, {"loss_fn.use_cispo": True, "loss_fn.ratio_clip_max": 5.0}, (inf, inf, 6)),
        (OPEN_INSTRUCT, OPEN, {"loss_fn": "cispo"}, (inf, inf, 1.272)),
        (OPEN_INSTRUCT, OPEN, {"loss_fn": "dppo"}, (None, None, None)),
        (SKYRL, SKY, {"trainer.algorithm.policy_loss_type": "dual_clip"}, (0.2, 0.28, 3.0)),
        (SKYRL, SKY, {"trainer.algorithm.policy_loss_type": "cispo"}, (inf, inf, 6.0)),
        (SKYRL, SKY, {"trainer.algorithm.policy_loss_type": "importance_sampling"}, (inf,) * 3),
        (SKYRL, SKY, {"trainer.algorithm.policy_loss_type": "my_own"}, (None, None, None)),
        (SLIME, SLIME_CONFIG, {"eps_clip_high": None, "eps_clip_c": 3.0}, (0.2, 0.2, 3.0)),
        (SLIME, SLIME_CONFIG, {"advantage_estimator": "cispo"}, (inf, inf, 1.28)),
        (ROLL, ROLL_CONFIG, {"use_pg_clip_range": False, "pg_clip": 0.1}, (0.1, 0.1, 1.2)),
        (ROLL, ROLL_CONFIG, {"dual_clip_loss": False}, (0.2, 0.27, inf)),
        (TINKER, TINKER_CONFIG, {"loss_fn": "ppo"}, (0.2, 0.2, inf)),
        (TINKER, TINKER_CONFIG, {"loss_fn": "ppo", "loss_fn_config.clip_low_threshold": 0.9,
                                 "loss_fn_config.clip_high_threshold": 1.3}, (0.1, 0.3, inf)),
        (TINKER, TINKER_CONFIG, {"loss_fn": "dro"}, (None, None, None)),
        (TORCHTUNE, TUNE_CONFIG, {"loss._component_": "torchtune.dev.GRPOSimpleLoss"}, (inf,) * 3),
    ],
)  # fmt: skip
def test_losses_decide_what_clips(framework, config, changes, clips):
    """Bounds follow the loss that is trained with, not the settings of another one beside it."""
    found = told(framework, config, **changes)
    names = ("clip_low", "clip_high", "clip_dual")
    assert [found.get(name) for name in names] == pytest.approx(list(clips))


@pytest.mark.parametrize(
    ("framework", "config", "change"),
    [
        (OPENRLHF, OPENRLHF_OLD, {"enable_vllm_is_correction": True}),
        (NEMO_RL, NEMO, {"loss_fn.use_importance_sampling_correction": True,
                         "loss_fn.truncated_importance_sampling_ratio": 2.0}),
        (OPEN_INSTRUCT, OPEN, {"truncated_importance_sampling_ratio_cap": 2.0}),
        (OPEN_INSTRUCT, OPEN, {"tis_mask_upper": 4.0}),
        (SKYRL, SKY, {"trainer.algorithm.off_policy_correction.tis_ratio_type": "token"}),
        (SKYRL, SKY, {"trainer.algorithm.use_tis": True}),
        (AREAL, {"actor": {"ppo_n_minibatches": 1}}, {"actor.use_decoupled_loss": True,
                                                      "actor.behav_imp_weight_cap": 5.0}),
        (SLIME, SLIME_CONFIG, {"use_tis": True}),
        (ROLL, ROLL_CONFIG, {"train_infer_ratio_mask": True}),
        (ROLL, ROLL_CONFIG, {"train_infer_correction.filters": [{"enabled": True}]}),
    ],
)  # fmt: skip
def test_truncated_ratios_are_clipping_that_acts(framework, config, change):
    """Ratios to the sampler that are cut or masked count as clipping, whatever epsilon is."""
    assert told(framework, config).get("clip_active") is None
    assert told(framework, config, **change)["clip_active"] == "yes"


def test_a_ratio_forced_to_one_cannot_be_clipped():
    """NeMo-RL's force_on_policy_ratio leaves the clip nothing to act on."""
    assert told(NEMO_RL, NEMO, **{"loss_fn.force_on_policy_ratio": True})["clip_active"] == "no"


def test_megatron_has_settings_of_its_own():
    """With Megatron on, rate, schedule and warm-up come from its settings, not from torch's."""
    place = "policy.megatron_cfg"
    found = told(NEMO_RL, NEMO, **{
        f"{place}.enabled": True, f"{place}.optimizer.lr": 2e-6,
        f"{place}.optimizer.optimizer": "adam", f"{place}.scheduler.lr_decay_style": "cosine",
        f"{place}.scheduler.lr_warmup_iters": 13,
    })  # fmt: skip
    assert (found["lr"], found["lr_schedule"], found["warmup_responses"]) == (
        2e-6, "cosine", 13 * 512,
    )  # fmt: skip


def test_muon_has_a_rate_of_its_own():
    """OpenRLHF's Muon takes the rate of the matrices, not that of the rest."""
    found = told(OPENRLHF, OPENRLHF_OLD, **{"actor.optim": "muon", "actor.muon.lr": 0.02})
    assert found["lr"] == 0.02


def test_agentic_batches_count_trajectories():
    """ROLL's agentic pipelines give the batch in trajectories, in groups of their own size."""
    found = told(ROLL, {"rollout_batch_size": 1024, "actor_train.training_args.learning_rate": 1e-6,
                        "train_env_manager": {"group_size": 8}})  # fmt: skip
    assert (found["batch_size"], found["group_size"], found["prompts_per_rollout"]) == (
        1024, 8, 128,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mapping", "devices"),
    [
        ("list(range(0, 8))", 8), ("list(range(4))", 4), ("list(range(8,4))", None), ([3, 4], 2),
        ("[0,1,2]", 3), ("__import__('os')", None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_device_mappings_are_counted_not_evaluated(mapping, devices):
    """Ranges and lists are counted; any other text names no devices."""
    assert device_count(mapping) == devices


def test_the_number_of_processes_is_never_guessed():
    """In torchtune a batch is one process's: without their number there is no batch size."""
    config = {name: value for name, value in TUNE_CONFIG.items() if name != "world_size"}
    found = told(TORCHTUNE, config)
    assert "batch_size" not in found
    assert found["prompts_per_process"] == 2


def test_the_seed_that_differs_between_runs_counts():
    """Of slime's two seeds that of the prompts counts, unless that of the weights is set."""
    assert told(SLIME, SLIME_CONFIG, rollout_seed=7)["seed"] == 7
    assert told(SLIME, SLIME_CONFIG, seed=5)["seed"] == 5


def test_async_training_needs_its_settings():
    """tinker-cookbook samples while it trains if async_config says so, and has its batch there."""
    changes = {"async_config.groups_per_batch": 4, "async_config.max_steps_off_policy": 2}
    found = told(TINKER, TINKER_CONFIG, **changes)
    assert (found["synchronous"], found["batch_size"]) == ("no", 32)


@pytest.mark.parametrize("framework", ALL, ids=lambda f: f.name)
def test_no_configuration_gives_no_facts_of_its_own(framework):
    """Without a configuration nothing is known: defaults stand only for settings not named."""
    assert framework.facts_of({}) == {}


@pytest.mark.parametrize("framework", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "value",
    [10**400, "1e999", "", [], {}, True, float("nan"), "${a.b}"],
    ids=["huge", "too huge", "empty", "list", "mapping", "true", "nan", "reference"],
)
def test_one_odd_value_everywhere_is_no_error(framework, value):
    """Every setting holding the same nonsense gives facts or none, no exception."""
    framework.facts_of(dict.fromkeys(NAMES[framework.name], value))


NAMES = {
    framework.name: sorted(
        {name for setting in framework.settings for name in setting.names}
        | {name for group in framework.configures for name in group if "*" not in name}
        | {n for own, config, _ in CONFIGS if own is framework for n in flat_config(config)}
        | {"policy.scheduler", "loss_fn", "loss_fn_config", "train_infer_correction.filters"}
    )
    for framework in ALL
}

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["1e-6", "auto", "list(range(0,8))", "inf", "-1", 10**400, "gspo", "ppo"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner,
                                                                max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize("framework", ALL, ids=lambda f: f.name)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_configuration_is_an_error(framework, data):
    """Settings of any kind (texts, lists, null, huge numbers) give facts or none, no exception."""
    names = st.sampled_from(NAMES[framework.name])
    config = data.draw(st.dictionaries(names, ODD, max_size=12))
    for flat in (config, flat_config(config), flat_config({"config": config})):
        facts = framework.facts_of(flat)
        assert json.dumps(sorted(facts))
        for fact in facts.values():
            assert fact.value is not None
