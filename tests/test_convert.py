"""Stored tables: lossless, at once, one unit, and never silently at odds with what was asked."""

import json
import math

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.reading import SHARED, codes, read, reasons, write
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.store import is_stored, load_store, write_store

TABLES = ("runs", "steps", "evals", "probes")


def table(shift, key="val_acc"):
    """Return a small log with values of its own, NaN and infinity among them."""
    rows = [f"{s},0.{s}5{shift:02d},0.{s}7{shift:02d}\n" for s in range(1, 6)]
    return f"step,reward,{key}\n" + "".join(rows) + "6,NaN,\n7,inf,0.5\n"


def logs(folder):
    """Write two runs, a damaged file, one that lacks facts, and a runs.yaml."""
    return write(folder, {
        "a.csv": table(1), "b/seed3.csv": table(2), "bad.csv": "",
        "two.csv": table(3, "val_a_acc,val_b_acc").replace(",0.", ",0.1,0."),
        "runs.yaml": "- {path: a.csv, seed: 4, clip_high: null, model: m/学习}\n",
    })  # fmt: skip


def assert_equal(found, expected):
    """Require equal tables, types and remarks included."""
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name))
    assert found.notes == expected.notes
    assert found.refused == expected.refused
    assert found.files[: len(expected.files)] == expected.files


