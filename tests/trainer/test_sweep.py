import time

import pytest

from tests.trainer.conftest import TINY, untimed
from twoclock.errors import SettingsError, TrainingError
from twoclock.trainer import TINY as PRESET
from twoclock.trainer import Grid, Study, SweepOptions, load_study, plan_sweep, run_sweep, train

GRID = """
[grid]
batch_sizes = [32, 64]
base_lrs = [1e-3, 3e-4]
seeds = [0, 1]
responses = [64, 128]

[train]
minibatches = 4
digits = 3
clip_low = "none"
base_lr_dummy = 1
"""


def written(tmp_path, text):
    """Write a study file."""
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def good(**changes):
    """Return the text of a sound sweep file with some lines replaced."""
    text = GRID.replace("base_lr_dummy = 1\n", "")
    for old, new in changes.items():
        text = text.replace({"lrs": "base_lrs = [1e-3, 3e-4]", "seeds": "seeds = [0, 1]"}[old], new)
    return text


def test_file_becomes_a_grid(tmp_path):
    """Lists become the grid, other settings are shared, "none" means no clip."""
    study = load_study(written(tmp_path, good()))
    members = [m for m in study.members if m.batch_size == 64]
    assert [(m.base_lr, m.seed, m.responses) for m in members] == [
        (1e-3, 0, 64), (1e-3, 1, 64), (3e-4, 0, 128), (3e-4, 1, 128)
    ]  # fmt: skip
    assert members[0].clip_low is None
    assert members[0].digits == 3
    assert study.total_responses == 2 * (2 * 64 + 2 * 128)


