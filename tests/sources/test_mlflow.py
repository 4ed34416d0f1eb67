"""MLflow: run folders of the file store, and databases; deleted runs, infinities, damage."""

import gzip
import math
import os
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import curve, note, read, reasons, write
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.finding import find_files
from twoclock.sources.mlflow_files import read_mlflow_run
from twoclock.sources.tracker_db import read_database

RUN = "mlruns/123/0a1b"
META = "run_id: 0a1b\nrun_name: b64-s0\nstatus: 3\nstart_time: 1700000000500\n"


def run_folder(meta=META, metrics=None, params=None):
    """Return the files of a run folder."""
    metrics = {"val/acc": "5 0.1 0\n6 0.6 10\n"} if metrics is None else metrics
    files = {"mlruns/123/meta.yaml": "experiment_id: '123'\nlifecycle_stage: active\nname: e\n",
             f"{RUN}/meta.yaml": f"artifact_uri: x\nlifecycle_stage: active\n{meta}"}  # fmt: skip
    files |= {f"{RUN}/metrics/{key}": text for key, text in metrics.items()}
    files |= {f"{RUN}/params/{key}": text for key, text in (params or {}).items()}
    return files


def log_of(folder, **parts):
    """Write a run folder and read it."""
    path = write(folder, run_folder(**parts)) / RUN / "meta.yaml"
    (log,) = read_mlflow_run(path, ReadOptions())
    return log


def test_a_run_folder_is_one_log(tmp_path):
    """Name, id, start, end and parameters are read; folders of metrics stand for slashes."""
    log = log_of(tmp_path, params={"data/train_batch_size": "64", "lr": "1e-06", "note": "x: y"})
    assert (log.name, log.key, log.started) == ("b64-s0", "0a1b", 1_700_000_000.5)
    assert log.facts["ended"].value == "completed"
    assert log.config == {"data.train_batch_size": 64, "lr": 1e-06, "note": "x: y"}
    assert log.rows.values["val/acc"].value.tolist() == [0.1, 0.6]
    assert log.rows.values["step"].value.tolist() == [0, 10]


def test_only_the_run_of_a_store_is_found(tmp_path):
    """Metrics, parameters and the experiment's own description are no logs by themselves."""
    folder = write(
        tmp_path, run_folder() | {f"{RUN}/tags/mlflow.user": "me", "mlruns/.trash/x": ""}
    )
    runs = read_runs(folder, ReadOptions(batch_size=1))
    assert runs.runs["run_id"].tolist() == ["b64-s0"]
    assert reasons(runs) == {}
    assert curve(runs) == [(0, 0.1), (10, 0.6)]
    named = read_runs(folder / RUN / "meta.yaml", ReadOptions(batch_size=1))
    assert curve(named) == curve(runs)


@pytest.mark.parametrize(
    ("status", "ended"),
    [("3", "completed"), ("4", "crashed"), ("5", "stopped"), ("1", None), ("FAILED", "crashed")],
)
def test_the_status_tells_how_a_run_ended(tmp_path, status, ended):
    """A run that is still running tells nothing."""
    facts = log_of(tmp_path, meta=META.replace("status: 3", f"status: {status}")).facts
    assert (facts["ended"].value if facts else None) == ended


def test_lines_of_all_versions_are_read(tmp_path):
    """Two, three and five columns; NaN and infinities; others are named and left out."""
    text = "1 0.5\n2 nan 1\n3 inf 2\n4 -inf 3\n5 1e-300 4 data abc\nno line\n6 x 5\n7 2.0 6\n8 1"
    log = log_of(tmp_path, metrics={"loss": text})
    values = log.rows.values["loss"].value.tolist()
    expected = [0.5, math.nan, math.inf, -math.inf, 1e-300, 2.0]
    assert [str(v) for v in values] == [str(v) for v in expected]
    (told,) = log.notes
    assert (told.code, told.count) == ("cut_line", 3)


def test_metrics_of_one_step_are_one_row_in_the_order_of_steps(tmp_path):
    """Files of metrics are put together by step and the first part of the key."""
    metrics = {"actor/lr": "1 1e-6 1\n2 1e-6 2\n", "actor/entropy": "9 0.5 1\n9 0.4 2\n"}
    rows = log_of(tmp_path, metrics=metrics).rows
    assert rows.count == 2
    assert rows.values["actor/lr"].at.tolist() == rows.values["actor/entropy"].at.tolist()


