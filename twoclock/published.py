"""The published exponents that our own are shown beside.

From the summary of a study of multi-step GRPO (8 optimizer steps per rollout, learning rate scaled
with the square root of the batch): responses-to-target exponents of 0.15 and 0.44 at small-batch
learning rates of 1e-6 and 1e-5, and responses-to-failure about independent of batch size on
unclipped runs (no number given, so none is claimed here).
"""

from __future__ import annotations

import pandas as pd

_ROWS = (
    ("learning", 1e-6, 8, 0.15, "published multi-step GRPO study, summary"),
    ("learning", 1e-5, 8, 0.44, "published multi-step GRPO study, summary"),
    ("failure", None, 8, None, "published multi-step GRPO study, summary: about independent of B"),
)


def published() -> pd.DataFrame:
    """Return the published exponents.

    Returns
    -------
    DataFrame
        clock, base_lr (at the smallest batch), k (optimizer steps per rollout), exponent (missing
        where the study gives words only), source.

    Examples
    --------
    >>> published()["exponent"].tolist()[:2]
    [0.15, 0.44]
    """
    table = pd.DataFrame(_ROWS, columns=["clock", "base_lr", "k", "exponent", "source"])
    return table.astype({"base_lr": "float64", "exponent": "float64"})
