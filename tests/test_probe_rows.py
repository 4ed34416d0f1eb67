"""Probes travel from the writer to `Runs.probes` as they are."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from twoclock import schema
from twoclock.errors import LogFormatError
from twoclock.log_schema import json_schema
from twoclock.overview import run_rows
from twoclock.reading import ReadOptions
from twoclock.report.listing import run_list
from twoclock.runlog import create_run
from twoclock.runs import read_runs

RUN = {"batch_size": 64, "seed": 0, "lr": 1e-4, "group_size": 8}
NUMBERS = [c.name for c in schema.PROBES.columns if c.kind != "str" and c.name != "rollout"]


def probe(rollout, **changes):
    """Return a probe row in which every column has a value of its own."""
    row = {name: i + rollout / 7 for i, name in enumerate(NUMBERS)}
    for name in ("heldout_responses", "parts", "twins"):
        row[name] = round(row[name])
    return {**row, "rollout": rollout, "responses": 64 * rollout, **changes}


def write(folder, items, name="a", **run):
    """Write a native run of ("train" | "eval" | "probe", row) items."""
    with create_run(folder / name, {**RUN, **run}) as log:
        for kind, row in items:
            getattr(log, kind)(row)
        log.finish("completed")
    return folder


def train(rollout, reward=0.5):
    return "train", {"rollout": rollout, "responses": 64 * rollout, "reward": reward}


def test_every_column_comes_back_exactly(tmp_path):
    """What was written stands in `Runs.probes`, in the schema's types, bit for bit."""
    rows = [probe(1), probe(3)]
    items = [train(1), ("probe", rows[0]), train(2), train(3), ("probe", rows[1])]
    found = read_runs(write(tmp_path, items))
    assert list(found.probes.columns) == list(schema.PROBES.names)
    for name in schema.PROBES.names:
        if name not in ("run_id", "nonfinite"):
            assert found.probes[name].tolist() == [row[name] for row in rows]
    assert found.probes["run_id"].tolist() == ["a", "a"]
    assert found.probes["nonfinite"].isna().all()
    pd.testing.assert_frame_equal(found.probes, schema.conform(found.probes, schema.PROBES))


def test_probes_change_no_other_table(tmp_path):
    """Steps, evals and the row of the run are those of the same log without its probes."""
    plain = [
        ("eval", {"rollout": 0, "responses": 0, "accuracy": 0.1, "n": 50}),
        *[train(i, i / 10) for i in range(1, 5)],
        ("eval", {"rollout": 4, "responses": 256, "accuracy": 0.4, "n": 50}),
    ]
    with_probes = [*plain[:2], ("probe", probe(1)), *plain[2:], ("probe", probe(4))]
    one = read_runs(write(tmp_path / "x", plain))
    two = read_runs(write(tmp_path / "y", with_probes))
    pd.testing.assert_frame_equal(one.steps, two.steps)
    pd.testing.assert_frame_equal(one.evals, two.evals)
    drop = ["source"]
    pd.testing.assert_frame_equal(one.runs.drop(columns=drop), two.runs.drop(columns=drop))
    assert one.notes == two.notes == ()


def test_old_logs_have_an_empty_table(tmp_path):
    """A log without probes gives a table of no rows with all columns."""
    found = read_runs(write(tmp_path, [train(1), train(2)]))
    pd.testing.assert_frame_equal(found.probes, schema.empty(schema.PROBES))
    assert "probes" not in run_rows(found)


def test_a_resumed_run_drops_the_probes_of_the_abandoned_branch(tmp_path):
    """As for steps: what a later segment writes again counts, what it has not reached is gone."""
    first = [train(1), ("probe", probe(1)), train(2), ("probe", probe(2)), train(3), train(4)]
    first += [("probe", probe(4))]
    second = [train(2), ("probe", probe(2, slope=99.0)), train(3)]
    found = read_runs(write(tmp_path, first + second))
    assert found.probes["rollout"].tolist() == [1, 2]
    assert found.probes["slope"].tolist() == [probe(1)["slope"], 99.0]
    assert found.steps["rollout"].tolist() == [1, 2, 3]


