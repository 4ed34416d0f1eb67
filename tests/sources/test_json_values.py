"""JSON values and the rows kept of them: quick ways give what the slow, plain ones give."""

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twoclock.sources.json_values import parse
from twoclock.sources.rows import RowStore
from twoclock.sources.several_runs import RunStores

tokens = st.sampled_from([math.nan, math.inf, -math.inf])
texts = st.text() | st.sampled_from(
    ["loss: NaN, x", "NaN", "-Infinity", '"NaN"', "\\NaN", ": NaN}", "I", "\x7fn", "\ud800"]
)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | tokens | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


def same(one, two):
    """Tell whether two values are equal to the bit: kinds, signs and NaN included."""
    return type(one) is type(two) and repr(one) == repr(two)


@pytest.mark.parametrize("ascii_only", [True, False])
@settings(max_examples=300, deadline=None)
@given(value=values)
@example(value={"a": math.nan, "b": {"a": -math.inf}, "c": [math.inf, {"a": "NaN"}]})
@example(value={"x": 0.1 + 0.2, "y": 5e-324, "z": -0.0, "w": 1.7976931348623157e308})
def test_any_value_is_what_the_standard_library_reads(ascii_only, value):
    """Tokens at any depth, texts that look like tokens, and floats to the last bit."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert same(parse(text), json.loads(text))
    data = text.encode("utf-8", errors="replace")
    assert same(parse(data), json.loads(data))


@pytest.mark.parametrize(
    "text", ['{"a": NaN', "{NaN: 1}", '{"a": -NaN}', '{"a": NaNN}', '{"a": nan}', '{"a": "\\N"}']
)
def test_what_is_no_json_stays_none(text):
    """A token in a wrong place, or a word that only resembles one, is refused."""
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match=r"."):
            parse(form)


def test_tokens_are_read_with_their_sign():
    """NaN, Infinity and -Infinity are numbers, the same words in texts stay texts."""
    row = parse(b'{"a": NaN, "b": Infinity, "c": [-Infinity], "d": "NaN"}')
    assert math.isnan(row.pop("a"))
    assert row == {"b": math.inf, "c": [-math.inf], "d": "NaN"}


def test_bytes_that_are_no_text_cost_only_themselves():
    """A stray byte in a text is replaced, the numbers beside it are read."""
    row = parse(b'{"note": "\xff", "loss": NaN, "step": 3}')
    assert row["note"] == "\ufffd"
    assert row["step"] == 3


numbers = st.floats() | st.integers(-(10**400), 10**400)
odd = st.sampled_from([None, True, "NaN", "0.5", "", "x", {"mean": 1.0}, [1]])
some_rows = st.lists(
    st.dictionaries(
        st.sampled_from(["step", "loss", "reward", "host", "val/acc", "task", "kl"]),
        numbers | odd,
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(some_rows, st.integers(1, 4))
@example([{"step": i, "loss": i / 3} for i in range(20)], 1)
@example([{"step": 1, "loss": 10**400, "kl": 1}] * 4, 4)
def test_rows_with_the_same_keys_are_kept_as_any_others(rows, repeats):
    """Rows that come in runs of one shape give the columns that they give one by one."""
    store, plain = RowStore(), RowStore()
    plain._plan_for = lambda keys: None  # no quick way
    for line, row in enumerate((r for r in rows for _ in range(repeats)), start=1):
        store.add(row, line)
        plain.add(row, line)
    got, expected = store.finish(), plain.finish()
    assert got.values.keys() == expected.values.keys()
    for key, column in expected.values.items():
        assert got.values[key].at.tolist() == column.at.tolist()
        assert repr(got.values[key].value.tolist()) == repr(column.value.tolist())
    assert (got.count, got.texts, got.rejected) == (
        expected.count, expected.texts, expected.rejected
    )  # fmt: skip


def test_rows_without_a_name_follow_the_run_before_them():
    """A row that names no batch size belongs to the run of the row before it."""
    stores = RunStores()
    for line, (size, step) in enumerate([(8, 1), (None, 2), (16, 1), (None, 2), (8, 3)], start=1):
        row = {"step": step} if size is None else {"step": step, "batch_size": size, "seed": size}
        stores.add(row, line)
    assert {name: rows.count for name, rows in stores.finish().items()} == {
        "b8-seed8": 3, "b16-seed16": 2
    }  # fmt: skip


cells = st.sampled_from(
    ["0.5", " 2 ", "", " ", "NaN", "-inf", "61.5%", "1_000", "x", "1e-6", "\u0663"]
)
tables = st.integers(0, 6).flatmap(
    lambda size: st.dictionaries(
        st.sampled_from(["step", "loss", "host", "val/acc", "task", "mine"]),
        st.lists(cells, min_size=size, max_size=size).map(tuple),
        min_size=1,
    )
)


@settings(max_examples=200, deadline=None)
@given(st.lists(tables, max_size=4))
def test_a_block_of_texts_is_kept_as_its_rows(blocks):
    """Columns of texts give what the same texts give row by row."""
    store, plain = RowStore(["mine"]), RowStore(["mine"])
    line = 1
    for table in blocks:
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        store.add_table(range(line, line + len(rows)), table)
        for row in rows:
            plain.add(row, line)
            line += 1
    got, expected = store.finish(), plain.finish()
    assert (got.texts, got.rejected) == (expected.texts, expected.rejected)
    assert got.values.keys() == expected.values.keys()
    for key, column in expected.values.items():
        assert got.values[key].at.tolist() == column.at.tolist()
        assert repr(got.values[key].value.tolist()) == repr(column.value.tolist())
