from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twoclock.trainer.grpo import Rollout, gradient, reference_chunks
from twoclock.trainer.loss import (
    LOSS_MEANS,
    LossRule,
    add_up,
    advantages,
    k3,
    policy_loss,
    token_weights,
)
from twoclock.trainer.policy import Shape, initial, logits, sample
from twoclock.trainer.tasks import counted

SHAPE = Shape(width=16, layers=1, heads=2, prompt=4, answer=3)
FREE, CLIPPED = LossRule(None, None), LossRule(0.2, 0.2)


def rollout(theta, n_prompts=40, group=4, seed=0, shape=SHAPE, ends=True, temperature=1.0):
    """Return a rollout with random rewards, sampled from slightly other policies than `theta`."""
    g = torch.Generator().manual_seed(seed)
    prompts = torch.randint(12, (len(theta), n_prompts, 4), generator=g)
    uniforms = torch.rand(len(theta), n_prompts, 3, group, generator=g)
    other = theta + 0.05 * torch.randn(theta.shape, generator=g)
    tokens, logp, entropy = sample(other, shape, prompts, uniforms, temperature)
    rewards = torch.randint(2, (len(theta), n_prompts, group), generator=g).float()
    mask = counted(tokens, ends=ends, dim=2)
    return Rollout(prompts, tokens, logp, mask, entropy, rewards)


def plain_weight(batch, m, p, g, t, mean):
    """Weight of one token, written from the papers' sums over responses and tokens."""
    if not batch.counted[m, p, t, g]:
        return 0.0
    lengths = batch.counted[m].sum(1)  # (P, G)
    if mean == "token":
        return 1 / float(lengths.sum())
    length = float(lengths[p, g]) if mean == "sequence" else batch.counted.shape[2]
    return 1 / (lengths.numel() * length)


def reference_gradient(theta, batch, m, rule, shape=SHAPE, temperature=1.0):
    """GRPO for one member, one response and token at a time."""
    leaf = theta[m : m + 1].clone().requires_grad_()
    low, high = rule.clip_low, rule.clip_high
    rewards, terms = batch.rewards[m], []
    for p in range(rewards.shape[0]):
        centred = rewards[p] - rewards[p].mean()
        std = centred.pow(2).mean().sqrt()
        for g in range(rewards.shape[1]):
            a = centred[g] / std if std > 0 else torch.tensor(0.0)
            tokens = batch.tokens[m, p, :, g]
            out = logits(leaf, shape, batch.prompts[m : m + 1, p : p + 1], tokens.view(1, 1, 3, 1))
            logp = (out[0, 0, :, 0] / temperature).log_softmax(-1)
            for t, token in enumerate(tokens.tolist()):
                r = (logp[t, token] - batch.logp[m, p, t, g]).exp()
                clipped = r.clamp(1 - (low or 2), 1 + (high or 1e9))
                term = -torch.minimum(r * a, clipped * a)
                if batch.reference is not None:
                    gap = batch.reference[m, p, t, g] - logp[t, token]
                    term = term + rule.kl_coef * (gap.exp() - gap - 1)
                term = term + rule.entropy_coef * (logp[t].exp() * logp[t]).sum()
                terms.append(plain_weight(batch, m, p, g, t, rule.loss_mean) * term)
    torch.stack(terms).sum().backward()
    return leaf.grad[0]


@pytest.mark.parametrize(
    "rule",
    [
        LossRule(0.1, 0.1),
        FREE,
        LossRule(0.1, None, "sequence"),
        LossRule(0.2, 0.3, "constant", entropy_coef=0.1),
        LossRule(0.2, 0.2, "sequence", kl_coef=0.5),
    ],
)
@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_gradient_equals_a_plain_single_member_implementation(rule, family):
    """Batched, chunked gradients of all members are those of a loop over tokens."""
    shape = replace(SHAPE, family=family)
    theta = torch.cat([initial(shape, seed) for seed in (0, 1)])
    batch = rollout(theta, n_prompts=18, shape=shape, temperature=1.5)  # more than one chunk
    if rule.kl_coef:
        other = theta + 0.1
        batch = replace(batch, reference=reference_chunks(other, shape, batch, 1.5))
    signed = advantages(batch.rewards, normalize_std=True)
    grad, stats = gradient(theta, shape, batch, signed, rule, 1.5)
    for m in (0, 1):
        plain = reference_gradient(theta, batch, m, rule, shape, 1.5)
        torch.testing.assert_close(grad[m], plain, rtol=2e-3, atol=1e-6)
    assert bool((stats.clip_fraction > 0).all()) is (rule.clip_low is not None)
    assert (stats.kl_ref is not None) is (rule.kl_coef > 0)


