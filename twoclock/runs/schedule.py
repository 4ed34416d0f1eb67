"""The learning rate of a run: its peak, and what the logged rates say about warm-up and decay."""

from __future__ import annotations

import numpy as np

from twoclock.frameworks.base import Facts
from twoclock.notes import Note
from twoclock.sources.base import Fact
from twoclock.sources.rows import Floats

_SAME = 0.005
"""Rates within this share of the peak are the peak."""

_ENOUGH = 3
"""Rows after the peak that it takes to tell a constant rate from a falling one."""


def describe_lr(facts: Facts, lr: Floats | None, responses: Floats, where: str) -> list[Note]:
    """Add `lr`, `warmup_responses` and `lr_schedule` to the facts where only the rows tell them.

    Parameters
    ----------
    facts : dict of str to Fact
        Changed in place; what it already holds stays.
    lr : array of float, shape (n,), or None
        Logged rates in order, NaN where none was logged.
    responses : array of float, shape (n,)
        Responses at each row.
    where : str
        File, for messages.

    Returns
    -------
    list of Note
        ``missing_lr`` when nothing tells the rate.

    Examples
    --------
    >>> facts = {}
    >>> rates = np.array([0.0, 1.5e-6, 5e-6, 5e-6, 5e-6, 5e-6])
    >>> describe_lr(facts, rates, 64.0 * np.arange(1, 7), "run")
    []
    >>> facts["lr"], facts["warmup_responses"].value, facts["lr_schedule"].value
    (Fact(value=5e-06, source='log'), 192.0, 'constant')
    """
    if lr is None:
        lr = responses = np.empty(0)
    known = np.isfinite(lr)
    if not known.all():
        lr, responses = lr[known], responses[known]
    peak = float(lr.max()) if len(lr) else 0.0
    if peak <= 0:
        if "lr" in facts:
            return []
        return [Note("missing_lr", "learning rate is not logged; give --lr", where=where)]
    facts.setdefault("lr", Fact(peak, "log"))
    first = int(np.argmax(lr >= peak * (1 - _SAME)))
    after = len(lr) - 1 - first
    if after < _ENOUGH:
        return []  # still rising, or too few rows to tell
    warmed = float(responses[first]) if first > 0 else 0.0
    facts.setdefault("warmup_responses", Fact(warmed, "derived"))
    constant = bool((lr[first:] >= peak * (1 - _SAME)).all())
    facts.setdefault("lr_schedule", Fact("constant" if constant else "decay", "derived"))
    return []