def test_tables_read_back_as_they_were_written(tmp_path):
    """Frames, types, missing and infinite values, remarks, refusals and files are the same."""
    found = read_runs(logs(tmp_path / "logs"), ReadOptions(batch_size=8))
    write_store(found, tmp_path / "out")
    back = read_runs(tmp_path / "out")
    assert_equal(back, found)
    assert [item.facts for item in back.refused if item.facts] == [("accuracy",)]
    assert back.steps["nonfinite"].notna().sum() == 4  # rows 6 and 7 of two runs
    assert math.isinf(back.runs.loc[0, "clip_high"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="real logs are not here")
def test_real_logs_read_back_as_they_were_read(tmp_path):
    """The tables of real logs of several frameworks lose nothing."""
    found = read_runs(SHARED)
    write_store(found, tmp_path)
    assert_equal(read_runs(tmp_path), found)


def test_native_runs_with_extra_columns_and_probes_read_back(tmp_path):
    """Columns beyond the schema and probes keep their values and types."""
    found = read_runs("data/probes")
    assert len(found.probes)
    write_store(found, tmp_path)
    assert_equal(read_runs(tmp_path), found)


def test_the_same_runs_give_the_same_bytes(tmp_path):
    """Writing twice, and converting what was converted, gives equal files."""
    found = read_runs(logs(tmp_path / "logs"), ReadOptions(batch_size=8))
    first = write_store(found, tmp_path / "one")
    write_store(found, tmp_path / "two")
    write_store(read_runs(tmp_path / "one"), tmp_path / "three")
    for path in first:
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        assert path.read_bytes() == (tmp_path / "three" / path.name).read_bytes()


def test_the_command_writes_and_every_command_reads(run, tmp_path):
    """`convert`, then `runs --json` on the logs and on the tables give the same rows."""
    folder = logs(tmp_path / "logs")
    code, out, err = run("convert", folder, "--batch-size", 8, "--out", tmp_path / "out")
    assert code == 0
    assert out == ""
    assert "2 runs written" in err
    _, direct, _ = run("runs", folder, "--batch-size", 8, "--json")
    _, stored, err = run("runs", tmp_path / "out", "--json")
    assert json.loads(stored) == json.loads(direct)
    assert "bad.csv: no data" in err
    code, _, _ = run("events", tmp_path / "out", "--target", 0.3)
    assert code == 0


def test_other_files_are_left_alone(tmp_path):
    """Tables of somebody else are named and kept; a file beside ours stays."""
    found = read(tmp_path / "logs", {"a.csv": table(1)}, batch_size=8)
    write(tmp_path / "out", {"mine.txt": "x"})
    write_store(found, tmp_path / "out")
    write_store(found, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "evals.parquet", "mine.txt", "runs.parquet", "steps.parquet"]  # fmt: skip
    write(tmp_path / "other", {"steps.parquet": b"PAR1 somebody else's"})
    with pytest.raises(SourceError, match="was not written by twoclock convert"):
        write_store(found, tmp_path / "other")
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["steps.parquet"]


def test_probes_of_an_earlier_call_do_not_stay(tmp_path):
    """A folder written again without probes has none."""
    write_store(read_runs("data/probes"), tmp_path)
    assert (tmp_path / "probes.parquet").exists()
    write_store(read(tmp_path / "logs", {"a.csv": table(1)}, batch_size=8), tmp_path)
    assert not (tmp_path / "probes.parquet").exists()


def test_tables_of_two_calls_are_not_mixed(tmp_path):
    """A steps table that does not belong to the runs beside it is refused by name."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    write_store(read(tmp_path / "2", {"b.csv": table(2)}, batch_size=8), tmp_path / "two")
    (tmp_path / "one/steps.parquet").write_bytes((tmp_path / "two/steps.parquet").read_bytes())
    with pytest.raises(NoUsableRuns, match="does not belong to the"):
        read_runs(tmp_path / "one")
    (tmp_path / "two/steps.parquet").unlink()
    with pytest.raises(NoUsableRuns) as caught:
        read_runs(tmp_path / "two")
    assert "\n" not in str(caught.value)


def test_one_table_alone_says_what_to_give(tmp_path):
    """A single table names the folder's runs.parquet."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    assert is_stored(tmp_path / "one/steps.parquet")
    with pytest.raises(NoUsableRuns, match=r"give the folder with runs\.parquet"):
        read_runs(tmp_path / "one/steps.parquet")


@pytest.mark.parametrize("cut", [10, 200, 3000])
def test_damaged_tables_are_one_line(tmp_path, cut):
    """A cut or overwritten runs.parquet is a refusal, not a traceback."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    file = tmp_path / "one/runs.parquet"
    data = file.read_bytes()
    for damaged in (data[:cut], data[:cut] + b"\xff" * 40 + data[cut + 40 :]):
        file.write_bytes(damaged)
        with pytest.raises(NoUsableRuns) as caught:
            read_runs(tmp_path / "one")
        assert "\n" not in str(caught.value)


def test_a_hostile_description_is_refused(tmp_path):
    """Metadata that names other files, or says nonsense, reads nothing else."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    file = tmp_path / "one/runs.parquet"
    plain = pq.read_table(file)
    for about in (b"{}", b"[]", b"x", b'{"format": "twoclock-tables/1"}',
                  b'{"format": "twoclock-tables/1", "tables": {"../../secret": "0"}}',
                  b'{"format": "twoclock-tables/9\\n"}'):  # fmt: skip
        pq.write_table(plain.replace_schema_metadata({b"twoclock": about}), file)
        with pytest.raises(SourceError) as caught:
            load_store(file)
        assert "\n" not in str(caught.value)


def test_options_that_change_the_counting_are_refused(tmp_path):
    """--batch-size, --map and --scale on stored tables get one line, unless they say the same."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    for options, name in (
        (ReadOptions(batch_size=16), "batch_size"),
        (ReadOptions(world_size=2), "world_size"),
        (ReadOptions(map={"accuracy": ("reward",)}), "map"),
        (ReadOptions(scale={"accuracy": 0.5}), "scale"),
        (ReadOptions(duplicates="mean"), "duplicates"),
    ):
        with pytest.raises(NoUsableRuns, match=f"counted already, so {name} cannot be given"):
            read_runs(tmp_path / "one", options)
    assert len(read_runs(tmp_path / "one", ReadOptions(batch_size=8)).runs) == 1


def test_options_that_describe_are_taken(tmp_path):
    """Seed, learning rate and size of the validation reach stored runs as the user's."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    write(tmp_path / "one", {"runs.yaml": "- {clip_low: null, clip_high: null, clip_dual: null}\n"})
    runs = read_runs(tmp_path / "one", ReadOptions(seed=5, lr=1e-6, val_n=90))
    row = runs.runs.iloc[0]
    assert (row["seed"], row["seed_from"], row["lr"], row["lr_from"]) == (5, "user", 1e-6, "user")
    assert set(runs.evals["n"]) == {90}
    assert row["clip_active"] == "no"


def test_stored_tables_and_fresh_logs_are_read_together(tmp_path):
    """Several folders give all their runs, sorted; a copy counts once; names stay apart."""
    write_store(read(tmp_path / "1", {"a.csv": table(1), "b.csv": table(2)}, batch_size=8),
                tmp_path / "one")  # fmt: skip
    write_store(read(tmp_path / "2", {"a.csv": table(4)}, batch_size=8), tmp_path / "two")
    write(tmp_path / "3", {"z.csv": table(5), "b.csv": table(2)})
    runs = read_runs(
        [tmp_path / "one", tmp_path / "two", tmp_path / "3"], ReadOptions(batch_size=8)
    )
    assert list(runs.runs["run_id"]) == ["a", "b", "two/a", "z"]
    assert list(dict.fromkeys(runs.steps["run_id"])) == ["a", "b", "two/a", "z"]
    assert list(dict.fromkeys(runs.evals["run_id"])) == ["a", "b", "two/a", "z"]
    assert "duplicate_run" in codes(runs)
    assert runs.steps["responses"].dtype == "Int64"
    again = read_runs([tmp_path / "3", tmp_path / "two", tmp_path / "one"],
                      ReadOptions(batch_size=8))  # fmt: skip
    pd.testing.assert_frame_equal(again.steps, runs.steps)


def test_a_refused_folder_of_tables_leaves_fresh_logs_usable(tmp_path):
    """An option that only fits the logs refuses the tables by name and reads the logs."""
    write_store(read(tmp_path / "1", {"a.csv": table(1)}, batch_size=8), tmp_path / "one")
    write(tmp_path / "3", {"z.csv": table(5)})
    runs = read_runs([tmp_path / "one", tmp_path / "3"], ReadOptions(batch_size=64))
    assert list(runs.runs["run_id"]) == ["z"]
    assert "counted already" in reasons(runs)["runs.parquet"]


def test_tables_beside_their_own_logs_count_once(tmp_path):
    """A run is the same when its log has grown since, or the user has said more about it."""
    folder = write(tmp_path, {"a.csv": table(1), "b.csv": table(2)})
    write_store(read_runs(folder, ReadOptions(batch_size=8)), folder / "out")
    more = table(1) + "90,0.9,0.95\n"
    write(
        folder, {"a.csv": more, "runs.yaml": "- {path: a.csv, seed: 1}\n- {path: b.csv, seed: 2}\n"}
    )
    runs = read_runs(folder, ReadOptions(batch_size=8))
    assert runs.runs[["run_id", "seed"]].to_numpy().tolist() == [["a", 1], ["b", 2]]
    assert runs.steps["rollout"].max() == 90
    assert "missing_seed" not in codes(runs)


def test_parts_of_one_run_that_differ_are_told(tmp_path):
    """Two batch sizes under one name are a contradiction of the user's own."""
    files = {
        "x.csv": table(1), "y.csv": table(2),
        "runs.yaml": "- {path: x.csv, run_id: r, batch_size: 8}\n"
                     "- {path: y.csv, run_id: r, batch_size: 16}\n",
    }  # fmt: skip
    (told,) = [n for n in read(tmp_path, files).notes if n.code == "parts_disagree"]
    assert told.message.startswith("batch_size differs")