def test_tokens_after_the_end_of_a_response_do_not_count():
    """Whatever follows an end token, its loss, gradient and statistics stay as they are."""
    theta = initial(SHAPE, 0)
    batch = rollout(theta)
    assert 0 < float(batch.counted.mean()) < 1
    changed = torch.where(batch.counted > 0, batch.logp, batch.logp - 3)
    signed = advantages(batch.rewards, normalize_std=True)
    one, seen = gradient(theta, SHAPE, batch, signed, CLIPPED)
    two, again = gradient(theta, SHAPE, replace(batch, logp=changed), signed, CLIPPED)
    assert torch.equal(one, two)
    assert torch.equal(seen.ratio_max, again.ratio_max)
    assert torch.equal(seen.kl_old, again.kl_old)


@given(st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_token_weights_follow_their_definitions(lengths):
    """Each mean gives every token its share, and responses of one length make them all alike."""
    mask = torch.zeros(1, 2, 5, 2)
    for i, length in enumerate(lengths):
        mask[0, i // 2, :length, i % 2] = 1
    for mean in LOSS_MEANS:
        weights = token_weights(mask, mean)
        assert bool((weights[mask == 0] == 0).all())
        by_response = weights.sum(2).flatten().tolist()
        for length, total in zip(lengths, by_response, strict=True):
            wanted = {"token": length / sum(lengths), "sequence": 1 / 4, "constant": length / 20}
            assert total == pytest.approx(wanted[mean], rel=1e-5)
    full = torch.ones(1, 2, 5, 2)
    first, *others = (token_weights(full, mean) for mean in LOSS_MEANS)
    for other in others:
        torch.testing.assert_close(first, other)


def test_k3_estimates_the_kl_and_is_never_negative():
    """Its mean over samples of the policy is KL(policy || other)."""
    g = torch.Generator().manual_seed(0)
    policy, other = (torch.randn(12, generator=g).log_softmax(-1) for _ in range(2))
    drawn = torch.multinomial(policy.exp(), 200_000, replacement=True, generator=g)
    values = k3(policy[drawn], other[drawn])
    exact = float((policy.exp() * (policy - other)).sum())
    assert float(values.min()) >= 0
    error = float(values.std()) / 200_000**0.5
    assert float(values.mean()) == pytest.approx(exact, abs=4 * error)


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
    even = torch.full((1, 1, 1, 4), 0.25)
    loss, stats = policy_loss(logp, torch.zeros_like(logp), signs, even, even, CLIPPED)
    loss.sum().backward()
    assert (logp.grad == 0).flatten().tolist() == [True, False, False, True]
    assert stats.clip_fraction.tolist() == [0.5]


def test_without_clip_every_token_has_its_gradient():
    """None as clip leaves every ratio free and reports no clipping."""
    logp = torch.tensor([[[[3.0, -3.0]]]], requires_grad=True)
    even, signs = torch.full((1, 1, 1, 2), 0.5), torch.tensor([[[1.0, -1.0]]])
    loss, stats = policy_loss(logp, torch.zeros(1, 1, 1, 2), signs, even, even, FREE)
    loss.sum().backward()
    assert bool((logp.grad != 0).all())
    assert stats.clip_fraction.tolist() == [0.0]


@pytest.mark.parametrize("n", [2, 8, 32, 64, 100])
def test_sums_over_steps_do_not_depend_on_the_number_of_members(n):
    """A member's sum has the same bits alone and among 2, 8, 16 or 40 members."""
    g = torch.Generator().manual_seed(n)
    for _ in range(50):
        values = list(torch.rand(n, 40, generator=g))
        whole = add_up(values)
        for members in (1, 2, 8, 16):
            assert torch.equal(add_up([v[:members] for v in values]), whole[:members])


def test_statistics_of_an_unchanged_policy():
    """Right after sampling the ratios are 1 and the KL is 0."""
    zero = torch.zeros(2, 4, 4, 4)
    even = zero + 1 / 64
    _, stats = policy_loss(zero, zero, torch.ones(2, 4, 4), even, even, CLIPPED)
    assert stats.ratio_mean.tolist() == stats.ratio_max.tolist() == [1.0, 1.0]
    assert stats.kl_old.tolist() == [0.0, 0.0]
