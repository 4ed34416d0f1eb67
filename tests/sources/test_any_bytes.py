"""Whatever the bytes, a reader gives rows or a named refusal; a cut costs the cut record only."""

import functools
import gzip
import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twoclock.errors import NoUsableRuns, SettingsError, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_events, read_runs

NAMES = ["r.jsonl", "r.csv", "r.json", "train.log", "trainer_state.json", "r.parquet", "r.jsonl.gz",
         "run.json", "log", "r.tsv"]  # fmt: skip

CONSOLE = "".join(
    f"(TaskRunner pid=7) step:{s} - critic/score/mean:0.{s}5 - val-core/x/acc/mean@1:0.{s}7\n"
    for s in range(1, 8)
)
JSON_LINES = "".join(
    json.dumps({"step": s, "reward": s / 8 + 0.01, "val_acc": s / 9}) + "\n" for s in range(1, 8)
)
FILE_LOG = "".join(
    json.dumps({"step": s, "data": {"critic/score/mean": s / 8, "val-core/x/acc/mean@1": s / 9}})
    + "\n"
    for s in range(1, 8)
)
TABLE = "step,reward,val_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))
HISTORY = [{"step": s, "reward": s / 8, "eval_acc": s / 9, "loss": 0.1} for s in range(1, 8)]
STATE = json.dumps({"global_step": 7, "logging_steps": 1, "log_history": HISTORY}, indent=1)
ARRAY = json.dumps([{"step": s, "val_acc": s / 9, "reward": 0.1} for s in range(1, 8)], indent=1)
GOOD = {
    "train.log": CONSOLE, "r.jsonl": JSON_LINES, "f.jsonl": FILE_LOG, "r.csv": TABLE,
    "trainer_state.json": STATE, "r.json": ARRAY,
}  # fmt: skip

fragments = st.sampled_from(
    ['{"step":1,"loss":NaN}\n', "step,val_acc\n", "1,0.5\n", "step:3 - actor/lr:0.000 - x:nan\n",
     '{"log_history":[{"step":', "'actor_rollout_ref': {'", "[{", "}", '"', "\n", "\r", "\0",
     "1e999", "\ufeff", "{'loss': nan, 'epoch': 0.1}\n", '{"step":{"a":1},"val/acc":true}\n',
     "batch_size,", "lower,upper\n", "9" * 400, "-", "\x1b[36m", "(TaskRunner pid=1) ",
     '{"step":1e400}\n',
     '{"format":"twoclock-run/1"}', ";", "\t", "[" * 2000, "sep=;\n",
     "Step,a - val_acc,b - val_acc\n",
     '"x\ny",', '"1,234"', "-Infinity", "1.234,5"]
)  # fmt: skip


yaml_pieces = st.sampled_from(
    ["- {path: '*', ", "seed: 1}", "lr: [1]}", "- ", "map: {accuracy: val_acc}", "}", "\n", "&a ",
     "*a", "? ", "!!python/name:os.system x", "path: 3\n",
     "'*'", "batch_size: .inf}", "clip_low: ~}",
     "run_id: x}", "task: {a: b}}", "2024-01-01", "scale: {accuracy: .nan}}", "<<: *a"]
)  # fmt: skip


def read(name, data, **options):
    """Read one file in a folder of its own; None when it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return read_runs(folder, ReadOptions(batch_size=8, **options))
            except NoUsableRuns as err:
                return _one_line(err)


def _one_line(err):
    assert "\n" not in str(err)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.binary(max_size=200))
@example("r.csv", b"step,val_acc\n1,0.5\n1e300,0.6\n")
@example("r.jsonl", b'{"step": 99999999999999999999999999, "loss": 1}\n')
@example("r.jsonl.gz", gzip.compress(b'{"step":1,"loss":2}\n')[:-9])
@example("r.jsonl", b"\x1f\x8b" + b"junk" * 9)
@example("r.jsonl", b"\x28\xb5\x2f\xfd" + b"junk" * 9)
@example("r.parquet", b"PAR1" + b"\0" * 40 + b"PAR1")
def test_any_bytes_give_rows_or_a_refusal(name, data):
    """No byte string makes a reader raise anything but its own refusals."""
    read(name, data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.lists(fragments, max_size=12).map("".join))
def test_any_text_of_log_fragments_gives_rows_or_a_refusal(name, text):
    """Pieces of real logs in any order are rows or a refusal."""
    read(name, text.encode())


@settings(max_examples=80, deadline=None)
@given(st.lists(fragments, max_size=12).map("".join))
def test_any_text_is_an_events_table_or_not(text):
    """Reading a file as an events table gives rows, None or a named error."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "e.csv"
        path.write_text("batch_size,lower,upper\n" + text, encoding="utf-8")
        try:
            read_events(path)
        except SourceError as err:
            _one_line(err)


@functools.cache
def whole_file(name):
    """Read the uncut file once."""
    return read(name, GOOD[name].encode())


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | st.lists(yaml_pieces, max_size=8).map("".join))
def test_any_runs_yaml_is_used_or_named(text):
    """Whatever stands in runs.yaml, the runs are read or the mistake is one line."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "runs.yaml").write_text(text, encoding="utf-8", errors="replace")
        (Path(folder) / "r.csv").write_text(TABLE, encoding="utf-8")
        try:
            read_runs(folder, ReadOptions(batch_size=8))
        except (SettingsError, NoUsableRuns) as err:
            _one_line(err)


@pytest.mark.parametrize("name", sorted(GOOD))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_cut_keeps_all_complete_records(name, data):
    """Wherever a good file is cut, the values before the cut are those of the whole file."""
    text = GOOD[name].encode()
    whole = whole_file(name)
    cut = data.draw(st.integers(min_value=1, max_value=len(text) - 1))
    part = read(name, text[:cut])
    expected = _complete(name, text[:cut])
    if expected == 0 and name in ("r.csv", "train.log"):
        return  # nothing before it tells how long the first number should be
    if part is None:
        assert expected == 0
        return
    got = list(zip(part.evals["responses"], part.evals["accuracy"], strict=True))
    full = list(zip(whole.evals["responses"], whole.evals["accuracy"], strict=True))
    assert got[:expected] == full[:expected]
    assert len(got) >= expected
    assert got == full[: len(got)]


def _complete(name, text):
    """Count the complete records of a cut file."""
    if name in ("r.json", "trainer_state.json"):
        return text.count(b"}") - (name == "trainer_state.json" and text.rstrip().endswith(b"]\n}"))
    return max(0, text.count(b"\n") - (name == "r.csv"))
