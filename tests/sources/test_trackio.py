"""trackio databases: the newest, the one without run ids, the oldest of all projects in one."""

import json
import math
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import curve
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.sources.tracker_db import read_database

METRICS = {
    "newest": "run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT",
    "by_name": "timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT",
    "oldest": "timestamp TEXT, project_name TEXT, run_name TEXT, step INTEGER, metrics TEXT",
}
CONFIGS = {
    "newest": "run_id TEXT UNIQUE, run_name TEXT, config TEXT, created_at TEXT",
    "by_name": "run_name TEXT UNIQUE, config TEXT, created_at TEXT",
}
TIME = "2026-01-01T00:00:0{}+00:00"


def project(path, rows, configs=(), version="newest"):
    """Write a database; rows and configurations are mappings of columns."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"CREATE TABLE metrics (id INTEGER PRIMARY KEY, {METRICS[version]})")
    if version in CONFIGS:
        connection.execute(f"CREATE TABLE configs (id INTEGER PRIMARY KEY, {CONFIGS[version]})")
    for table, entries in (("metrics", rows), ("configs", configs)):
        for entry in entries:
            marks = ", ".join("?" * len(entry))
            names = ", ".join(entry)
            values = tuple(entry.values())
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
    connection.commit()
    connection.close()
    return path


def row(step, metrics, run_id="i1", name="r", **more):
    """Return a row of the newest version."""
    text = metrics if isinstance(metrics, str | bytes) else json.dumps(metrics)
    time = TIME.format(step % 10)
    return {"run_id": run_id, "run_name": name, "timestamp": time, "step": step,
            "metrics": text} | more  # fmt: skip


def without_id(entry, **more):
    """Return a row of an older version."""
    return {key: value for key, value in entry.items() if key != "run_id"} | more


def logs_of(folder, *arguments, **options):
    """Write a database and read it."""
    path = project(Path(folder) / "p.db", *arguments, **options)
    return read_database(path, ReadOptions(map={"loss": ("odd", "val.acc")}))


def test_runs_are_told_apart_by_their_id(tmp_path):
    """Two runs of one name are two logs, each with its own key, rows and configuration."""
    rows = [row(0, {"val/acc": 0.1}), row(0, {"val/acc": 0.5}, "i2"), row(1, {"val/acc": 0.2})]
    configs = [{"run_id": "i1", "run_name": "r", "config": '{"lr": 1e-6, "_Created": "x"}'},
               {"run_id": "i2", "run_name": "r", "config": b'{"lr": 2e-6}'}]  # fmt: skip
    one, two = logs_of(tmp_path, rows, configs)
    assert [(log.name, log.key) for log in (one, two)] == [("r", "i1"), ("r", "i2")]
    assert (one.config, two.config) == ({"lr": 1e-6}, {"lr": 2e-6})
    assert one.rows.values["val/acc"].value.tolist() == [0.1, 0.2]
    assert one.rows.values["step"].value.tolist() == [0, 1]
    assert one.started == 1_767_225_600


def test_older_versions_tell_runs_apart_by_name(tmp_path):
    """Without ids the name is what a run is known by; no key is made up."""
    rows = [without_id(row(0, {"val/acc": 0.1})), without_id(row(0, {"val/acc": 0.5}, name="s"))]
    one, two = logs_of(tmp_path, rows, [{"run_name": "r", "config": '{"seed": 3}'}],
                       version="by_name")  # fmt: skip
    assert [(log.name, log.key, log.config) for log in (one, two)] == [
        ("r", "", {"seed": 3}),
        ("s", "", {}),
    ]


def test_the_oldest_version_holds_several_projects(tmp_path):
    """The same name in two projects is two runs."""
    rows = [without_id(row(0, {"val/acc": v}), project_name=p) for p, v in (("a", 0.1), ("b", 0.2))]
    logs = logs_of(tmp_path, rows, version="oldest")
    assert [log.rows.values["val/acc"].value.tolist() for log in logs] == [[0.1], [0.2]]


def test_values_are_what_was_logged(tmp_path):
    """NaN and infinities are texts, nested metrics are joined by dots, bytes are read as text."""
    odd = ["NaN", "Infinity", "-Infinity", 1e-300, -2, None]
    rows = [row(s, {"odd": value}) for s, value in enumerate(odd)]
    rows += [row(6, b'{"val": {"acc": 0.5}, "val/x@y": 1, "media": {"_type": "image", "w": 3}}')]
    (log,) = logs_of(tmp_path, rows)
    got = log.rows.values["odd"].value.tolist()
    expected = [math.nan, math.inf, -math.inf, 1e-300, -2.0, math.nan]
    assert [str(v) for v in got] == [str(v) for v in expected]
    assert log.rows.values["val.acc"].value.tolist() == [0.5]
    assert log.rows.values["val/x@y"].at.tolist() == [6]
    assert "media.w" not in log.rows.names


def test_a_step_among_the_metrics_goes_first(tmp_path):
    """A trainer that logs its own step means that one."""
    (log,) = logs_of(tmp_path, [row(0, {"step": 5, "loss": 1.0}), row(1, {"loss": 1.0})])
    assert log.rows.values["step"].value.tolist() == [5, 1]


def test_rows_that_are_no_objects_are_counted(tmp_path):
    """Damaged or endless JSON is left out with one note."""
    rows = [row(0, {"loss": 1.0}), row(1, "[1]"), row(2, "{"), row(3, '{"a":' * 9000)]
    (log,) = logs_of(tmp_path, rows)
    assert [(n.code, n.count) for n in log.notes] == [("bad_lines", 3)]


def test_a_text_above_the_limit_ends_the_reading_by_name(tmp_path, monkeypatch):
    """A cell of any size takes no more memory than the limit."""
    monkeypatch.setattr("twoclock.sources.databases.CELL_LIMIT", 1 << 16)
    rows = [row(0, {"loss": 1.0}), row(1, {"loss": 1.0, "x": "y" * (1 << 17)})]
    with pytest.raises(SourceError, match="cannot be read"):
        logs_of(tmp_path, rows)


def test_an_empty_project_says_so(tmp_path):
    """A project without rows is no data (yet)."""
    with pytest.raises(SourceError, match="no run has metrics"):
        logs_of(tmp_path, [])


def test_a_project_is_read_from_its_folder(tmp_path):
    """The database is found beside its lock, and its run is named."""
    rows = [row(s, {"val/acc": s / 10}, name="b64-s0") for s in range(3)]
    project(tmp_path / "grpo.db", rows)
    (tmp_path / "grpo.lock").touch()
    runs = read_runs(tmp_path, ReadOptions(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["b64-s0"]
    assert curve(runs) == [(0, 0.0), (8, 0.1), (16, 0.2)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.text(max_size=60), max_size=5), st.text(max_size=30))
def test_any_cells_give_logs_or_a_refusal(cells, config):
    """Whatever stands in the cells, nothing but refusals is raised."""
    with TemporaryDirectory() as folder:
        rows = [row(0, {"loss": 1.0}), *({**row(1, b""), "metrics": cell} for cell in cells)]
        project(Path(folder) / "p.db", rows, [{"run_id": "i1", "run_name": "r", "config": config}])
        try:
            read_runs(folder, ReadOptions(batch_size=8))
        except NoUsableRuns as err:
            _one_line(err)


def _one_line(err):
    assert "\n" not in str(err)
