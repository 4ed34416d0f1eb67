"""A gated recurrent policy whose parameters carry a leading member axis.

Residual blocks ``x + h``, h the state of a gated recurrent unit (Cho et al. 2014,
arXiv:1406.1078) that reads ``norm(x)``: with ``i = W norm(x) + b`` and ``j = U h' + c`` cut in
three, ``r = sigmoid(i_r + j_r)``, ``z = sigmoid(i_z + j_z)`` and
``h = (1 - z) * tanh(i_n + r * j_n) + z * h'``.
The prompt is read once per group; each response goes on from a copy of its state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from twoclock.trainer.policy.parts import draw, embed, head, linear, norm
from twoclock.trainer.policy.shape import Shape, unpack


def logits(theta: Tensor, shape: Shape, prompts: Tensor, tokens: Tensor) -> Tensor:
    """Return next-token logits (M, P, A, G, V); see `twoclock.trainer.policy.logits`."""
    members, n_prompts, length, group = tokens.shape
    weights = unpack(theta, shape)
    first, states = _read(weights, shape, embed(weights, prompts), None)  # (M, P, L, d)
    out = head(first[:, :, -1], weights).view(members, n_prompts, 1, 1, -1)
    out = out.expand(-1, -1, -1, group, -1)  # (M, P, 1, G, V)
    if length == 1:
        return out
    states = [s.repeat_interleave(group, dim=1) for s in states]  # (M, P*G, d)
    read = tokens[:, :, :-1].transpose(2, 3).reshape(members, n_prompts * group, length - 1)
    rest, _ = _read(weights, shape, embed(weights, read), states)  # (M, P*G, A-1, d)
    later = head(rest.flatten(1, 2), weights).view(members, n_prompts, group, length - 1, -1)
    return torch.cat([out, later.transpose(2, 3)], dim=2)


def sample(
    theta: Tensor, shape: Shape, prompts: Tensor, uniforms: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample answers token by token; see `twoclock.trainer.policy.sample`."""
    members, n_prompts, length, group = uniforms.shape
    weights = unpack(theta, shape)
    x, states = _read(weights, shape, embed(weights, prompts), None)
    x = x[:, :, -1].repeat_interleave(group, dim=1)  # (M, P*G, d)
    states = [s.repeat_interleave(group, dim=1) for s in states]
    drawn = []
    for t in range(length):
        out = head(x, weights).view(members, n_prompts, group, -1)
        drawn.append(draw(out, uniforms[:, :, t], temperature))  # each (M, P, G)
        if t < length - 1:
            ids = drawn[-1][0].view(members, -1, 1)
            step, states = _read(weights, shape, embed(weights, ids), states)
            x = step[:, :, 0]
    tokens, chosen, entropy = (torch.stack(parts, dim=2) for parts in zip(*drawn, strict=True))
    return tokens, chosen, entropy


def _read(
    weights: dict[str, Tensor], shape: Shape, x: Tensor, states: list[Tensor] | None
) -> tuple[Tensor, list[Tensor]]:
    """Run all blocks over sequences `x` (M, R, T, d) from `states` (zeros when None)."""
    members, rows, length, width = x.shape
    ends = []
    for i in range(shape.layers):
        inputs = linear(norm(x).flatten(1, 2), weights, f"in{i}").view(members, rows, length, -1)
        h = x.new_zeros(members, rows, width) if states is None else states[i]
        outputs = []
        for t in range(length):
            h = _gate(inputs[:, :, t], linear(h, weights, f"re{i}"), h)
            outputs.append(h)
        x = x + torch.stack(outputs, dim=2)
        ends.append(h)
    return x, ends


def _gate(inputs: Tensor, recurrent: Tensor, h: Tensor) -> Tensor:
    """Return the next state (M, R, d) from the two thirds-wise sums (M, R, 3d) and the state."""
    in_rz, in_n = torch.split(inputs, [2 * h.shape[2], h.shape[2]], dim=2)
    re_rz, re_n = torch.split(recurrent, [2 * h.shape[2], h.shape[2]], dim=2)
    r, z = torch.sigmoid(in_rz + re_rz).chunk(2, dim=2)
    return torch.lerp(torch.tanh(in_n + r * re_n), h, z)
