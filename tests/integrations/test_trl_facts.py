from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoclock.errors import LogFormatError
from twoclock.integrations.trl_facts import Cycle, run_facts, sampling_cycle
from twoclock.integrations.trl_rollout import OpenRollout, Validation, find_validation
from twoclock.runfacts import complete_facts


def config(**settings):
    """Return an object with the attributes of a GRPOConfig."""
    values = {
        "generation_batch_size": 64,
        "steps_per_generation": 8,
        "num_iterations": 1,
        "gradient_accumulation_steps": 1,
        "n_gpu": 1,
        "num_generations": 8,
        "seed": 3,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "linear",
        "lr_scheduler_kwargs": None,
        "get_warmup_steps": lambda steps: round(0.1 * steps),
        "beta": 0.0,
        "max_grad_norm": 1.0,
        "optim": "adamw_torch",
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "weight_decay": 0.0,
        "epsilon": 0.2,
        "epsilon_high": None,
        "delta": None,
        "loss_type": "dapo",
        "scale_rewards": "group",
        "temperature": 1.0,
    }
    return SimpleNamespace(**{**values, **settings})


def sampled(micro_batches, cycle):
    """Count responses as TRL's loop does: a generation before each first micro-batch of a cycle."""
    return sum(cycle.generation for m in range(micro_batches) if m % cycle.micro_batches == 0)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.integers(0, 60))
def test_counts_are_those_of_the_loop(slices, iterations, accumulation, micro_batches):
    """Responses sampled, and those trained on, agree with a step-by-step count for any settings."""
    cycle = Cycle(slices * 4, slices, slices * iterations, accumulation)
    used = set()
    for m in range(micro_batches):
        generation, at = divmod(m, cycle.micro_batches)
        used |= {(generation, at % slices, i) for i in range(4)}
    assert cycle.generated(micro_batches) == sampled(micro_batches, cycle)
    assert cycle.trained(micro_batches) == len(used)
    assert cycle.whole(micro_batches) == (micro_batches % (slices * iterations) == 0)


@pytest.mark.parametrize(
    ("settings", "batch_size", "steps", "minibatches", "epochs"),
    [
        ({}, 64, 8, 8, 1),
        ({"num_iterations": 2}, 64, 16, 8, 2),
        ({"gradient_accumulation_steps": 8}, 64, 1, 1, 1),
        ({"gradient_accumulation_steps": 2, "num_iterations": 2}, 64, 8, 4, 2),
        ({"gradient_accumulation_steps": 16}, 128, 1, None, None),
        ({"gradient_accumulation_steps": 16, "num_iterations": 4}, 64, 2, None, None),
    ],
)
def test_batch_size_and_k(settings, batch_size, steps, minibatches, epochs):
    """B is in responses, K in optimizer steps, whatever the accumulation and the iterations."""
    facts = complete_facts(run_facts(config(**settings), max_steps=80))
    assert facts["batch_size"] == batch_size
    assert facts["optimizer_steps_per_rollout"] == steps
    assert facts.get("minibatches") == minibatches
    assert facts.get("epochs") == epochs
    assert facts["prompts_per_rollout"] == batch_size // 8


def test_rollouts_of_no_fixed_size_are_refused():
    """Where K varies there is no run to speak of; so with several devices per process."""
    with pytest.raises(LogFormatError, match="let one divide the other"):
        sampling_cycle(config(steps_per_generation=3, gradient_accumulation_steps=2))
    with pytest.raises(LogFormatError, match="start one process per device"):
        sampling_cycle(config(n_gpu=2))
    with pytest.raises(LogFormatError, match=r"TRL 0\.18 or newer"):
        sampling_cycle(SimpleNamespace(num_iterations=1))


@pytest.mark.parametrize(
    ("settings", "clips", "active"),
    [
        ({}, (0.2, 0.2, None), "yes"),
        ({"epsilon_high": 0.28, "delta": 4.0}, (0.2, 0.28, 4.0), "yes"),
        ({"epsilon": 1e9}, (1e9, 1e9, None), "no"),
        ({"epsilon": 1e9, "delta": 2.0}, (1e9, 1e9, 2.0), "yes"),
        ({"loss_type": "cispo", "epsilon_high": 5.0}, (None, None, 5.0), "yes"),
        ({"steps_per_generation": 1}, (0.2, 0.2, None), "no"),
        (
            {"epsilon": 1e9, "use_vllm": True, "vllm_importance_sampling_correction": True},
            (1e9, 1e9, None),
            "yes",
        ),
        ({"epsilon": 1e9, "off_policy_mask_threshold": 0.5}, (1e9, 1e9, None), "yes"),
    ],
)
def test_clips(settings, clips, active):
    """Both sides, the dual clip, and every other mask on ratios decide whether clipping can act."""
    facts = complete_facts(run_facts(config(**settings), max_steps=80))
    assert tuple(facts[f"clip_{side}"] for side in ("low", "high", "dual")) == clips
    assert facts["clip_active"] == active


def test_a_soft_clip_is_not_called_a_clip_or_none():
    """A loss without a bound leaves the clips unknown."""
    facts = complete_facts(run_facts(config(loss_type="sapo"), max_steps=80))
    assert not {"clip_low", "clip_high", "clip_dual", "clip_active"} & set(facts)


@pytest.mark.parametrize(
    ("settings", "schedule", "responses"),
    [
        ({}, "linear", 64.0),
        ({"lr_scheduler_type": "constant_with_warmup"}, "constant", 64.0),
        ({"lr_scheduler_type": "constant"}, "constant", 0.0),
        (
            {
                "lr_scheduler_type": SimpleNamespace(value="cosine_with_min_lr"),
                "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
            },
            "cosine_with_min_lr(min_lr_rate=0.1)",
            64.0,
        ),
    ],
)
def test_warm_up_is_counted_in_responses(settings, schedule, responses):
    """8 of 80 steps, K = 8, are 64 responses; the schedule `constant` has no warm-up."""
    facts = run_facts(config(**settings), max_steps=80)
    assert (facts["lr_schedule"], facts["warmup_responses"]) == (schedule, responses)


