"""A small decoder-only transformer whose parameters carry a leading member axis.

M members (seeds, learning rates) run as one batched matrix product. A prompt and its G responses
are one sequence, the prompt first and then token t of all responses before token t+1; a mask lets
each response see the prompt and itself only. The prompt is thus computed once per group.

Left out on purpose: dropout, norm gains, tied embeddings, variable answer lengths, end tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from twoclock.trainer.tasks import VOCABULARY

_ALIGN = 16  # floats: each parameter starts on a 64-byte line, so that members round alike

Attend = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    """Sizes of a policy.

    Parameters
    ----------
    width, layers, heads : int
        Model width d, number of blocks, attention heads.
    prompt, answer : int
        Tokens of a prompt, L, and of an answer, A.
    """

    width: int
    layers: int
    heads: int
    prompt: int
    answer: int

    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return the name and shape of each parameter, in storage order."""
        d = self.width
        blocks = tuple(
            entry
            for i in range(self.layers)
            for name, n_in, n_out in (
                (f"qkv{i}", d, 3 * d),
                (f"out{i}", d, d),
                (f"up{i}", d, 4 * d),
                (f"down{i}", 4 * d, d),
            )
            for entry in ((f"{name}.w", (n_in, n_out)), (f"{name}.b", (1, n_out)))
        )
        tables = (("token", (VOCABULARY, d)), ("place", (self.prompt + self.answer - 1, d)))
        return (*tables, *blocks, ("head.w", (d, VOCABULARY)), ("head.b", (1, VOCABULARY)))

    @property
    def n_params(self) -> int:
        """Number of parameters of one member."""
        return sum(prod(shape) for _, shape in self.layout())

    @property
    def n_stored(self) -> int:
        """Floats stored per member: parameters and padding."""
        return sum(_padded(prod(shape)) for _, shape in self.layout())


