"""Derivatives of the expected reward: exact against finite differences, unbiased against truth."""

import pytest
import torch
import torch.nn.functional as F

from tests.trainer.conftest import tiny
from twoclock.trainer.base import base_policy
from twoclock.trainer.grpo import answered, log_probabilities
from twoclock.trainer.policy import initial
from twoclock.trainer.probes import objective
from twoclock.trainer.probes.objective import (
    derivatives,
    others_mean,
    sequence_logp,
    surrogate,
)
from twoclock.trainer.tasks import VOCABULARY


@pytest.fixture
def _double():
    """Compute in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def uniform(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def rollout(theta, settings, ids, group, seed=0, temperature=1.0):
    """Sample a group per problem (M, P)."""
    task, shape = settings.make_task(), settings.shape()
    prompts, answers = task.problems(ids)
    uniforms = uniform(*ids.shape, task.answer_length, group, seed=seed)
    return answered(theta, shape, task, prompts, answers, uniforms, temperature)


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize("family", ["transformer", "recurrent"])
@pytest.mark.parametrize("task", ["sorting", "brackets"])
def test_hessian_products_are_differences_of_gradients(family, task, monkeypatch):
    """H v is the central difference of the gradient, for both families, in several chunks.

    The responses of brackets end early, so tokens that do not count are there too.
    """
    monkeypatch.setattr(objective, "HESSIAN_CHUNK", 3)
    temperature, step = 0.7, 1e-5
    settings = tiny(family=family, task=task, digits=4, layers=2, width=8, eval_size=2)
    shape = settings.shape()
    theta = torch.cat([initial(shape, seed).double() for seed in (0, 1)])
    ids = torch.tensor([[0, 3, 1, 5, 2, 4, 8], [7, 6, 5, 1, 0, 2, 3]])
    batch = rollout(theta, settings, ids, 4, temperature=temperature)
    if task == "brackets":
        assert bool((batch.counted == 0).any())
    # rewards of a random policy are nearly all 0; any rewards will do here
    object.__setattr__(batch, "rewards", uniform(*batch.rewards.shape, seed=1))
    old = sequence_logp(theta, shape, batch, temperature).detach()

    def slope_at(where):
        leaf = where.detach().requires_grad_()
        value = surrogate(sequence_logp(leaf, shape, batch, temperature), old, batch.rewards)
        return torch.autograd.grad(value.sum(), leaf)[0]

    direction = F.normalize(uniform(*theta.shape, seed=2) - 0.5)
    found = derivatives(theta, shape, batch, direction, temperature)
    torch.testing.assert_close(found.gradient, slope_at(theta), rtol=1e-9, atol=1e-12)
    ends = [slope_at(theta + sign * step * direction) for sign in (1, -1)]
    want = (ends[0] - ends[1]) / (2 * step)
    assert float(want.norm()) > 0.01
    torch.testing.assert_close(found.product, want, rtol=1e-5, atol=1e-8)


def test_float32_products_agree_with_float64(cache):
    """The precision of training is enough for the curvature along a direction."""
    settings = tiny()
    theta = base_policy(settings, cache)
    batch = rollout(theta, settings, torch.arange(0, 960, 10).unsqueeze(0), 8)
    direction = F.normalize(uniform(*theta.shape, seed=3) - 0.5)
    single = derivatives(theta, settings.shape(), batch, direction)
    torch.set_default_dtype(torch.float64)
    try:
        double = derivatives(theta.double(), settings.shape(), batch, direction.double())
    finally:
        torch.set_default_dtype(torch.float32)
    for name in ("gradient", "product"):
        want = getattr(double, name)
        gap = (getattr(single, name).double() - want).norm() / want.norm()
        assert float(gap) < 1e-4


@pytest.mark.usefixtures("_double")
def test_tokens_after_the_end_do_not_matter():
    """What a response holds after its end changes neither gradient nor product."""
    settings = tiny(task="brackets", digits=4, eval_size=2)
    theta = initial(settings.shape(), 0).double()
    batch = rollout(theta, settings, torch.arange(12).unsqueeze(0), 4)
    other = torch.where(batch.counted > 0, batch.tokens, (batch.tokens + 1) % VOCABULARY)
    changed = type(batch)(**{**vars(batch), "tokens": other})
    assert not torch.equal(other, batch.tokens)
    one, two = (
        derivatives(theta, settings.shape(), b, torch.ones_like(theta)) for b in (batch, changed)
    )
    torch.testing.assert_close(one.gradient, two.gradient)
    torch.testing.assert_close(one.product, two.product)


def every_response(settings, theta, ids):
    """Return the exact expected reward as a function of the parameters, by enumeration."""
    task, shape = settings.make_task(), settings.shape()
    tokens = torch.cartesian_prod(*[torch.arange(VOCABULARY)] * task.answer_length).T  # (A, V^A)
    prompts, answers = task.problems(ids)
    whole = tokens.expand(1, ids.shape[1], -1, -1)
    rewards = task.rewards(prompts.unsqueeze(2), answers.unsqueeze(2), whole.transpose(2, 3))

    def expected(where):
        logp, _ = log_probabilities(where, shape, prompts, whole)
        return (logp.sum(2).exp() * rewards).sum(2).mean()

    return expected


def token_curvature(theta, settings, batch, direction):
    """Return u' H u of the loss with token weights, as GRPO has it, for comparison."""
    leaf = theta.detach().requires_grad_()
    signed = (batch.rewards - others_mean(batch.rewards)).unsqueeze(2)
    with objective.sdpa_kernel(objective.SDPBackend.MATH):
        logp, _ = log_probabilities(leaf, settings.shape(), batch.prompts, batch.tokens)
        value = ((logp - logp.detach()).exp() * signed).sum(2).flatten(1).mean(1).sum()
        (first,) = torch.autograd.grad(value, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first * direction).sum(), leaf)
    return float((second * direction).sum())


