import torch

from twoclock.trainer.policy import Shape, initial, logits, sample, tree, unpack

SHAPE = Shape(width=16, layers=2, heads=2, prompt=4, answer=3)


def members(n: int) -> torch.Tensor:
    """Return n different random policies."""
    return torch.cat([initial(SHAPE, seed) for seed in range(n)])


def drawn(theta, n_prompts=5, group=3, seed=0):
    """Sample from the policies; return prompts, tokens, logp and entropy."""
    g = torch.Generator().manual_seed(seed)
    prompts = torch.randint(12, (len(theta), n_prompts, SHAPE.prompt), generator=g)
    uniforms = torch.rand(len(theta), n_prompts, SHAPE.answer, group, generator=g)
    return prompts, *sample(theta, SHAPE, prompts, uniforms)


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


def test_cached_sampling_agrees_with_the_full_forward_pass():
    """Log-probabilities and entropies while sampling are those of a full pass."""
    theta = members(3)
    prompts, tokens, logp, entropy = drawn(theta)
    full = logits(theta, SHAPE, prompts, tokens).log_softmax(-1)
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


def test_a_response_sees_its_prompt_and_itself_only():
    """Changing one response leaves the logits of the others of its group untouched."""
    theta = members(1)
    prompts, tokens, _, _ = drawn(theta)
    changed = tokens.clone()
    changed[..., 0] = (changed[..., 0] + 1) % 10
    before, after = (logits(theta, SHAPE, prompts, t) for t in (tokens, changed))
    assert torch.equal(before[..., 1:, :], after[..., 1:, :])
    assert not torch.equal(before[..., 0, :], after[..., 0, :])


def test_tree_of_one_response_is_causal():
    """With one response per prompt the mask is the usual triangle."""
    mask = tree(SHAPE, 1).mask
    assert torch.equal(mask == 0, torch.ones(6, 6).tril().bool())


def test_parameters_are_counted_without_padding():
    """n_params is the sum of the named parts, and storage is at least that."""
    parts = unpack(torch.zeros(1, SHAPE.n_stored), SHAPE)
    assert SHAPE.n_params == sum(p.numel() for p in parts.values()) <= SHAPE.n_stored
