import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twoclock.trainer.grpo import Rollout, advantages, gradient, policy_loss
from twoclock.trainer.policy import Shape, initial, logits, sample

SHAPE = Shape(width=16, layers=1, heads=2, prompt=4, answer=3)


def rollout(theta, n_prompts=40, group=4, seed=0) -> Rollout:
    """Return a rollout with random rewards, sampled from slightly other policies than `theta`."""
    g = torch.Generator().manual_seed(seed)
    prompts = torch.randint(12, (len(theta), n_prompts, 4), generator=g)
    uniforms = torch.rand(len(theta), n_prompts, 3, group, generator=g)
    other = theta + 0.05 * torch.randn(theta.shape, generator=g)
    tokens, logp, entropy = sample(other, SHAPE, prompts, uniforms)
    rewards = torch.randint(2, (len(theta), n_prompts, group), generator=g).float()
    return Rollout(prompts, tokens, logp, entropy.flatten(1).mean(1), rewards)


def reference_gradient(theta, batch, m, low, high):
    """GRPO for one member, one response and token at a time."""
    leaf = theta[m : m + 1].clone().requires_grad_()
    rewards, terms = batch.rewards[m], []
    for p in range(rewards.shape[0]):
        centred = rewards[p] - rewards[p].mean()
        std = centred.pow(2).mean().sqrt()
        for g in range(rewards.shape[1]):
            a = centred[g] / std if std > 0 else torch.tensor(0.0)
            tokens = batch.tokens[m, p, :, g]
            out = logits(leaf, SHAPE, batch.prompts[m : m + 1, p : p + 1], tokens.view(1, 1, 3, 1))
            logp = out[0, 0, :, 0].log_softmax(-1)
            for t, token in enumerate(tokens.tolist()):
                r = (logp[t, token] - batch.logp[m, p, t, g]).exp()
                clipped = r.clamp(1 - (low or 2), 1 + (high or 1e9))
                terms.append(-torch.minimum(r * a, clipped * a))
    torch.stack(terms).mean().backward()
    return leaf.grad[0]


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.1), (None, None), (0.1, None)])
def test_gradient_equals_a_plain_single_member_implementation(low, high):
    """Batched, chunked gradients of all members are those of a loop over tokens."""
    theta = torch.cat([initial(SHAPE, seed) for seed in (0, 1)])
    batch = rollout(theta, n_prompts=18)  # more than one chunk
    grad, stats = gradient(
        theta, SHAPE, batch, advantages(batch.rewards, normalize_std=True), low, high
    )
    for m in (0, 1):
        plain = reference_gradient(theta, batch, m, low, high)
        torch.testing.assert_close(grad[m], plain, rtol=2e-3, atol=1e-6)
    assert bool((stats.clip_fraction > 0).all()) is (low is not None)


@given(st.lists(st.lists(st.integers(0, 1), min_size=6, max_size=6), min_size=1, max_size=5))
def test_advantages_are_centred_and_scaled_per_group(rewards):
    """Each group has mean 0 and spread 1, or all zeros when its rewards are equal."""
    out = advantages(torch.tensor(rewards).float(), normalize_std=True)
    for group, values in zip(rewards, out, strict=True):
        assert abs(float(values.mean())) < 1e-6
        spread = float(values.std(correction=0))
        assert spread == pytest.approx(1.0, abs=1e-5) if len(set(group)) > 1 else spread == 0


def test_advantages_without_std_are_only_centred():
    """With normalize_std off the advantage is the reward minus the group's mean."""
    out = advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]), normalize_std=False)
    assert out.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_clip_stops_gradients_where_the_ratio_has_gone_far_in_its_direction():
    """Good tokens stop above 1+high, bad ones below 1-low, and not the other way round."""
    logp = torch.tensor([[[[0.5, -0.5, 0.5, -0.5]]]], requires_grad=True)
    signs = torch.tensor([[[1.0, 1.0, -1.0, -1.0]]])
    loss, stats = policy_loss(logp, torch.zeros_like(logp), signs, 0.2, 0.2)
    loss.sum().backward()
    assert (logp.grad == 0).flatten().tolist() == [True, False, False, True]
    assert stats.clip_fraction.tolist() == [0.5]


def test_without_clip_every_token_has_its_gradient():
    """None as clip leaves every ratio free and reports no clipping."""
    logp = torch.tensor([[[[3.0, -3.0]]]], requires_grad=True)
    loss, stats = policy_loss(
        logp, torch.zeros(1, 1, 1, 2), torch.tensor([[[1.0, -1.0]]]), None, None
    )
    loss.sum().backward()
    assert bool((logp.grad != 0).all())
    assert stats.clip_fraction.tolist() == [0.0]


def test_statistics_of_an_unchanged_policy():
    """Right after sampling the ratios are 1 and the KL is 0."""
    zero = torch.zeros(2, 3, 4, 5)
    _, stats = policy_loss(zero, zero, torch.ones(2, 3, 5), 0.2, 0.2)
    assert stats.ratio_mean.tolist() == stats.ratio_max.tolist() == [1.0, 1.0]
    assert stats.kl_old.tolist() == [0.0, 0.0]