def test_a_resumed_run_overwrites_by_time(tmp_path):
    """Steps that fall with rising time are a resume over all metrics."""
    text = "1 0.1 0\n2 0.9 10\n3 0.95 20\n4 0.4 10\n5 0.5 20\n"
    files = run_folder(metrics={"val/acc": text, "train/reward": text})
    runs = read(tmp_path, files, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.4), (20, 0.5)]
    assert "steps 10-20 overwritten" in note(runs, "resumed").message


def test_a_deleted_run_is_refused_by_name(tmp_path):
    """What is deleted in MLflow is not read, and is told."""
    files = run_folder(meta=META)
    files[f"{RUN}/meta.yaml"] = files[f"{RUN}/meta.yaml"].replace("active", "deleted")
    files["r.csv"] = "step,val_acc\n1,0.5\n2,0.6\n"
    runs = read(tmp_path, files, batch_size=1)
    assert "deleted in MLflow" in reasons(runs)["meta.yaml"]


def test_a_run_without_known_metrics_is_refused(tmp_path):
    """Without metrics, or with none that is known, a run folder is no data."""
    with pytest.raises(SourceError, match="none of its metrics is known"):
        log_of(tmp_path / "a", metrics={"system/x": "1 2 3\n"})
    with pytest.raises(SourceError, match="it has no metrics"):
        log_of(tmp_path / "b", metrics={})


# --- databases ---------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time BIGINT, lifecycle_stage TEXT);
CREATE TABLE metrics (key TEXT, value FLOAT, timestamp BIGINT, run_uuid TEXT, step BIGINT,
    is_nan BOOLEAN);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
"""
LARGEST = 1.7976931348623157e308


def database(path, runs, metrics, params=(), tags=(), journal="delete"):
    """Write a database; return the open connection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.executescript(SCHEMA)
    for table, rows in (("runs", runs), ("metrics", metrics), ("params", params), ("tags", tags)):
        for row in rows:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    connection.commit()
    return connection


def runs_and_metrics():
    """Return two runs of a database, one of them deleted, and their metrics."""
    runs = [("a1", "b64", "FAILED", 1_700_000_000_500, "active"),
            ("d1", "old", "FINISHED", 1, "deleted")]  # fmt: skip
    metrics = [("val/acc", s / 10, s, "a1", s, 0) for s in range(3)]
    metrics += [("val/acc", 0.9, 1, "d1", 1, 0)]
    return runs, metrics


def test_each_run_of_a_database_is_a_log(tmp_path):
    """Deleted runs are left out with a note; the rest has its name, id and parameters."""
    runs, metrics = runs_and_metrics()
    runs.append(("b2", "b128", "RUNNING", 5, "active"))
    metrics.append(("train/reward", 1.5, 1, "b2", 1, 0))
    path = tmp_path / "any.db"
    database(path, runs, metrics, [("data/train_batch_size", "64", "a1")]).close()
    one, two = read_database(path, ReadOptions())
    assert (one.name, one.key, one.started) == ("b64", "a1", 1_700_000_000.5)
    assert one.facts["ended"].value == "crashed"
    assert one.config == {"data.train_batch_size": 64}
    assert one.rows.values["val/acc"].value.tolist() == [0.0, 0.1, 0.2]
    assert (two.name, dict(two.facts)) == ("b128", {})
    assert [(n.code, n.count) for n in one.notes] == [("deleted_runs", 1)]


def test_numbers_that_a_database_cannot_hold_are_what_was_logged(tmp_path):
    """The largest number stands for infinity; NaN has a column; texts are no numbers."""
    values = [(LARGEST, 0), (-LARGEST, 0), (0.0, 1), (1e-300, 0), ("text", 0), (None, 0)]
    metrics = [("loss", value, s, "a1", s, nan) for s, (value, nan) in enumerate(values)]
    database(tmp_path / "m.db", runs_and_metrics()[0][:1], metrics).close()
    (log,) = read_database(tmp_path / "m.db", ReadOptions())
    got = log.rows.values["loss"].value.tolist()
    assert [str(v) for v in got] == ["inf", "-inf", "nan", "1e-300"]
    assert [(n.code, n.count) for n in log.notes] == [("not_a_number", 2)]


