import json

import pytest

from tests.trainer.conftest import TIMES, tiny, untimed
from twoclock.errors import LogFormatError, TrainingError
from twoclock.schema import EVALS, RUNS, STEPS
from twoclock.trainer.crew import Crew
from twoclock.trainer.loop import train


class Killed(Exception):
    """Stands for a kill signal."""


def stop_at(responses):
    """Return a progress callable that kills the training once so many responses are done."""

    def progress(done, total, text):
        if done >= responses:
            raise Killed

    return progress


def test_rows_have_the_schema_columns_and_cover_the_run(tmp_path, cache):
    """Every rollout has a full train row, validations come at 0 and as often as asked."""
    (folder,) = train([tiny()], tmp_path, cache=cache)
    rows = untimed(folder)
    train_rows = [r for r in rows if r["kind"] == "train"]
    evals = [r for r in rows if r["kind"] == "eval"]
    assert [r["rollout"] for r in train_rows] == list(range(1, 9))
    assert [r["responses"] for r in evals] == [0, 64, 128, 192, 256]
    wanted = set(STEPS.names) - {"run_id", "kl_ref", "nonfinite", *TIMES}
    assert wanted == set(train_rows[0]) - {"kind"}
    assert set(evals[0]) - {"kind"} <= set(EVALS.names)
    assert train_rows[-1]["optimizer_step"] == 8 * 4
    assert train_rows[-1]["tokens"] == 256 * 3
    assert all(0 <= r["accuracy"] <= 1 and r["n"] == 100 for r in evals)


def test_run_header_has_schema_columns_and_says_no_clip(tmp_path, cache):
    """run.json has the runs table's columns, options without one, null for no clip, the end."""
    settings = tiny(clip_low=None, clip_high=None)
    (folder,) = train([settings], tmp_path, cache=cache)
    run = json.loads((folder / "run.json").read_text())
    others = {"format", "settings", "reference_batch", "variant"}
    assert set(run) - set(RUNS.names) == others
    assert run["clip_low"] is None
    assert run["clip_active"] == "no"
    assert run["ended"] == "completed"
    assert run["optimizer_steps_per_rollout"] == 4
    assert run["lr"] == settings.lr


def test_same_seed_same_rows_other_seed_differs(tmp_path, cache):
    """Apart from wall times a run is decided by its seed."""
    for name in "ab":
        train([tiny(seed=0), tiny(seed=1)], tmp_path / name, cache=cache)
    ids = [tiny(seed=s).run_id for s in (0, 1)]
    assert untimed(tmp_path / "a" / ids[0]) == untimed(tmp_path / "b" / ids[0])
    assert untimed(tmp_path / "a" / ids[0]) != untimed(tmp_path / "a" / ids[1])


@pytest.mark.parametrize("killed_at", [32 * 2, 32 * 2 * 4, 32 * 2 * 4 + 32])
def test_kill_and_resume_gives_the_uninterrupted_rows(tmp_path, cache, killed_at):
    """Killed before, at or after a checkpoint and after one run's end, the log is the same."""
    members = [tiny(seed=0, responses=128), tiny(seed=1)]
    train(members, tmp_path / "whole", cache=cache)
    with pytest.raises(Killed):
        train(members, tmp_path / "cut", progress=stop_at(killed_at), cache=cache,
              checkpoint_every=96)  # fmt: skip
    folders = train(members, tmp_path / "cut", cache=cache)
    for folder in folders:
        assert untimed(folder) == untimed(tmp_path / "whole" / folder.name)
    assert not list(tmp_path.rglob("*.pt"))


def test_finished_runs_are_left_alone(tmp_path, cache):
    """Asking again trains nothing; adding a seed trains that seed only."""
    (folder,) = train([tiny()], tmp_path, cache=cache)
    stamp = (folder / "run.json").stat().st_mtime_ns
    seen = []
    train([tiny(), tiny(seed=1)], tmp_path, cache=cache, progress=lambda *a: seen.append(a))
    assert (folder / "run.json").stat().st_mtime_ns == stamp
    assert [done for done, _, _ in seen] == list(range(256 + 32, 512 + 1, 32))
    assert {total for _, total, _ in seen} == {512}


def test_another_run_of_that_name_is_never_mixed_in(tmp_path, cache):
    """A folder with other settings, or any folder without resume, is refused."""
    train([tiny()], tmp_path, cache=cache)
    with pytest.raises(TrainingError, match="other settings"):
        train([tiny(warmup_responses=64)], tmp_path, cache=cache)
    with pytest.raises(LogFormatError, match="exists"):
        train([tiny()], tmp_path, cache=cache, resume=False)


def test_damaged_checkpoint_is_named(tmp_path, cache):
    """A checkpoint that cannot be read is an error with its path, not a silent restart."""
    with pytest.raises(Killed):
        train([tiny()], tmp_path, progress=stop_at(128), cache=cache, checkpoint_every=32)
    (point,) = tmp_path.rglob("checkpoint.pt")
    point.write_bytes(b"broken")
    with pytest.raises(TrainingError, match="damaged checkpoint"):
        train([tiny()], tmp_path)


def test_a_run_that_is_not_finite_any_more_is_logged_and_stopped(tmp_path, cache, monkeypatch):
    """Its rows name the non-finite columns, it ends as stopped, and others complete."""
    real = Crew.advance

    def advance(crew):
        if crew.rollout == 2:
            crew.theta[0] = float("nan")
        return real(crew)

    monkeypatch.setattr(Crew, "advance", advance)
    bad, good = train([tiny(seed=0), tiny(seed=1)], tmp_path, cache=cache)
    ends = [json.loads((f / "run.json").read_text())["ended"] for f in (bad, good)]
    assert ends == ["stopped", "completed"]
    rows = [r for r in untimed(bad) if r["kind"] == "train"]
    assert [r["rollout"] for r in rows if "nonfinite" in r] == [3, 4, 5]
    assert rows[-1]["loss"] is None
    assert "loss" in rows[-1]["nonfinite"]


def test_learning_really_happens(tmp_path, cache):
    """A tiny run lifts held-out accuracy by more than five binomial standard errors."""
    settings = tiny(batch_size=64, base_lr=2e-3, responses=4096, eval_size=400, eval_every=4096)
    (folder,) = train([settings], tmp_path, cache=cache)
    first, last = (r["accuracy"] for r in untimed(folder) if r["kind"] == "eval")
    assert last - first > 5 * (2 * 0.25 / 400) ** 0.5


def test_a_run_is_the_same_in_every_crew(tmp_path, cache):
    """Alone, in pairs or with all, a run has the same rows, also when crewmates end before it."""
    members = [
        tiny(seed=s, base_lr=lr, responses=n, eval_every=96)
        for s, lr, n in ((0, 1e-3, 256), (1, 1e-3, 160), (2, 3e-4, 224), (3, 3e-3, 32))
    ]
    for size in (1, 2, 3, 4):
        for first in range(0, len(members), size):
            train(members[first : first + size], tmp_path / f"{size}", cache=cache)
    for m in members:
        rows = [untimed(tmp_path / f"{size}" / m.run_id) for size in (1, 2, 3, 4)]
        assert all(other == rows[0] for other in rows)
