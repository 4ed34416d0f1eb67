"""Forks of a framework that count in their own way."""

import pytest

from twoclock.frameworks.config import flat_config
from twoclock.frameworks.verl import VERL
from twoclock.runs.deriving import derive


def told(n, agents, mini):
    """Return B, group and K of a verl configuration with 6 prompts."""
    rollout = {"n": n} if agents is None else {"n": n, "n_agent": agents}
    actor = {"ppo_mini_batch_size": mini, "ppo_epochs": 1}
    config = {
        "data": {"train_batch_size": 6},
        "actor_rollout_ref": {"rollout": rollout, "actor": actor},
    }
    facts = VERL.facts_of(flat_config(config))
    derive(facts, "run", VERL)
    names = ("batch_size", "group_size", "optimizer_steps_per_rollout")
    return tuple(facts[name].value for name in names)


@pytest.mark.parametrize(
    ("n", "agents", "mini", "expected"),
    [
        (2, None, 3, (12, 2, 2)),
        (1, 1, 3, (6, 1, 2)),
        (1, 2, 12, (12, 2, 1)),
        (1, 5, 6, (30, 5, 5)),
        (2, 5, 6, (60, 10, 5)),
    ],
)
def test_prompts_repeated_before_generation_are_responses(n, agents, mini, expected):
    """Search-R1's `n_agent` multiplies the group, and its minibatches count trajectories."""
    assert told(n, agents, mini) == expected