@pytest.mark.parametrize(
    ("text", "rows"),
    [("64", ((64, 64), (64, 64))), ("[64, 128]", ((64, 128),) * 2),
     ("[[1, 2], [3, 4]]", ((1, 2), (3, 4)))],
)  # fmt: skip
def test_lengths_are_given_once_per_rate_or_in_full(tmp_path, text, rows):
    """One number, a row, or a row for each batch size."""
    content = good().replace("responses = [64, 128]", f"responses = {text}")
    assert load_study(written(tmp_path, content)).grids[0].responses == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GRID, r"\[train\]: unknown key 'base_lr_dummy'"),
        ("[grid", "cannot be read as TOML"),
        ("grid = 3", r"grid must be a table"),
        ("[gird]", "unknown key 'gird'; known: grid, train, variant"),
        ("[grid]\nseeds = [0]", "key 'batch_sizes' is missing"),
        (good(lrs="base_lrs = 1e-3"), "base_lrs == 0.001, must be a list"),
        (good(lrs='base_lrs = ["a", "b"]'), "base_lrs == 'a', must be float"),
        (good(seeds="seeds = [0, 0]"), "different values"),
        (good(seeds="seeds = [true]"), "seeds == True, must be int"),
        (good().replace("[64, 128]", "[64]"), "one value per base_lr"),
        (good().replace("[64, 128]", "[]"), "one value per base_lr"),
        (good().replace("digits = 3", 'digits = "3"'), "digits == '3', must be int"),
        (good().replace('"none"', '"off"'), "clip_low == 'off', must be float or \"none\""),
        (good().replace("[32, 64]", "[20]"), "must be a multiple of group_size"),
    ],
)
def test_faulty_files_are_refused_in_one_line_with_the_path(tmp_path, text, message):
    """The error says which file, which key, what was got and what is the rule."""
    path = written(tmp_path, text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_study(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_file_is_a_settings_error(tmp_path):
    """A path that does not exist gives no traceback of the standard library."""
    with pytest.raises(SettingsError, match="cannot be read"):
        load_study(tmp_path / "none.toml")


def small_study(batch_sizes=(32, 64), seeds=(0, 1), responses=64, **changes):
    """Return a study of four runs of a second or so."""
    return Study(
        (
            Grid(
                batch_sizes=batch_sizes,
                base_lrs=(1e-3,),
                seeds=seeds,
                responses=((responses,),) * len(batch_sizes),
                shared={**TINY, "base_steps": 20, **changes},
            ),
        )
    )


class Stopped(Exception):
    """Stands for the end of a process."""


def stop(done, total, text):
    """Stop a training after its first rollout."""
    raise Stopped


ONE = SweepOptions(jobs=1)


def test_sweep_trains_the_grid_reports_progress_and_resumes(tmp_path):
    """Every run of the grid is written; a second call only reports the end."""
    study = small_study()
    seen = []
    folders = run_sweep(study, tmp_path, options=ONE, progress=lambda *a: seen.append(a[:2]))
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == sorted(f.name for f in folders)
    assert seen[-1] == (256, 256)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
    before = [untimed(f) for f in folders]
    again = []
    run_sweep(study, tmp_path, options=ONE, progress=lambda *a: again.append(a[:2]))
    assert set(again) == {(256, 256)}
    assert [untimed(f) for f in folders] == before


def test_variants_replace_settings_and_lists(tmp_path):
    """A variant has its own settings, rates and lengths, the rest is shared; names tell them."""
    text = (
        good()
        + """
[[variant]]
name = "k8"
epochs = 2
[[variant]]
name = "sgd"
optimizer = "sgd"
base_lrs = [0.1]
responses = 256
seeds = [5]
size = "large"
clip_low = 0.3
"""
    )
    members = load_study(written(tmp_path, text)).members
    k8, sgd = ([m for m in members if m.variant == name] for name in ("k8", "sgd"))
    assert len(k8) == 8
    assert [m.run_id for m in sgd] == ["B00032-lr0.1-s5-sgd", "B00064-lr0.1-s5-sgd"]
    assert {(m.minibatches, m.optimizer, m.clip_low, m.digits) for m in k8} == {
        (4, "adam", None, 3)
    }
    assert {(m.minibatches, m.responses, m.clip_low, m.width) for m in sgd} == {(4, 256, 0.3, 64)}


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ("[[variant]]\nepochs = 2", r"\[\[variant\]\] 1: name is missing"),
        ('[[variant]]\nname = "a"\n[[variant]]\nname = "a"', "2: name == 'a', must be a text of"),
        ('[[variant]]\nname = "A-b"', "variant 'A-b': variant == 'A-b', must have lower-case"),
        ('[[variant]]\nname = "a"\nseed = 3', "variant 'a': unknown key 'seed'"),
        ('[[variant]]\nname = "a"\nbase_lrs = [1e-3]', "variant 'a': responses has rows of"),
        ('[[variant]]\nname = "a"\nsize = "huge"', "variant 'a': size == 'huge', must be one"),
        ('[variant]\nname = "a"', r"variant must be an array of tables, \[\[variant\]\]"),
        ("variant = [1]", r"variant must be a table"),
    ],
)
def test_faulty_variants_are_refused_with_their_name(tmp_path, variants, message):
    """The error says which variant and what is wrong with it."""
    top, _, rest = good().partition("[grid]")
    text = f"{variants}\n[grid]{rest}" if "=" in variants[:10] else good() + variants
    with pytest.raises(SettingsError, match=message):
        load_study(written(tmp_path, top + text))


def test_plan_tells_states_and_shares_the_work(tmp_path):
    """Finished, begun and new runs are counted; crews are even, bounded, the longest first."""
    study = small_study(seeds=tuple(range(10)))
    run_sweep(small_study(seeds=(0, 1)), tmp_path, options=ONE)
    begun = [m for m in study.members if m.seed == 2]
    with pytest.raises(Stopped):
        train(begun[:1], tmp_path / "runs", cache=tmp_path / "bases", checkpoint_every=32,
              progress=stop)  # fmt: skip
    plan = plan_sweep(study, tmp_path, options=SweepOptions(jobs=2, crew_size=4))
    assert [(r.batch_size, r.finished, r.to_resume, r.new) for r in plan.rows] == [
        (32, 2, 1, 7), (64, 2, 0, 8)
    ]  # fmt: skip
    assert sorted(len(c.members) for c in plan.crews) == [1, 3, 4, 4, 4]
    assert [c.seconds for c in plan.crews] == sorted((c.seconds for c in plan.crews), reverse=True)
    assert {m.run_id for c in plan.crews for m in c.members} == {
        m.run_id for m in study.members if m.seed > 1
    }
    assert plan.bases == ()
    assert 0 < plan.seconds < 60