def test_a_name_in_a_tag_is_taken(tmp_path):
    """Older versions have no name of the run but in a tag."""
    runs, metrics = [("a1", None, "FINISHED", 1, "active")], runs_and_metrics()[1]
    database(tmp_path / "m.db", runs, metrics, tags=[("mlflow.runName", "tagged", "a1")]).close()
    assert read_database(tmp_path / "m.db", ReadOptions())[0].name == "tagged"


def test_what_is_only_in_the_journal_is_read_and_nothing_is_changed(tmp_path):
    """A database that is being written to is read with its journal, and left as it was."""
    path = tmp_path / "live.db"
    writer = database(path, *runs_and_metrics(), journal="wal")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert before["live.db-wal"]
    (log,) = read_database(path, ReadOptions())
    assert log.rows.count == 3
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    writer.close()


def test_a_closed_database_leaves_no_files_beside_it(tmp_path):
    """Reading makes no journal, also in a folder that can be written to."""
    path = tmp_path / "m.db"
    database(path, *runs_and_metrics(), journal="wal").close()
    assert [log.key for log in read_database(path, ReadOptions())] == ["a1"]
    assert [p.name for p in tmp_path.iterdir()] == ["m.db"]


def test_a_packed_database_is_read(tmp_path):
    """A packed copy gives what the database gives, and is found by its name."""
    path = tmp_path / "m.db"
    database(path, *runs_and_metrics()).close()
    packed = tmp_path / "packed" / "m.sqlite.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [log.key for log in read_database(packed, ReadOptions())] == ["a1"]
    assert [f.path.name for f in find_files([packed.parent])[0]] == ["m.sqlite.gz"]


def test_a_packed_database_without_end_is_refused(tmp_path, monkeypatch):
    """What unpacks to more than the limit is refused with the remedy, and removed."""
    monkeypatch.setattr("twoclock.sources.packed.UNPACK_LIMIT", 1 << 20)
    path = tmp_path / "m.db.gz"
    path.write_bytes(gzip.compress(b"SQLite format 3\0" + bytes(8 << 20)))
    with pytest.raises(SourceError, match="unpack it yourself"):
        read_database(path, ReadOptions())


def test_another_database_is_named(tmp_path):
    """A database of something else is listed, not read."""
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE metrics (a, b)")
    connection.commit()
    connection.close()
    with pytest.raises(NoUsableRuns, match="not one of MLflow or trackio"):
        read_runs(tmp_path, ReadOptions(batch_size=1))


def test_views_and_virtual_tables_are_not_looked_into(tmp_path):
    """A view under the name of a table could compute without end; it counts as absent."""
    connection = sqlite3.connect(tmp_path / "m.db")
    connection.execute("CREATE TABLE runs (run_uuid TEXT)")
    connection.execute(
        "CREATE VIEW metrics AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n)"
        " SELECT key, key AS value, 'a' AS run_uuid, 0 AS timestamp FROM n"
    )
    connection.execute("INSERT INTO runs VALUES ('a')")
    connection.commit()
    connection.close()
    with pytest.raises(SourceError, match="not one of MLflow or trackio"):
        read_database(tmp_path / "m.db", ReadOptions())