@pytest.mark.parametrize(
    ("settings", "optimizer", "grad_clip"),
    [
        ({}, "adamw_torch(0.9,0.999,eps=1e-08)", 1.0),
        ({"weight_decay": 0.1}, "adamw_torch(0.9,0.999,eps=1e-08,weight_decay=0.1)", 1.0),
        ({"optim": "sgd", "max_grad_norm": 0.0}, "sgd", None),
        ({"optim": "sgd", "optim_args": "momentum=0.9"}, "sgd(momentum=0.9)", 1.0),
    ],
)
def test_optimizer_and_gradient_clip(settings, optimizer, grad_clip):
    """Settings that matter are in the name; a gradient clip of 0 is none in the trainer."""
    facts = run_facts(config(**settings), max_steps=80)
    assert (facts["optimizer"], facts["grad_clip"]) == (optimizer, grad_clip)


@pytest.mark.parametrize(
    ("settings", "loss_mean", "advantage"),
    [
        ({}, "token", "centred/std"),
        ({"loss_type": "grpo", "scale_rewards": "none"}, "sequence", "centred"),
        ({"loss_type": "dr_grpo", "scale_rewards": "batch"}, "constant", "centred/batch std"),
        (
            {"loss_type": "grpo", "importance_sampling_level": "sequence"},
            "sequence, sequence ratio",
            "centred/std",
        ),
        (
            {"loss_type": "cispo", "multi_objective_aggregation": "normalize_then_sum"},
            "cispo",
            "centred/std, normalize_then_sum",
        ),
    ],
)
def test_the_loss_is_told_in_the_words_of_the_bundled_trainer(settings, loss_mean, advantage):
    """Token, sequence or constant mean, and how rewards are scaled, never share an exponent."""
    facts = complete_facts(run_facts(config(**settings), max_steps=80))
    assert (facts["loss_mean"], facts["advantage"]) == (loss_mean, advantage)
    assert (facts["temperature"], facts["entropy_coef"]) == (1.0, 0.0)


def test_values_are_averaged_over_the_steps_that_a_log_covers():
    """A log of three steps weighs three times; the rate is the last one; null is NaN."""
    rollout = OpenRollout(steps=4, responses=64, trained=64)
    rollout.add({"loss": 1.0, "learning_rate": 1e-6, "completions/clipped_ratio": 0.25}, steps=1)
    rollout.add({"loss": 3.0, "learning_rate": 2e-6, "entropy": None}, steps=3)
    row = rollout.row()
    assert (row["loss"], row["lr"], row["trained"]) == (2.5, 2e-6, 64)
    assert row["entropy"] != row["entropy"]


def test_truncated_completions_are_generated_but_not_trained_on():
    """With `mask_truncated_completions` their share is taken off the trained responses."""
    rollout = OpenRollout(steps=1, responses=64, trained=64)
    rollout.add({"loss": 1.0, "completions/clipped_ratio": 0.25}, steps=1, masks=True)
    assert (rollout.row()["responses"], rollout.row()["trained"]) == (64, 48)


def test_a_cut_rollout_survives_a_checkpoint():
    """What a checkpoint keeps of an open rollout gives the same row and validations."""
    rollout = OpenRollout(steps=3, responses=64, trained=24)
    rollout.add({"loss": 1.0, "reward": 0.5}, steps=3)
    rollout.validations.append(Validation(0.5, 100, "rewards/exact/mean", 1.5, 64))
    again = OpenRollout.from_dict(rollout.to_dict())
    assert again == rollout
    assert again.validations[0].arguments()["unfinished"] == 64


def evaluate(metrics, accuracy=None, right_answer=1.0):
    """Return the validation in TRL metrics."""
    return find_validation(
        metrics, accuracy, right_answer=right_answer, n=None, unfinished=0, where="run"
    )


def test_the_accuracy_of_each_data_set_has_its_own_name():
    """With several evaluation sets the metric is told apart by the set's name."""
    metrics = {"eval_hard_runtime": 2.0, "eval_rewards/exact/mean": 0.25, "eval_reward": 0.25}
    validation = evaluate(metrics)
    assert (validation.metric, validation.accuracy) == ("hard/rewards/exact/mean", 0.25)
    own = evaluate({"eval_hard_runtime": 2.0, "eval_hard_pass": 0.5}, "pass")
    assert (own.metric, own.accuracy, own.seconds) == ("hard/pass", 0.5, 2.0)


@pytest.mark.parametrize(
    ("metrics", "arguments", "message"),
    [
        ({"eval_rewards/exact/mean": 1.5}, {}, r"== 1\.5 of right_answer == 1 is no accuracy"),
        ({"eval_rewards/exact/mean": None}, {}, "is no accuracy"),
        ({"eval_rewards/a/mean": 1, "eval_rewards/b/mean": 1}, {}, "several reward functions"),
        ({"eval_loss": 1.0}, {}, "no reward function"),
        ({"eval_rewards/a/mean": 1}, {"accuracy": "acc"}, "no metric 'acc'; it has rewards/a/mean"),
    ],
)
def test_an_accuracy_that_is_none_is_refused(metrics, arguments, message):
    """A score, NaN, a choice of several or a missing metric is one line, never a guess."""
    with pytest.raises(LogFormatError, match=message) as caught:
        evaluate(metrics, **arguments)
    assert "\n" not in str(caught.value)