def test_the_last_of_repeated_probes_counts(tmp_path):
    """A probe that was logged twice is the later one, whatever --duplicates says of steps."""
    items = [train(1), ("probe", probe(1)), ("probe", probe(1, slope=7.0))]
    found = read_runs(write(tmp_path, items), ReadOptions(duplicates="mean"))
    assert found.probes["slope"].tolist() == [7.0]


def test_values_that_are_not_finite_are_named_and_absent_ones_missing(tmp_path):
    """NaN is missing and named in `nonfinite`; a column that was not logged is only missing."""
    row = probe(1, slope=math.nan, curvature=math.inf)
    del row["noise_share"]
    found = read_runs(write(tmp_path, [train(1), ("probe", row), train(2)])).probes.iloc[0]
    assert found["nonfinite"] == "slope,curvature"
    assert np.isnan(found[["slope", "curvature", "noise_share"]].astype(float)).all()
    assert found["alignment"] == row["alignment"]


def test_probes_of_several_runs_are_told_apart_counted_and_selected(tmp_path):
    """Each row carries its run; the list of runs counts them; `select` takes those of a run."""
    write(tmp_path, [train(1), ("probe", probe(1))], "a", run_id="a")
    write(tmp_path, [train(1, 0.7), train(2, 0.8)], "b", seed=1)
    write(tmp_path, [train(1), ("probe", probe(1)), train(2), ("probe", probe(2))], "c", seed=2)
    found = read_runs(tmp_path)
    assert found.probes["run_id"].tolist() == ["a", "c", "c"]
    rows = run_rows(found)
    assert rows["probes"].isna().tolist() == [False, True, False]
    assert rows["probes"].dropna().tolist() == [1, 2]
    assert "probes" in [column.header for column in run_list(rows).renderables[0].columns]
    assert found.select(["c"]).probes["rollout"].tolist() == [1, 2]


def test_tables_in_parquet_keep_their_probes(tmp_path):
    """A probes.parquet beside runs, steps and evals is read with them."""
    found = read_runs(write(tmp_path / "x", [train(1), ("probe", probe(1)), train(2)]))
    (tmp_path / "y").mkdir()
    for name in ("runs", "steps", "evals", "probes"):
        getattr(found, name).to_parquet(tmp_path / "y" / f"{name}.parquet")
    again = read_runs(tmp_path / "y")
    pd.testing.assert_frame_equal(again.probes, found.probes)
    assert str(tmp_path / "y" / "probes.parquet") in {file.path for file in again.files}


def test_probe_rows_follow_the_json_schema(tmp_path):
    """A full probe row validates against the schema of the format."""
    jsonschema = pytest.importorskip("jsonschema")
    write(tmp_path, [train(1), ("probe", probe(1, slope=math.nan))])
    line = (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[1]
    jsonschema.validate(json.loads(line), json_schema())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rollout": 1, "responses": 64, "slop": 1.0}, "unknown column 'slop'"),
        ({"responses": 64, "slope": 1.0}, "no 'rollout'"),
    ],
)
def test_misspelt_or_incomplete_probes_are_refused(tmp_path, row, message):
    """A wrong column is an error at writing."""
    with create_run(tmp_path / "a", RUN) as log, pytest.raises(LogFormatError, match=message):
        log.probe(row)


def test_every_measured_column_has_its_standard_error():
    """NAME_se stands right behind NAME, in the same unit, for all estimates."""
    names = schema.PROBES.names
    errors = [name for name in names if name.endswith("_se")]
    assert len(errors) == 18
    for name in errors:
        measured = name.removesuffix("_se")
        assert names[names.index(name) - 1] == measured
        assert schema.PROBES[name].unit == schema.PROBES[measured].unit
