"""Files of single responses are no runs, and are named once a folder."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reading import read, write
from twoclock.errors import NoUsableRuns
from twoclock.runs import read_runs


def responses(step):
    """Return a dump of one step: a row for each response, with a score and the step."""
    row = {"input": "1+1=", "output": "2" * 50, "gts": "2", "score": 1.0, "step": step}
    return "".join(json.dumps(row) + "\n" for _ in range(4))


def test_dumps_beside_a_log_are_told_once(tmp_path):
    """A hundred files of responses are one refusal, and only the log is a run."""
    files = {f"rollouts/{step}.jsonl": responses(step) for step in range(1, 101)}
    files["metrics.jsonl"] = '{"step": 1, "val/acc": 0.2}\n{"step": 2, "val/acc": 0.3}\n'
    runs = read(tmp_path, files, batch_size=4)
    assert len(runs.runs) == 1
    (refusal,) = runs.refused
    assert refusal.path.endswith("rollouts")
    assert "100 files hold single responses" in refusal.reason


def test_a_dump_given_by_name_is_refused_in_one_line(tmp_path):
    """A dump alone is no run, and the reason says what it is."""
    write(tmp_path, {"7.jsonl": responses(7)})
    with pytest.raises(NoUsableRuns, match="holds single responses"):
        read_runs(tmp_path / "7.jsonl")


def test_completions_in_parquet_are_a_dump(tmp_path):
    """The completions that TRL writes are no table of metrics."""
    table = pa.table(
        {"step": [1, 1], "prompt": ["a", "a"], "completion": ["b", "c"], "acc": [0, 1]}
    )
    (tmp_path / "completions").mkdir()
    pq.write_table(table, tmp_path / "completions" / "completions_00001.parquet")
    with pytest.raises(NoUsableRuns, match="single responses"):
        read_runs(tmp_path)


def test_a_long_first_response_does_not_hide_the_dump(tmp_path):
    """A row longer than what is looked at first is recognised after reading."""
    row = {"note": "x" * 200_000, "input": "q", "output": "a", "score": 1.0, "step": 1}
    write(tmp_path, {"1.jsonl": json.dumps(row) + "\n"})
    with pytest.raises(NoUsableRuns, match="single responses"):
        read_runs(tmp_path)


def test_a_log_of_swanlab_is_refused_with_the_remedy(tmp_path):
    """A format that is known and not read is named, and the log beside it is read."""
    files = {"swanlog/run-1/run-1.swanlab": b"\x00\x01", "m.csv": "step,val_acc\n0,0.1\n5,0.2\n"}
    runs = read(tmp_path, files, batch_size=4)
    assert len(runs.runs) == 1
    assert "export the run as CSV" in runs.refused[0].reason


@pytest.mark.parametrize("beside", [None, "run-1.wandb", "files/output.log"])
def test_a_summary_without_its_log_is_no_run(tmp_path, beside):
    """Last values alone are refused with what to give; beside a log they are passed over."""
    place = "wandb/run-20260101_000000-1"
    files = {f"{place}/files/wandb-summary.json": '{"val/acc": 0.5, "_step": 9}',
             "m.csv": "step,val_acc\n0,0.1\n5,0.2\n"}  # fmt: skip
    if beside:
        files[f"{place}/{beside}"] = ""
    refused = {r.path.rpartition("/")[2] for r in read(tmp_path, files, batch_size=4).refused}
    assert ("wandb-summary.json" in refused) == (beside is None)
