"""What every real writer is given, and how it is compared with what is read back."""

import math
import re

from twoclock.reading import ReadOptions

STEPS = (1, 2, 3, 10, 130, 20000)

SERIES = {
    "train/reward": (0.1, -9.66, 0.7, 1e-6, 123456.75, 0.0),
    "actor/grad_norm": (math.nan, math.inf, -math.inf, 1e-30, 3.0, -0.5),
    "val-core/openai/gsm8k/acc/mean@8": (0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    "odd key ü/学习率 x.y": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
}
"""Values of each key at `STEPS`: negative, tiny, not finite; keys with slashes, @ and spaces."""

TINY = "tiny"
"""Key of one value that four bytes cannot hold: 1e-300."""

_CLEANED = tuple(re.sub(r"[^-/\w.]", "_", key) for key in SERIES)

OPTIONS = ReadOptions(map={"reward": (*SERIES, *_CLEANED, TINY)})
"""Reads all of these keys, known or not."""


def rows():
    """Yield (step, row) as a trainer logs them."""
    for i, step in enumerate(STEPS):
        yield step, {key: values[i] for key, values in SERIES.items()}


def series(log, key, step_key="step"):
    """Return {step: value} of a key of a log; each value stands in a row that has a step."""
    steps = log.rows.values[step_key]
    by_row = dict(zip(steps.at.tolist(), steps.value.tolist(), strict=True))
    values = log.rows.values[key]
    pairs = zip(values.at.tolist(), values.value.tolist(), strict=True)
    return {by_row[at]: value for at, value in pairs}


def same(one, two):
    """Tell whether two numbers are the same, NaN too."""
    return one == two or (math.isnan(one) and math.isnan(two))


def without_signs(key):
    """Return the key as tensorboardX writes it: other signs than letters and digits are replaced.

    ``mean@8`` is ``mean_8`` then; nothing in the file tells it apart from a key of that name.
    """
    return re.sub(r"[^-/\w.]", "_", key)


def check(log, *, step_key="step", rename=str, narrow=None):
    """Compare every value of every key with what was logged.

    `narrow` turns a logged number into the one that the sink can hold, and is applied to what was
    read as well where the sink holds fewer bytes.
    """
    narrow = narrow or (lambda value: value)
    for key, values in SERIES.items():
        got = series(log, rename(key), step_key)
        assert list(got) == [float(step) for step in STEPS], key
        for step, value in zip(STEPS, values, strict=True):
            assert same(narrow(got[step]), narrow(value)), (key, step, got[step], value)
