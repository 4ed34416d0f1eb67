from dataclasses import replace

import pytest
import torch

from twoclock.trainer.policy import Shape, initial, logits, sample, unpack
from twoclock.trainer.policy.transformer import tree

SHAPE = Shape(width=16, layers=2, heads=2, prompt=4, answer=3)
RECURRENT = replace(SHAPE, family="recurrent")
BOTH = pytest.mark.parametrize("shape", [SHAPE, RECURRENT], ids=["transformer", "recurrent"])


def members(n: int, shape: Shape = SHAPE) -> torch.Tensor:
    """Return n different random policies."""
    return torch.cat([initial(shape, seed) for seed in range(n)])


def drawn(theta, n_prompts=5, group=3, seed=0, shape=SHAPE, temperature=1.0):
    """Sample from the policies; return prompts, tokens, logp and entropy."""
    g = torch.Generator().manual_seed(seed)
    prompts = torch.randint(12, (len(theta), n_prompts, SHAPE.prompt), generator=g)
    uniforms = torch.rand(len(theta), n_prompts, SHAPE.answer, group, generator=g)
    return prompts, *sample(theta, shape, prompts, uniforms, temperature)


def reference_logits(theta, prompt, answer):
    """One member, one sequence, written the plain way: (A, V)."""
    w = {name: part[0] for name, part in unpack(theta.unsqueeze(0), SHAPE).items()}
    ids = torch.cat([prompt, answer[:-1]])  # (T,)
    x = w["token"][ids] + w["place"][: len(ids)]  # (T, d)

    def norm(x):
        return (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, correction=0, keepdim=True) + 1e-5
        ).sqrt()

    def linear(x, name):
        return x @ w[f"{name}.w"] + w[f"{name}.b"]

    causal = torch.ones(len(ids), len(ids)).tril().bool()
    for i in range(SHAPE.layers):
        q, k, v = linear(norm(x), f"qkv{i}").chunk(3, dim=-1)
        size, heads = SHAPE.width // SHAPE.heads, []
        for h in range(SHAPE.heads):
            cut = slice(h * size, (h + 1) * size)
            score = (q[:, cut] @ k[:, cut].T / size**0.5).masked_fill(~causal, -torch.inf)
            heads.append(score.softmax(-1) @ v[:, cut])
        x = x + linear(torch.cat(heads, -1), f"out{i}")
        x = x + linear(linear(norm(x), f"up{i}").relu(), f"down{i}")
    return linear(norm(x), "head")[len(prompt) - 1 :]


def test_batched_logits_equal_a_plain_single_sequence_transformer():
    """Sharing the prompt in a group and batching members change nothing but rounding."""
    theta = members(2)
    prompts, tokens, _, _ = drawn(theta)
    out = logits(theta, SHAPE, prompts, tokens)
    for m, p, g in [(0, 0, 0), (0, 4, 2), (1, 2, 1)]:
        plain = reference_logits(theta[m], prompts[m, p], tokens[m, p, :, g])
        torch.testing.assert_close(out[m, p, :, g], plain, rtol=1e-4, atol=1e-5)


def reference_gru(theta, prompt, answer):
    """One member, one sequence, by torch's own GRU cell: (A, V)."""
    w = {name: part[0] for name, part in unpack(theta.unsqueeze(0), RECURRENT).items()}
    x = w["token"][torch.cat([prompt, answer[:-1]])]  # (T, d)
    for i in range(RECURRENT.layers):
        cell = torch.nn.GRU(RECURRENT.width, RECURRENT.width)
        with torch.no_grad():
            cell.weight_ih_l0.copy_(w[f"in{i}.w"].T)
            cell.weight_hh_l0.copy_(w[f"re{i}.w"].T)
            cell.bias_ih_l0.copy_(w[f"in{i}.b"][0])
            cell.bias_hh_l0.copy_(w[f"re{i}.b"][0])
            x = x + cell(torch.nn.functional.layer_norm(x, x.shape[-1:]))[0]
    x = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return (x @ w["head.w"] + w["head.b"])[len(prompt) - 1 :]


