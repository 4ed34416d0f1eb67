import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoclock.errors import LogFormatError
from twoclock.log_schema import json_schema
from twoclock.runlog import create_run, mark_nonfinite, read_header, resume_run
from twoclock.schema import LOG_FORMAT

RUN = {"batch_size": 64, "lr": 1e-4, "clip_low": None, "clip_high": 0.2}


def rows(folder):
    """Return the lines of a plain metrics file."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write(folder, n, first=1):
    """Write n rollouts, each followed by a validation."""
    log = create_run(folder, RUN) if first == 1 else resume_run(folder, rollout=first - 1)
    with log:
        for i in range(first, first + n):
            log.train({"rollout": i, "responses": 64 * i, "loss": 0.5 / i})
            log.eval({"rollout": i, "responses": 64 * i, "accuracy": 0.5, "n": 500})
    return folder


def test_create_writes_header_with_format_and_null_clip(tmp_path):
    """A new run says its format, its id, that its end is unknown, and null for "no such clip"."""
    create_run(tmp_path / "a", RUN).close()
    header = json.loads((tmp_path / "a" / "run.json").read_text())
    assert header["format"] == LOG_FORMAT
    assert header["run_id"] == "a"
    assert header["ended"] == "unknown"
    assert header["clip_low"] is None
    assert "grad_clip" not in header


def test_create_leaves_nothing_else_behind(tmp_path):
    """The folder appears whole, and no temporary one stays."""
    create_run(tmp_path / "a", RUN).close()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["metrics.jsonl", "run.json"]


def test_create_refuses_an_existing_run(tmp_path):
    """An existing run is never overwritten unasked."""
    create_run(tmp_path / "a", RUN).close()
    with pytest.raises(LogFormatError, match="exists"):
        create_run(tmp_path / "a", RUN)


def test_replace_starts_an_unfinished_run_again_but_never_a_finished_one(tmp_path):
    """`replace` drops the rows of an unfinished run and refuses a finished one."""
    write(tmp_path / "a", 2)
    with create_run(tmp_path / "a", RUN, replace=True) as log:
        log.finish("completed")
    assert rows(tmp_path / "a") == []
    with pytest.raises(LogFormatError, match="exists"):
        create_run(tmp_path / "a", RUN, replace=True)


@pytest.mark.parametrize("bad", [{"task": None}, {"lr": math.inf}, {"task": ["sorting"]}])
def test_create_refuses_values_that_are_no_text_or_finite_number(tmp_path, bad):
    """None, inf and containers are errors in run.json, apart from null clips."""
    with pytest.raises(LogFormatError):
        create_run(tmp_path / "a", {**RUN, **bad})
    assert not (tmp_path / "a").exists()


def test_rows_have_a_kind_and_schema_columns(tmp_path):
    """Lines carry their kind and the columns given, in the order of writing."""
    assert [r["kind"] for r in rows(write(tmp_path / "a", 2))] == ["train", "eval"] * 2


def test_rows_follow_the_json_schema(tmp_path):
    """What is written validates against the schema of the format."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    folder = write(tmp_path / "a", 2)
    for content in [read_header(folder), *rows(folder)]:
        jsonschema.validate(content, schema)


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("train", {"rollout": 1, "responses": 1, "rewrad": 1.0}, "unknown column 'rewrad'"),
        ("train", {"rollout": 1}, "no 'responses'"),
        ("eval", {"responses": 1}, "no 'accuracy'"),
    ],
)
def test_rows_with_unknown_or_missing_columns_are_refused(tmp_path, kind, row, message):
    """A misspelt or missing column is an error at writing, not a surprise at reading."""
    with create_run(tmp_path / "a", RUN) as log, pytest.raises(LogFormatError, match=message):
        getattr(log, kind)(row)


def test_nonfinite_values_become_null_and_are_named(tmp_path):
    """NaN and inf are null in JSON, and `nonfinite` names their columns."""
    with create_run(tmp_path / "a", RUN) as log:
        log.train({"rollout": 1, "responses": 64, "loss": math.nan, "kl_old": math.inf})
    (row,) = rows(tmp_path / "a")
    assert row["loss"] is None
    assert row["nonfinite"] == "loss,kl_old"


@given(st.dictionaries(st.sampled_from(["loss", "reward", "entropy"]), st.floats()))
def test_mark_nonfinite_leaves_only_json_numbers(row):
    """Whatever the floats, the result is strict JSON and keeps every finite value."""
    marked = mark_nonfinite(row)
    json.dumps(marked, allow_nan=False)
    assert all(marked[k] == v for k, v in row.items() if math.isfinite(v))


def test_numpy_scalars_are_written(tmp_path):
    """A training loop may hand over numpy numbers."""
    with create_run(tmp_path / "a", RUN) as log:
        log.train({"rollout": np.int64(1), "responses": 64, "loss": np.float64(0.5)})
    assert rows(tmp_path / "a")[0]["loss"] == 0.5


def test_flush_makes_rows_visible(tmp_path):
    """After `flush` another reader sees the rows while the run goes on."""
    with create_run(tmp_path / "a", RUN) as log:
        log.train({"rollout": 1, "responses": 64})
        log.flush()
        assert len(rows(tmp_path / "a")) == 1


def test_resume_drops_later_rows_and_a_torn_line(tmp_path):
    """Resuming after rollout 2 keeps rollouts 1 and 2, whole lines only."""
    folder = write(tmp_path / "a", 4)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"train","roll')
    resume_run(folder, rollout=2).close()
    assert [r["rollout"] for r in rows(folder)] == [1, 1, 2, 2]


def test_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """Writing on after resuming gives the bytes of a run that was never stopped."""
    whole = write(tmp_path / "a", 4)
    write(tmp_path / "b", 3)
    write(tmp_path / "b", 2, first=3)
    name = "metrics.jsonl"
    assert (tmp_path / "b" / name).read_bytes() == (whole / name).read_bytes()


def test_resume_refuses_a_finished_run(tmp_path):
    """A compressed, finished run is not opened again."""
    with create_run(tmp_path / "a", RUN) as log:
        log.finish("completed", compress=True)
    with pytest.raises(LogFormatError, match="unfinished"):
        resume_run(tmp_path / "a", rollout=0)


def test_finish_sets_ended_and_compresses_deterministically(tmp_path):
    """Equal rows give equal gzip bytes, the plain file goes, and run.json tells the end."""
    for name in "ab":
        folder = write(tmp_path / name, 2)
        resume_run(folder, rollout=2).finish("stopped", compress=True)
    packed = [(tmp_path / name / "metrics.jsonl.gz").read_bytes() for name in "ab"]
    assert packed[0] == packed[1]
    assert len(gzip.decompress(packed[0]).splitlines()) == 4
    assert not (tmp_path / "a" / "metrics.jsonl").exists()
    assert read_header(tmp_path / "a")["ended"] == "stopped"


def test_finish_refuses_unknown_ends(tmp_path):
    """`ended` is one of the schema's words."""
    with create_run(tmp_path / "a", RUN) as log, pytest.raises(LogFormatError, match="ended"):
        log.finish("finished")


@pytest.mark.parametrize("content", ["", "[]", '{"format": "other/1"}'])
def test_read_header_refuses_other_files(tmp_path, content):
    """A damaged or foreign run.json is an error that names the file."""
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(LogFormatError, match=r"run\.json"):
        read_header(tmp_path)
