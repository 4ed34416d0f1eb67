"""The --select expression."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoclock.errors import SettingsError
from twoclock.select import select_rows

FRAME = pd.DataFrame(
    {
        "batch_size": pd.array([64, 256, 1024], dtype="Int64"),
        "seed": pd.array([0, None, 2], dtype="Int64"),
        "task": pd.array(["addition", "sorting", None], dtype="string"),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch_size >= 256", [False, True, True]),
        ("64 < batch_size < 1024", [False, True, False]),
        ("task == 'addition' or seed == 2", [True, False, True]),
        ("not task == 'addition'", [False, True, True]),
        ("seed in [0, 1]", [True, False, False]),
        ("seed != 0", [False, False, True]),
    ],
)
def test_rows_are_selected(text, expected):
    """Comparisons and their combinations select what they say; missing satisfies no comparison."""
    assert select_rows(FRAME, text).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch_size >",
        "nope == 1",
        "__import__('os').getcwd() == 1",
        "batch_size",
        "1 + 1",
        "task > 3",
        "batch_size == [",
        "batch_size is 3",
        "seed in 5",
    ],
)
def test_everything_else_is_refused_in_one_line(text):
    """A bad expression is a SettingsError of one line, and nothing is evaluated."""
    with pytest.raises(SettingsError) as err:
        select_rows(FRAME, text)
    assert "\n" not in str(err.value)


@given(st.text(max_size=40))
def test_no_text_raises_anything_else(text):
    """Any text gives a mask or a SettingsError."""
    try:
        mask = select_rows(FRAME, text)
    except SettingsError:
        return
    assert len(mask) == len(FRAME)
