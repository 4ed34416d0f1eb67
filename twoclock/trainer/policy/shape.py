"""Sizes of a policy, and its parameters as named views of one stored row per member."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from twoclock.trainer.tasks import VOCABULARY

_ALIGN = 16  # floats: each parameter starts on a 64-byte line, so that members round alike

FAMILIES = ("transformer", "recurrent")


@dataclass(frozen=True)
class Shape:
    """Sizes of a policy.

    Parameters
    ----------
    width, layers, heads : int
        Model width d, number of blocks, attention heads (unused by the recurrent family).
    prompt, answer : int
        Tokens of a prompt, L, and of an answer, A.
    family : {"transformer", "recurrent"}
        Kind of the blocks.
    """

    width: int
    layers: int
    heads: int
    prompt: int
    answer: int
    family: str = "transformer"

    @cached_property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of each parameter, in storage order."""
        d = self.width
        blocks = self._attention() if self.family == "transformer" else self._gates()
        linear = tuple(
            entry
            for name, n_in, n_out in (*blocks, ("head", d, VOCABULARY))
            for entry in ((f"{name}.w", (n_in, n_out)), (f"{name}.b", (1, n_out)))
        )
        places = (("place", (self.prompt + self.answer - 1, d)),)
        return (
            ("token", (VOCABULARY, d)),
            *(places if self.family == "transformer" else ()),
            *linear,
        )

    def _attention(self) -> Iterator[tuple[str, int, int]]:
        """Yield the linear maps of the transformer blocks: name, inputs, outputs."""
        d = self.width
        for i in range(self.layers):
            yield from ((f"qkv{i}", d, 3 * d), (f"out{i}", d, d))
            yield from ((f"up{i}", d, 4 * d), (f"down{i}", 4 * d, d))

    def _gates(self) -> Iterator[tuple[str, int, int]]:
        """Yield the linear maps of the recurrent blocks."""
        for i in range(self.layers):
            yield from (
                (f"in{i}", self.width, 3 * self.width),
                (f"re{i}", self.width, 3 * self.width),
            )

    @property
    def n_params(self) -> int:
        """Number of parameters of one member."""
        return sum(prod(shape) for _, shape in self.layout)

    @property
    def n_stored(self) -> int:
        """Floats stored per member: parameters and padding."""
        return sum(_padded(prod(shape)) for _, shape in self.layout)


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
    parts = torch.split(theta, [_padded(prod(s)) for _, s in shape.layout], dim=1)
    return {
        name: part[:, : prod(s)].view(members, *s)
        for (name, s), part in zip(shape.layout, parts, strict=True)
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
