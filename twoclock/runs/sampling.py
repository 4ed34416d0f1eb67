"""Whether the rows of a log are a random sample of what was logged.

``run.history()`` of W&B gives about 500 rows of a long run unless it is asked for more: the first
crossing of a target moves, and most of the sparse validations are lost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from twoclock.notes import Note
from twoclock.sources.base import Log

LOGGER_STEP = "_step"
"""Key under which W&B counts its own rows."""

SAMPLE_ROWS = (450, 550)
"""Rows of a sample as W&B draws it by default, which is near 500."""

SEVERAL = 1.5
"""A whole log has a row for nearly every step of its logger: fewer steps a row are no sample."""

IRREGULAR = 0.1
"""Least share of steps between rows that differ from the usual one, in a sample."""


def looks_sampled(step: npt.NDArray[np.floating], rows: int) -> bool:
    """Tell whether rows look drawn at random from a longer log.

    Parameters
    ----------
    step : array of float, shape (n,)
        The logger's own counter (``_step``) of each row that has one, in order.
    rows : int
        Rows of the log.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> drawn = np.sort(rng.choice(20_000, size=500, replace=False)).astype(float)
    >>> looks_sampled(drawn, 500), looks_sampled(np.arange(500.0), 500)
    (True, False)

    Every 40th step is a choice of the trainer, not a sample:

    >>> looks_sampled(np.arange(500.0) * 40, 500)
    False
    """
    low, high = SAMPLE_ROWS
    if not low <= rows <= high or len(step) < low or not np.isfinite(step).all():
        return False
    gaps = np.diff(step)
    if (gaps <= 0).any() or gaps.mean() < SEVERAL:
        return False
    return bool((gaps != np.median(gaps)).mean() >= IRREGULAR)


def tell_sampled(log: Log) -> Log:
    """Return the log, with a remark where its rows look drawn at random."""
    step = log.rows.values.get(LOGGER_STEP)
    if step is None or not looks_sampled(step.value, log.rows.count):
        return log
    message = (
        f"{log.rows.count} rows with irregular gaps of {LOGGER_STEP} look like a random sample: "
        "validations may be missing, and first crossings lie between those that are left; "
        "use the full history (scan_history, or run.history(samples=...))"
    )
    note = Note("sampled_history", message, where=str(log.path))
    return replace(log, notes=(*log.notes, note))