def _padded(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


def unpack(theta: Tensor, shape: Shape) -> dict[str, Tensor]:
    """Return named views (M, rows, columns) of the stored parameters `theta` (M, n_stored).

    Examples
    --------
    >>> shape = Shape(width=8, layers=1, heads=2, prompt=4, answer=3)
    >>> unpack(torch.zeros(5, shape.n_stored), shape)["up0.w"].shape
    torch.Size([5, 8, 32])
    """
    members = theta.shape[0]
    layout = shape.layout()
    parts = torch.split(theta, [_padded(prod(s)) for _, s in layout], dim=1)
    return {
        name: part[:, : prod(s)].view(members, *s)
        for (name, s), part in zip(layout, parts, strict=True)
    }


def initial(shape: Shape, seed: int) -> Tensor:
    """Return random parameters (1, n_stored): normal weights of sd 1/sqrt(fan in), zero biases."""
    generator = torch.Generator().manual_seed(seed)
    theta = torch.zeros(1, shape.n_stored)
    for name, part in unpack(theta, shape).items():
        if name in ("token", "place"):
            part.normal_(0.0, 0.5, generator=generator)
        elif name.endswith(".w"):
            part.normal_(0.0, part.shape[1] ** -0.5, generator=generator)
    return theta


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


def tree(shape: Shape, group: int) -> Tree:
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
    return Tree(torch.zeros(sees.shape).masked_fill(~sees, -torch.inf), places)


def logits(theta: Tensor, shape: Shape, prompts: Tensor, tokens: Tensor) -> Tensor:
    """Return next-token logits at every answer position.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored).
    shape : Shape
        Sizes.
    prompts : Tensor
        (M, P, L), int64.
    tokens : Tensor
        Answer tokens (M, P, A, G), int64; the last one is predicted, never read.

    Returns
    -------
    Tensor
        (M, P, A, G, V).
    """
    members, n_prompts, length = prompts.shape
    group = tokens.shape[3]
    wood = tree(shape, group)
    read = tokens[:, :, :-1].reshape(members, n_prompts, -1)  # (M, P, (A-1)G)
    ids = torch.cat([prompts, read], dim=2)  # (M, P, S)
    weights = unpack(theta, shape)

    def attend(_: int, qkv: Tensor) -> Tensor:
        q, k, v = _heads(qkv, members * n_prompts, shape.heads)  # (M*P, H, S, d/H)
        return _flat(F.scaled_dot_product_attention(q, k, v, attn_mask=wood.mask), members)

    x = _blocks(_embed(weights, ids, wood.places), weights, shape, attend)  # (M, P*S, d)
    x = x.view(members, n_prompts, -1, shape.width)[:, :, length - 1 :]  # (M, P, 1+(A-1)G, d)
    out = _head(x.flatten(1, 2), weights).view(members, n_prompts, -1, VOCABULARY)
    first = out[:, :, :1].unsqueeze(2).expand(-1, -1, -1, group, -1)  # (M, P, 1, G, V)
    rest = out[:, :, 1:].view(members, n_prompts, shape.answer - 1, group, -1)  # (M, P, A-1, G, V)
    return torch.cat([first, rest], dim=2)


def sample(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample answers at temperature 1, keeping keys and values of what was read.

    Parameters
    ----------
    theta : Tensor
        Parameters (M, n_stored).
    shape : Shape
        Sizes.
    prompts : Tensor
        (M, P, L), int64.
    uniforms : Tensor
        One number in [0, 1) per token to draw, (M, P, A, G): tokens are inverted from their
        cumulative probabilities, so that the caller's generators decide everything.

    Returns
    -------
    tokens, logp, entropy : Tensor
        Each (M, P, A, G); log-probabilities and entropies in nats.
    """
    members, n_prompts, _, group = uniforms.shape
    wood = tree(shape, group)
    weights = unpack(theta, shape)
    cache = _Cache(shape, wood, members, n_prompts)
    ids, drawn = prompts, []
    for t in range(shape.answer):
        x = _embed(weights, ids, wood.places[cache.filled : cache.filled + ids.shape[2]])
        x = _blocks(x, weights, shape, cache.attend)  # (M, P*n, d)
        cache.filled += ids.shape[2]
        x = x.view(members, n_prompts, -1, shape.width)  # (M, P, n, d)
        x = x[:, :, -1:] if t == 0 else x  # (M, P, 1 or G, d)
        logp = _head(x.flatten(1, 2), weights).log_softmax(-1)  # (M, P or P*G, V)
        logp = logp.view(members, n_prompts, -1, VOCABULARY).expand(-1, -1, group, -1)
        drawn.append(_draw(logp, uniforms[:, :, t]))  # each (M, P, G)
        ids = drawn[-1][0]
    tokens, chosen, entropy = (torch.stack(parts, dim=2) for parts in zip(*drawn, strict=True))
    return tokens, chosen, entropy


class _Cache:
    """Keys and values of the tokens read so far, per block (M*P, H, S, d/H)."""

    def __init__(self, shape: Shape, wood: Tree, members: int, n_prompts: int) -> None:
        size = (members * n_prompts, shape.heads, len(wood.places), shape.width // shape.heads)
        self.keys = [torch.empty(size) for _ in range(shape.layers)]
        self.values = [torch.empty(size) for _ in range(shape.layers)]
        self.mask, self.members, self.heads, self.filled = wood.mask, members, shape.heads, 0

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
        return _flat(out, self.members)


def _draw(logp: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Invert `uniforms` (M, P, G) through `logp` (M, P, G, V): token, its logp, entropy."""
    p = logp.exp()  # (M, P, G, V)
    below = p.cumsum(-1) <= uniforms.unsqueeze(-1)  # (M, P, G, V)
    token = below.sum(-1).clamp_(max=VOCABULARY - 1)  # (M, P, G); rounding can leave u above sum p
    chosen = logp.gather(-1, token.unsqueeze(-1)).squeeze(-1)  # (M, P, G)
    return token, chosen, -(p * logp).sum(-1)


def _embed(weights: dict[str, Tensor], ids: Tensor, places: Tensor) -> Tensor:
    """Return token plus place vectors (M, P*S, d) of `ids` (M, P, S)."""
    members, n_prompts, length = ids.shape
    hot = torch.zeros(members, n_prompts * length, VOCABULARY)  # a product beats a gather backward
    hot.scatter_(2, ids.reshape(members, -1, 1), 1.0)
    x = torch.bmm(hot, weights["token"]).view(members, n_prompts, length, -1)  # (M, P, S, d)
    x = x + weights["place"][:, places].unsqueeze(1)  # (M, 1, S, d)
    return x.view(members, n_prompts * length, -1)


def _blocks(x: Tensor, weights: dict[str, Tensor], shape: Shape, attend: Attend) -> Tensor:
    """Run all pre-norm blocks on rows `x` (M, R, d)."""
    for i in range(shape.layers):
        x = x + _linear(attend(i, _linear(_norm(x), weights, f"qkv{i}")), weights, f"out{i}")
        hidden = F.relu(_linear(_norm(x), weights, f"up{i}"))  # (M, R, 4d)
        x = x + _linear(hidden, weights, f"down{i}")
    return x


def _linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return torch.baddbmm(weights[f"{name}.b"], x, weights[f"{name}.w"])


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _head(x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    return _linear(_norm(x), weights, "head")


def _heads(qkv: Tensor, sequences: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split (M, P*n, 3d) into queries, keys and values (M*P, H, n, d/H)."""
    parts = qkv.view(sequences, -1, 3, heads, qkv.shape[-1] // (3 * heads))
    q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
    return q, k, v


def _flat(out: Tensor, members: int) -> Tensor:
    """Join heads: (M*P, H, n, d/H) to (M, P*n, d)."""
    return out.transpose(1, 2).reshape(members, -1, out.shape[1] * out.shape[3])
