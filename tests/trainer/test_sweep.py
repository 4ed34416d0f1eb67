import pytest

from tests.trainer.conftest import TINY, untimed
from twoclock.errors import SettingsError
from twoclock.trainer import TINY as PRESET
from twoclock.trainer import Grid, Study, SweepOptions, load_study, run_sweep

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


def small_study(**changes):
    """Return a study of four runs of a second or so."""
    shared = {**TINY, "base_steps": 20}
    lists = {"batch_sizes": (32, 64), "base_lrs": (1e-3,), "seeds": (0, 1)} | changes
    responses = ((64,) * len(lists["base_lrs"]),) * len(lists["batch_sizes"])
    return Study((Grid(**lists, responses=responses, shared=shared),))


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


def test_preset_for_end_to_end_tests_is_sound():
    """The shipped tiny study has three batch sizes and three seeds."""
    (grid,) = PRESET.grids
    assert len(grid.batch_sizes) == len(grid.seeds) == 3
    assert PRESET.total_responses < 50_000