def test_recurrent_logits_equal_those_of_torchs_gru():
    """Sharing the prompt's state in a group and batching members change nothing but rounding."""
    theta = members(2, RECURRENT)
    prompts, tokens, _, _ = drawn(theta, shape=RECURRENT)
    out = logits(theta, RECURRENT, prompts, tokens)
    for m, p, g in [(0, 0, 0), (0, 4, 2), (1, 2, 1)]:
        plain = reference_gru(theta[m], prompts[m, p], tokens[m, p, :, g])
        torch.testing.assert_close(out[m, p, :, g], plain, rtol=1e-4, atol=1e-5)


@BOTH
def test_answers_of_one_token_work(shape):
    """The shortest answer has one token, predicted from the prompt alone."""
    short = replace(shape, answer=1)
    theta = initial(short, 0)
    tokens, logp, _ = sample(theta, short, torch.zeros(1, 2, 4, dtype=torch.long),
                             torch.full((1, 2, 1, 3), 0.5))  # fmt: skip
    full = logits(theta, short, torch.zeros(1, 2, 4, dtype=torch.long), tokens).log_softmax(-1)
    torch.testing.assert_close(full.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), logp)


@BOTH
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_cached_sampling_agrees_with_the_full_forward_pass(shape, temperature):
    """Log-probabilities and entropies while sampling are those of a full pass."""
    theta = members(3, shape)
    prompts, tokens, logp, entropy = drawn(theta, shape=shape, temperature=temperature)
    full = (logits(theta, shape, prompts, tokens) / temperature).log_softmax(-1)
    chosen = full.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(logp, chosen, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(entropy, -(full.exp() * full).sum(-1), rtol=1e-4, atol=1e-5)


def test_samples_follow_the_policy():
    """First tokens come with the policy's probabilities (4 standard errors)."""
    theta, n = members(1), 4000
    prompts = torch.tensor([1, 2, 3, 10]).expand(1, n // 8, 4)
    uniforms = torch.rand(1, n // 8, 3, 8, generator=torch.Generator().manual_seed(1))
    tokens, _, _ = sample(theta, SHAPE, prompts, uniforms)
    p = logits(theta, SHAPE, prompts[:, :1], tokens[:, :1]).softmax(-1)[0, 0, 0, 0]
    seen = torch.bincount(tokens[0, :, 0].flatten(), minlength=12) / n
    assert bool(((seen - p).abs() <= 4 * (p * (1 - p) / n).sqrt()).all())


def test_uniforms_decide_the_sample_and_the_largest_one_is_safe():
    """The same uniforms draw the same tokens, and u close to 1 stays in the vocabulary."""
    theta = members(1)
    prompts = torch.zeros(1, 1, 4, dtype=torch.int64)
    top = torch.full((1, 1, 3, 2), 1 - 2**-24)
    first, second = (sample(theta, SHAPE, prompts, top)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert int(first.max()) <= 11


@BOTH
def test_a_response_sees_its_prompt_and_itself_only(shape):
    """Changing one response leaves the logits of the others of its group untouched."""
    theta = members(1, shape)
    prompts, tokens, _, _ = drawn(theta, shape=shape)
    changed = tokens.clone()
    changed[..., 0] = (changed[..., 0] + 1) % 10
    before, after = (logits(theta, shape, prompts, t) for t in (tokens, changed))
    assert torch.equal(before[..., 1:, :], after[..., 1:, :])
    assert not torch.equal(before[..., 0, :], after[..., 0, :])


def test_tree_of_one_response_is_causal():
    """With one response per prompt the mask is the usual triangle."""
    mask = tree(SHAPE, 1).mask
    assert torch.equal(mask == 0, torch.ones(6, 6).tril().bool())


@BOTH
def test_parameters_are_counted_without_padding(shape):
    """n_params is the sum of the named parts, and storage is at least that."""
    parts = unpack(torch.zeros(1, shape.n_stored), shape)
    assert shape.n_params == sum(p.numel() for p in parts.values()) <= shape.n_stored