def test_the_two_stores_of_one_run_agree(tmp_path):
    """Folder and database with the same metrics give the same rows."""
    points = [("val/acc", 0.1, 0), ("val/acc", 0.3, 10), ("train/reward", -1.5, 10)]
    texts = {"val/acc": "1 0.1 0\n2 0.3 10\n", "train/reward": "2 -1.5 10\n"}
    folder = log_of(tmp_path / "files", metrics=texts)
    metrics = [(key, value, at, "a1", step, 0) for at, (key, value, step) in enumerate(points)]
    database(tmp_path / "m.db", runs_and_metrics()[0][:1], metrics).close()
    (base,) = read_database(tmp_path / "m.db", ReadOptions())
    for key in ("val/acc", "train/reward"):
        step, other = folder.rows.values["step"].value, base.rows.values["step"].value
        one, two = folder.rows.values[key], base.rows.values[key]
        assert one.value.tolist() == two.value.tolist()
        assert step[one.at].tolist() == other[two.at].tolist()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_damaged_database_gives_a_log_or_a_refusal(data):
    """Whatever bytes of a database change, or where it ends, nothing but refusals is raised."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.db"
        database(path, *runs_and_metrics(), [("lr", "1", "a1")]).close()
        spoil = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(16, len(spoil) - 1), max_size=12)):
            spoil[at] = data.draw(st.integers(0, 255))
        path.write_bytes(spoil[: data.draw(st.integers(100, len(spoil)))])
        try:
            read_runs(folder, ReadOptions(batch_size=8))
        except NoUsableRuns as err:
            _one_line(err)


def _one_line(err):
    assert "\n" not in str(err)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80), st.binary(max_size=80), st.binary(max_size=40))
def test_any_run_folder_gives_a_log_or_a_refusal(meta, metric, param):
    """Whatever stands in the files of a run folder, nothing but refusals is raised."""
    files = run_folder(meta=f"run_id: x\n{meta}", metrics={"loss": metric}, params={"lr": param})
    with TemporaryDirectory() as folder:
        write(folder, files)
        try:
            read_runs(folder, ReadOptions(batch_size=8))
        except NoUsableRuns as err:
            _one_line(err)


def test_a_pipe_among_the_files_is_not_opened(tmp_path):
    """A pipe that nobody writes to would keep a reader waiting for ever."""
    folder = write(tmp_path, run_folder(params={"lr": "1e-6"}, meta="run_id: x\n"))
    (folder / RUN / "tags").mkdir()
    for name in ("tags/mlflow.runName", "metrics/loss", "params/seed"):
        os.mkfifo(folder / RUN / name)
    assert curve(read_runs(folder, ReadOptions(batch_size=1))) == [(0, 0.1), (10, 0.6)]


def test_many_runs_are_read_in_one_pass_without_an_index(tmp_path):
    """A database of an old version, which cannot find one run's metrics, is read in linear time."""
    path = tmp_path / "mlflow.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (run_uuid, name)")
    connection.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step)")
    connection.execute("CREATE TABLE params (key, value, run_uuid)")
    connection.execute("CREATE TABLE tags (key, value, run_uuid)")
    ids = [f"r{i:04d}" for i in range(1000)]
    connection.executemany("INSERT INTO runs VALUES (?, NULL)", [(run,) for run in ids])
    metrics = [("val/acc", i / 1000, s, run, s) for i, run in enumerate(ids) for s in range(50)]
    connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", metrics)
    connection.executemany("INSERT INTO params VALUES ('seed', ?, ?)", list(enumerate(ids)))
    tags = [(f"b64-{run}", run) for run in ids]
    connection.executemany("INSERT INTO tags VALUES ('mlflow.runName', ?, ?)", tags)
    connection.commit()
    connection.close()
    start = time.process_time()
    logs = read_database(path, ReadOptions())
    assert time.process_time() - start < 5
    assert [log.key for log in logs] == ids
    assert logs[7].name == "b64-r0007"
    assert logs[7].config == {"seed": 7}
    assert set(logs[7].rows.values["val/acc"].value.tolist()) == {0.007}


def test_runs_of_one_name_in_one_database_are_runs(tmp_path):
    """Seeds are often named alike; their ids tell them apart, also in a copy of the database."""
    files = {}
    for name in ("a.db", "copy/a.db"):
        path = tmp_path / "made.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE runs (run_uuid, name)")
            connection.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step)")
            connection.executemany("INSERT INTO runs VALUES (?, 'grpo')", [("r1",), ("r2",)])
            rows = [
                ("val/acc", (s + i) / 30 + 0.01, s, f"r{i}", s) for i in (1, 2) for s in range(9)
            ]
            connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
        connection.close()
        files[name] = path.read_bytes()
        path.unlink()
    runs = read(tmp_path / "logs", files, batch_size=8)
    assert len(runs.runs) == 2
    assert len(runs.evals) == 18
