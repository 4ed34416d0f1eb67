"""Words for numbers, exponents and strata: one wording for figures, tables and the terminal.

Nothing here computes a statistic, draws or prints.
"""

from twoclock.words.numbers import count_text, estimate_text, number_text, pair_text
from twoclock.words.strata import (
    column_words,
    common_column,
    stratum_details,
    stratum_labels,
    stratum_order,
)
from twoclock.words.verdicts import (
    equivalence_text,
    event_text,
    exponent_text,
    margin_text,
    published_text,
    set_text,
    target_text,
)

__all__ = [
    "column_words",
    "common_column",
    "count_text",
    "equivalence_text",
    "estimate_text",
    "event_text",
    "exponent_text",
    "margin_text",
    "number_text",
    "pair_text",
    "published_text",
    "set_text",
    "stratum_details",
    "stratum_labels",
    "stratum_order",
    "target_text",
]