@pytest.mark.usefixtures("_double")
def test_slope_and_curvature_are_those_of_the_exact_expected_reward(cache):
    """Means over many held-out parts are J's own derivatives, found by summing all responses.

    The curvature of the token-weighted loss is another one: it is off by many standard errors.
    """
    torch.set_default_dtype(torch.float32)
    settings = tiny(family="recurrent", digits=3, symbols=2, eval_size=4)
    theta = base_policy(settings, cache).double()
    torch.set_default_dtype(torch.float64)
    ids = torch.arange(8).unsqueeze(0)
    expected = every_response(settings, theta, ids)
    leaf = theta.detach().requires_grad_()
    with objective.sdpa_kernel(objective.SDPBackend.MATH):
        (slope,) = torch.autograd.grad(expected(leaf), leaf, create_graph=True)
        product = slope.detach()
        for _ in range(4):  # towards the steepest curvature, so that there is much to find
            direction = F.normalize(product)
            inner = (slope * direction).sum()
            (product,) = torch.autograd.grad(inner, leaf, retain_graph=True)
    want = {"slope": float(inner.detach()), "curvature": float((product * direction).sum())}
    seen = {"slope": [], "curvature": []}
    token = []
    for seed in range(16):
        batch = rollout(theta, settings, ids, 64, seed=seed)
        found = derivatives(theta, settings.shape(), batch, direction)
        seen["slope"].append(float((found.gradient * direction).sum()))
        seen["curvature"].append(float((found.product * direction).sum()))
        token.append(token_curvature(theta, settings, batch, direction))
    for name, values in seen.items():
        got = torch.tensor(values)
        error = float(got.std()) / len(got) ** 0.5
        assert abs(float(got.mean()) - want[name]) < 3.5 * error
        assert error < 0.05 * abs(want["curvature"])
    apart = torch.tensor(token) - want["curvature"]
    assert abs(float(apart.mean())) > 6 * float(apart.std()) / len(apart) ** 0.5


def test_the_baseline_is_the_mean_of_the_others():
    """A response's own reward is not in its baseline, so the baseline costs no bias."""
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0]])
    torch.testing.assert_close(others_mean(rewards), torch.tensor([[1 / 3, 2 / 3, 2 / 3, 1 / 3]]))
