"""How the learning rate was scaled with the batch size, and the base learning rate behind it.

Works on the `runs` table alone; it reads no logs and knows nothing of events or fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from twoclock.notes import Note

LR_TOLERANCE = 0.03
"""Base learning rates within 3 % are one family."""

GAMMAS = (0.0, 0.5, 1.0)
"""Exponents that detection tries: fixed, square root, linear."""


@dataclass(frozen=True)
class LrRule:
    """How the learning rate was scaled with the batch size: ``lr = base_lr * (B / B0)**gamma``.

    Parameters
    ----------
    gamma : float or None
        Exponent; None when undecidable (then base_lr is the raw lr).
    reference_batch : int or None
        B0 in responses; None when no batch size is known.
    origin : {"user", "logged", "detected", "undecidable", "single batch size", "no lr"}
        Where gamma comes from.
    """

    gamma: float | None
    reference_batch: int | None
    origin: str

    def describe(self) -> str:
        """Return one line for people.

        Examples
        --------
        >>> LrRule(0.5, 64, "detected").describe()
        'lr = base_lr * (B/64)**0.5 (detected)'
        """
        if self.origin == "logged":
            return f"base_lr as logged (B0 = {self.reference_batch} is the smallest B read)"
        if self.gamma is None:
            return f"lr rule: {self.origin}; base_lr is the raw lr"
        return f"lr = base_lr * (B/{self.reference_batch})**{self.gamma:g} ({self.origin})"


def scalar(value: Any) -> Any:
    """Return a plain scalar with six significant digits, None when missing.

    Examples
    --------
    >>> scalar(np.float64(0.1) + 0.2), scalar(pd.NA)
    (0.3, None)
    """
    if value is None or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def families(values: Sequence[float], *, tolerance: float = LR_TOLERANCE) -> list[float]:
    """Return for each value the geometric mean of its family (neighbours within `tolerance`).

    Examples
    --------
    >>> [round(v, 3) for v in families([1.0, 1.01, 2.0])]
    [1.005, 1.005, 2.0]
    """
    order = np.argsort(np.asarray(values, dtype=np.float64), kind="stable")
    out = [0.0] * len(values)
    group: list[int] = []
    for place, index in enumerate(order):
        group.append(int(index))
        last = place + 1 == len(order)
        if last or values[int(order[place + 1])] > values[group[0]] * (1 + tolerance):
            mean = math.exp(math.fsum(math.log(values[i]) for i in group) / len(group))
            label = float(f"{mean:.6g}")
            for i in group:
                out[i] = label
            group = []
    return out


def detect_lr_rule(runs: pd.DataFrame, *, reference_batch: int | None = None) -> LrRule:
    """Find the gamma with the fewest distinct base learning rates.

    A gamma qualifies when at least one of its families spans two batch sizes; it wins when every
    other gamma needs more families, counted within runs that are equal in all other stratum columns
    but those that change with B.

    Parameters
    ----------
    runs : DataFrame
        `runs` table with lr and batch_size.
    reference_batch : int, optional
        B0; the smallest batch size by default.

    Examples
    --------
    >>> runs = pd.DataFrame({"batch_size": [64, 256], "lr": [1e-6, 2e-6]})
    >>> detect_lr_rule(runs).gamma
    0.5
    """
    known = runs[runs["lr"].notna() & (runs["lr"] > 0) & runs["batch_size"].notna()]
    sizes = runs["batch_size"].dropna()
    base = reference_batch or (int(sizes.min()) if len(sizes) else None)
    if known.empty or base is None:
        return LrRule(None, base, "no lr")
    if len(known["batch_size"].unique()) == 1 and reference_batch is None:
        return LrRule(0.0, base, "single batch size")
    groups = [c for c in ("framework", "model", "task") if c in known.columns]
    counts: dict[float, int] = {}
    for gamma in GAMMAS:
        scaled = known["lr"] * (known["batch_size"].astype("float64") / base) ** -gamma
        count, spans = _count_families(known, scaled, groups)
        if spans:
            counts[gamma] = count
    if not counts:
        return LrRule(None, base, "undecidable")
    best = min(counts.values())
    winners = [gamma for gamma, count in counts.items() if count == best]
    if len(winners) != 1:
        return LrRule(None, base, "undecidable")
    return LrRule(winners[0], base, "detected")


def _count_families(
    known: pd.DataFrame, scaled: pd.Series[float], groups: list[str]
) -> tuple[int, bool]:
    """Count families of `scaled` within `groups`, and tell whether any spans two batch sizes."""
    count, spans = 0, False
    keys = [repr([scalar(known[c].iloc[i]) for c in groups]) for i in range(len(known))]
    frame = pd.DataFrame({"key": keys, "b": known["batch_size"].tolist()})
    frame["base"] = scaled.to_numpy(dtype="float64")
    for _, part in frame.groupby("key", sort=True):
        labels = pd.Series(families(part["base"].tolist()), index=part.index)
        count += labels.nunique()
        spans = spans or bool((part["b"].groupby(labels).nunique() >= 2).any())
    return count, spans


def with_base_lr(
    runs: pd.DataFrame, *, gamma: float | None = None, reference_batch: int | None = None
) -> tuple[pd.DataFrame, LrRule, tuple[Note, ...]]:
    """Return `runs` with base_lr filled, the rule behind it, and warnings.

    Parameters
    ----------
    runs : DataFrame
        `runs` table.
    gamma : float, optional
        Given by the user (`--lr-rule`); else base_lr as logged, else detected.
    reference_batch : int, optional
        B0; the smallest batch size by default.

    Returns
    -------
    runs : DataFrame
        A copy with base_lr (families within 3 % share one value).
    rule : LrRule
        The rule.
    notes : tuple of Note
        ``lr_rule_undecidable`` when detection fails.
    """
    runs = runs.copy()
    smallest = int(runs["batch_size"].min()) if runs["batch_size"].notna().any() else None
    logged = "base_lr" in runs and bool(runs["base_lr"].notna().all()) and len(runs) > 0
    if gamma is None and reference_batch is None and logged:
        runs["base_lr"] = families(runs["base_lr"].tolist())
        return runs, LrRule(None, smallest, "logged"), ()
    if gamma is not None:
        rule = LrRule(gamma, reference_batch or smallest, "user")
    else:
        rule = detect_lr_rule(runs, reference_batch=reference_batch)
    if rule.origin == "no lr":
        return runs.assign(base_lr=np.nan), rule, ()
    known = (runs["lr"].notna() & (runs["lr"] > 0) & runs["batch_size"].notna()).to_numpy()
    base = np.full(len(runs), np.nan)
    ratio = runs["batch_size"].astype("float64").to_numpy() / float(rule.reference_batch or 1)
    scaled = runs["lr"].to_numpy(dtype="float64") * ratio ** -(rule.gamma or 0.0)
    base[known] = families(scaled[known].tolist())
    notes: tuple[Note, ...] = ()
    if rule.origin == "undecidable":
        text = (
            "how lr was scaled with B cannot be told from these runs; fitted per raw lr: "
            "give --lr-rule sqrt|linear|fixed (or a number), or --pool base_lr"
        )
        notes = (Note("lr_rule_undecidable", text),)
    return runs.assign(base_lr=base), rule, notes
