"""Whether ratio clipping can act in a run, decided by its settings alone.

An observed clip fraction of 0 says nothing about it. Bounds are numbers: inf says "no such clip",
None says "not known".
"""

from __future__ import annotations

from collections.abc import Sequence

WIDE_CLIP = 10.0
"""A clip epsilon from here on cannot act in practice."""


def bounds_are_wide(bounds: Sequence[float | None]) -> bool:
    """Whether every bound is known and none can act.

    Examples
    --------
    >>> bounds_are_wide([float("inf"), 1e9]), bounds_are_wide([float("inf"), None])
    (True, False)
    """
    return all(bound is not None and bound >= WIDE_CLIP for bound in bounds)


def clip_active(
    bounds: Sequence[float | None], steps: float | None, *, synchronous: bool | None
) -> str:
    """Return whether clipping can act: yes, no or unknown.

    No: every bound is absent or wide (epsilon of 10 and more, no dual clip), or one optimizer step
    a rollout in a synchronous trainer, where the ratio is 1.

    Parameters
    ----------
    bounds : sequence of float or None
        Lower and upper epsilon and the dual-clip bound.
    steps : float or None
        Optimizer steps per rollout, K.
    synchronous : bool or None
        Whether each rollout is sampled by the policy that its first step updates.

    Examples
    --------
    >>> clip_active([0.2, 0.2, float("inf")], 8, synchronous=True)
    'yes'
    >>> clip_active([0.2, 0.2, float("inf")], 1, synchronous=True)
    'no'
    >>> clip_active([None, None, None], 8, synchronous=True)
    'unknown'
    """
    if bounds_are_wide(bounds) or (steps == 1 and synchronous):
        return "no"
    acts = any(bound is not None and bound < WIDE_CLIP for bound in bounds)
    if acts and (synchronous is False or (steps is not None and steps > 1)):
        return "yes"
    return "unknown"