def test_few_crews_are_cut_so_that_no_process_is_idle(tmp_path):
    """Sixteen runs that would be one crew are shared by two processes."""
    study = small_study(batch_sizes=(32,), seeds=tuple(range(16)))
    one = plan_sweep(study, tmp_path, options=SweepOptions(jobs=1))
    two = plan_sweep(study, tmp_path, options=SweepOptions(jobs=2))
    assert [len(c.members) for c in one.crews] == [16]
    assert [len(c.members) for c in two.crews] == [8, 8]
    assert not (tmp_path / "runs").exists()


def test_estimate_is_of_the_size_of_the_time(tmp_path):
    """The time told beforehand is within a factor of three of the processor time that it takes."""
    study = small_study(seeds=tuple(range(8)), responses=2048)
    run_sweep(small_study(seeds=(8,)), tmp_path, options=ONE)  # the base policy
    plans = []
    start = time.process_time()
    run_sweep(study, tmp_path, options=ONE, show=plans.append)
    taken = time.process_time() - start
    assert plans[0].seconds / 3 < taken < plans[0].seconds * 3


def test_changed_study_is_refused_before_training_and_names_the_change(tmp_path):
    """Old and new value are named, nothing is touched; more seeds and sizes are no change."""
    folders = run_sweep(small_study(), tmp_path, options=ONE)
    before = [(f / "run.json").read_bytes() for f in folders]
    changed = small_study(noise=0.25, seeds=(0, 1, 2))
    with pytest.raises(TrainingError, match=r"noise was 0.3, is 0.25 \(4 of 6 runs\)"):
        run_sweep(changed, tmp_path, options=ONE)
    assert [(f / "run.json").read_bytes() for f in folders] == before
    assert len(list((tmp_path / "runs").iterdir())) == 4
    more = run_sweep(small_study(seeds=(0, 1, 2), batch_sizes=(32, 64, 128)), tmp_path, options=ONE)
    assert len(more) == 9


def test_a_crew_that_fails_lets_the_others_end(tmp_path):
    """The error says why, how many, what is there and how to go on; the next sweep goes on."""
    study = small_study()
    run_sweep(small_study(batch_sizes=(32,), seeds=(0,)), tmp_path, options=ONE)
    in_the_way = tmp_path / "runs" / f".{study.members[-1].run_id}.lock"
    in_the_way.mkdir()
    with pytest.raises(TrainingError, match=r"\(1 of 2 crews failed; 2 of 4 runs are finished"):
        run_sweep(study, tmp_path, options=ONE)
    in_the_way.rmdir()
    run_sweep(study, tmp_path, options=ONE)
    assert all((tmp_path / "runs" / m.run_id / "metrics.jsonl.gz").exists() for m in study.members)


def test_table_of_the_plan(tmp_path, run):
    """`--dry-run` shows variants, states and the time on stderr, and trains nothing."""
    path = written(tmp_path, good() + '[[variant]]\nname = "k4"\nseeds = [3, 4, 5, 9]\n')
    code, out, error = run("sweep", path, "--dry-run", "--jobs", 2)
    assert code == 0
    assert out == ""
    lines = error.splitlines()
    assert lines[0].split() == ["variant", "B", "K", "base", "lr", "seeds", "runs", "responses",
                                "state", "time"]  # fmt: skip
    assert lines[1].split()[:9] == ["k4", "32", "4", "0.001", "0.0003", "3-5", "9", "8", "768"]
    assert "16 runs, 1,536 responses; 16 to train in" in error
    assert not (tmp_path / "runs").exists()


def test_preset_for_end_to_end_tests_is_sound():
    """The shipped tiny study has three batch sizes and three seeds."""
    (grid,) = PRESET.grids
    assert len(grid.batch_sizes) == len(grid.seeds) == 3
    assert PRESET.total_responses < 50_000
