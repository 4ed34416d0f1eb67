"""A small decoder-only transformer whose parameters carry a leading member axis.

M members (seeds, learning rates) run as one batched matrix product. A prompt and its G responses
are one sequence, the prompt first and then token t of all responses before token t+1; a mask lets
each response see the prompt and itself only. The prompt is thus computed once per group.

Pre-norm blocks of causal attention and a ReLU layer four times as wide (Vaswani et al. 2017,
arXiv:1706.03762; Xiong et al. 2020, arXiv:2002.04745). Left out on purpose: dropout, norm gains,
tied embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from twoclock.trainer.policy.parts import draw, embed, head, linear, norm
from twoclock.trainer.policy.shape import Shape, unpack

Attend = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class Tree:
    """Mask and places of a prompt followed by its interleaved responses.

    Parameters
    ----------
    mask : Tensor
        (S, S), 0 where row may see column and -inf elsewhere, S = L + (A-1)*G.
    places : Tensor
        (S,), position of each token in its own response.
    """

    mask: Tensor
    places: Tensor


@lru_cache(maxsize=64)
def tree(shape: Shape, group: int, device: torch.device | None = None) -> Tree:
    """Return the mask and the places of a prompt with `group` responses.

    Examples
    --------
    >>> tree(Shape(8, 1, 2, prompt=2, answer=3), 2).places.tolist()
    [0, 1, 2, 2, 3, 3]
    """
    own = torch.arange(shape.answer - 1).repeat_interleave(group)  # (S-L,)
    places = torch.cat([torch.arange(shape.prompt), shape.prompt + own])  # (S,)
    owners = torch.arange(group).repeat(shape.answer - 1)  # (S-L,)
    owner = torch.cat([torch.full((shape.prompt,), -1), owners])  # (S,), -1: the prompt
    same = (owner.unsqueeze(1) == owner) | (owner == -1)  # (S, S)
    sees = same & (places <= places.unsqueeze(1))  # (S, S)
    mask = torch.zeros(sees.shape).masked_fill(~sees, -torch.inf)
    return Tree(mask.to(device), places.to(device))


def logits(theta: Tensor, shape: Shape, prompts: Tensor, tokens: Tensor) -> Tensor:
    """Return next-token logits (M, P, A, G, V); see `twoclock.trainer.policy.logits`."""
    members, n_prompts, length = prompts.shape
    group = tokens.shape[3]
    wood = tree(shape, group, theta.device)
    read = tokens[:, :, :-1].reshape(members, n_prompts, -1)  # (M, P, (A-1)G)
    ids = torch.cat([prompts, read], dim=2)  # (M, P, S)
    weights = unpack(theta, shape)

    def attend(_: int, qkv: Tensor) -> Tensor:
        q, k, v = _heads(qkv, members * n_prompts, shape.heads)  # (M*P, H, S, d/H)
        return _flat(F.scaled_dot_product_attention(q, k, v, attn_mask=wood.mask), members)

    x = _blocks(_placed(weights, ids, wood.places), weights, shape, attend)  # (M, P*S, d)
    x = x.view(members, n_prompts, -1, shape.width)[:, :, length - 1 :]  # (M, P, 1+(A-1)G, d)
    out = head(x.flatten(1, 2), weights).view(members, n_prompts, x.shape[2], -1)
    first = out[:, :, :1].unsqueeze(2).expand(-1, -1, -1, group, -1)  # (M, P, 1, G, V)
    later = (members, n_prompts, shape.answer - 1, group, out.shape[-1])
    rest = out[:, :, 1:].view(later)  # (M, P, A-1, G, V)
    return torch.cat([first, rest], dim=2)


def sample(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample answers, keeping keys and values; see `twoclock.trainer.policy.sample`."""
    members, n_prompts, _, group = uniforms.shape
    wood = tree(shape, group, theta.device)
    weights = unpack(theta, shape)
    cache = _Cache(shape, wood, members * n_prompts)
    ids, drawn = prompts, []
    for t in range(shape.answer):
        x = _placed(weights, ids, wood.places[cache.filled : cache.filled + ids.shape[2]])
        x = _blocks(x, weights, shape, cache.attend)  # (M, P*n, d)
        cache.filled += ids.shape[2]
        x = x.view(members, n_prompts, -1, shape.width)  # (M, P, n, d)
        x = x[:, :, -1:] if t == 0 else x  # (M, P, 1 or G, d)
        out = head(x.flatten(1, 2), weights).view(members, n_prompts, x.shape[2], -1)
        drawn.append(draw(out.expand(-1, -1, group, -1), uniforms[:, :, t], temperature))
        ids = drawn[-1][0]
    tokens, chosen, entropy = (torch.stack(parts, dim=2) for parts in zip(*drawn, strict=True))
    return tokens, chosen, entropy


class _Cache:
    """Keys and values of the tokens read so far, per block (M*P, H, S, d/H)."""

    def __init__(self, shape: Shape, wood: Tree, sequences: int) -> None:
        size = (sequences, shape.heads, len(wood.places), shape.width // shape.heads)
        device = wood.mask.device
        self.keys = [torch.empty(size, device=device) for _ in range(shape.layers)]
        self.values = [torch.empty(size, device=device) for _ in range(shape.layers)]
        self.mask, self.heads, self.filled = wood.mask, shape.heads, 0

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        q, k, v = _heads(qkv, self.keys[layer].shape[0], self.heads)  # (M*P, H, n, d/H)
        start, end = self.filled, self.filled + q.shape[2]
        self.keys[layer][:, :, start:end] = k
        self.values[layer][:, :, start:end] = v
        out = F.scaled_dot_product_attention(
            q,
            self.keys[layer][:, :, :end],
            self.values[layer][:, :, :end],
            attn_mask=self.mask[start:end, :end],
        )
        return _flat(out, qkv.shape[0])


def _placed(weights: dict[str, Tensor], ids: Tensor, places: Tensor) -> Tensor:
    """Return token plus place vectors (M, P*S, d) of `ids` (M, P, S)."""
    x = embed(weights, ids) + weights["place"][:, places].unsqueeze(1)  # (M, P, S, d)
    return x.flatten(1, 2)


def _blocks(x: Tensor, weights: dict[str, Tensor], shape: Shape, attend: Attend) -> Tensor:
    """Run all pre-norm blocks on rows `x` (M, R, d)."""
    for i in range(shape.layers):
        x = x + linear(attend(i, linear(norm(x), weights, f"qkv{i}")), weights, f"out{i}")
        hidden = linear(norm(x), weights, f"up{i}").relu_()  # (M, R, 4d)
        x = x + linear(hidden, weights, f"down{i}")
    return x


def _heads(qkv: Tensor, sequences: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split (M, P*n, 3d) into queries, keys and values (M*P, H, n, d/H)."""
    parts = qkv.view(sequences, -1, 3, heads, qkv.shape[-1] // (3 * heads))
    q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
    return q, k, v


def _flat(out: Tensor, members: int) -> Tensor:
    """Join heads: (M*P, H, n, d/H) to (M, P*n, d)."""
    return out.transpose(1, 2).reshape(members, -1, out.shape[1] * out.shape[3])
