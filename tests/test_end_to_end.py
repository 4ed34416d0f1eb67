"""The whole path: train tiny runs, read their logs, fit both clocks, write the report."""

import json

import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Train the tiny sweep: nine runs at three batch sizes."""
    from twoclock.trainer import TINY, run_sweep

    out = tmp_path_factory.mktemp("sweep")
    run_sweep(TINY, out)
    return out


@pytest.mark.trainer
def test_trained_runs_are_read_back_as_they_were_set_up(sweep, run):
    """Every run comes back with the batch size, seed, K and responses that it was trained with."""
    rows = json.loads(run("runs", sweep, "--json")[1])
    assert sorted((r["batch_size"], r["seed"]) for r in rows) == [
        (b, s) for b in (64, 128, 256) for s in (0, 1, 2)
    ]
    assert {(r["framework"], r["optimizer_steps_per_rollout"], r["responses"], r["ended"])
            for r in rows} == {("twoclock", 8, 4096, "completed")}  # fmt: skip
    assert {r["rollouts"] for r in rows} == {64, 32, 16}


@pytest.mark.trainer
def test_the_tiny_sweep_is_fitted_and_reported(sweep, tmp_path, run):
    """Both clocks get an answer or a reason, and tables and figures are written."""
    out = tmp_path / "report"
    call = ("fit", sweep, "--out", out, "--json", "--draws", 500, "--include-clipped")
    found = json.loads(run(*call)[1])
    (learning,) = found["learning"]
    assert learning["n_runs"] == 9
    assert learning["status"] in ("converged", "bound", "not_identified")
    assert any(learning[f"n_{kind}"] for kind in ("interval", "left", "exact"))
    (failure,) = found["failure"]
    assert failure["status"] in ("converged", "bound", "not_identified")
    written = {path.suffix for path in out.rglob("*") if path.is_file()}
    assert {".csv", ".parquet", ".md", ".tex", ".png", ".svg", ".pdf", ".toml", ".json"} <= written
