"""Packed tables and protobuf messages: what every binary reader rests on."""

import gzip

import pandas as pd
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.event_bytes import field, varint
from tests.reading import curve, read, reasons
from twoclock.errors import NoUsableRuns
from twoclock.sources import protobuf

TABLE = pd.DataFrame({"step": [0, 10], "val_acc": [0.1, 0.6]})


@pytest.mark.parametrize(
    ("ending", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)], ids=["gz", "zst"]
)
def test_a_packed_parquet_table_is_read(tmp_path, ending, pack):
    """A table needs its end to be read, so that a packed one is unpacked first."""
    files = {f"r.parquet.{ending}": pack(TABLE.to_parquet())}
    assert curve(read(tmp_path, files, batch_size=1)) == [(0, 0.1), (10, 0.6)]


def test_a_packed_parquet_table_that_is_cut_is_refused_by_name(tmp_path):
    """Without its end a table cannot be read; the reason is one line."""
    files = {
        "r.parquet.gz": gzip.compress(TABLE.to_parquet())[:-200],
        "s.csv": "step,val_acc\n1,.5",
    }
    runs = read(tmp_path, files, batch_size=1)
    assert "cannot be read as Parquet" in reasons(runs)["r.parquet.gz"]


def test_a_table_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    """The limit holds for tables as for databases."""
    monkeypatch.setattr("twoclock.sources.packed.UNPACK_LIMIT", 1 << 16)
    files = {"r.parquet.gz": gzip.compress(b"PAR1" + bytes(1 << 20))}
    with pytest.raises(NoUsableRuns, match="unpack it yourself"):
        read(tmp_path, files, batch_size=1)


@given(st.integers(0, 2**64 - 1))
def test_whole_numbers_of_any_size_are_read(number):
    """A number is what was written, and ends where it ends."""
    data = varint(number)
    assert protobuf.varint(data + b"\x00", 0) == (number, len(data))


@given(st.lists(st.tuples(st.integers(1, 2**28), st.binary(max_size=40) | st.integers(0, 2**63))))
def test_fields_are_what_was_written(written):
    """Numbers, values and places of all fields come back in order."""
    data = b"".join(field(number, value) for number, value in written)
    found = list(protobuf.fields(data))
    assert [(number, value) for number, value, _ in found] == written
    for _, value, place in found:
        raw = value if isinstance(value, bytes) else varint(value)
        assert data[place : place + len(raw)] == raw


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_no_message(data):
    """Bytes that are no message raise that, and no field is longer than the message."""
    try:
        found = list(protobuf.fields(data))
    except protobuf.WireError:
        return
    assert sum(len(value) for _, value, _ in found if isinstance(value, bytes)) <= len(data)
