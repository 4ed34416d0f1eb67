"""Home-made trainers: names in capitals or several words, steps within an epoch."""

import pytest

from tests.reading import curve, read
from twoclock.sources.console.plain import read_pairs

HEADER = "Step,Loss,Reward,GradNorm,Val Acc\n"


def test_capitals_and_words_are_the_names_they_mean(tmp_path):
    """`Reward`, `GradNorm` and `Val Acc` are read as `reward`, `grad_norm` and `val_acc`."""
    runs = read(tmp_path, {"a.csv": f"{HEADER}1,.5,.1,1.5,\n2,.4,.2,1.6,.3\n"}, batch_size=8)
    assert runs.steps["reward"].tolist() == [0.1, 0.2]
    assert runs.steps["grad_norm"].tolist() == [1.5, 1.6]
    assert curve(runs) == [(16, 0.3)]


@pytest.mark.parametrize("named", ["Val Acc", "val_acc"])
def test_both_spellings_can_be_mapped(tmp_path, named):
    """A user names a key as it stands in the file, or as it is listed."""
    files = {"a.csv": f"{HEADER}1,.5,.1,1.5,.2\n2,.4,.2,1.6,.3\n"}
    runs = read(tmp_path, files, batch_size=8, map={"accuracy": (named,)})
    assert curve(runs) == [(8, 0.2), (16, 0.3)]


def test_a_name_that_stands_so_already_is_kept(tmp_path):
    """Where a file has both spellings, each keeps its own values."""
    files = {"a.csv": "step,reward,Reward\n1,.1,9\n2,.2,9\n"}
    assert read(tmp_path, files, batch_size=8).steps["reward"].tolist() == [0.1, 0.2]


def test_steps_within_an_epoch_count_on(tmp_path):
    """`Epoch:[2/2](1/3)` is the fourth step, and names of several words are keys."""
    lines = [
        f"Epoch:[{e}/2]({s}/3), Reward: -{e}.{s}, Actor Loss: 0.5, Avg Response Len: 20.{s}, "
        "Learning Rate: 0.00000030"
        for e in (1, 2)
        for s in (1, 2, 3)
    ]
    text = "loading\n" + "\n[DEBUG] gen[0] reward=-1.3\n".join(lines) + "\n"
    runs = read(tmp_path, {"grpo.log": text}, batch_size=8)
    assert runs.steps["responses"].tolist() == [8, 16, 24, 32, 40, 48]
    assert runs.steps["reward"].tolist() == [-1.1, -1.2, -1.3, -2.1, -2.2, -2.3]
    assert runs.runs["lr"].tolist() == [3e-7]


@pytest.mark.parametrize(
    "text",
    [
        "Epoch:[1/1](2/9)", "Epoch:[1/1](2/9), and so on", "Epoch:[a/1](2/9), x: 1",
        "step 3 of the recipe: bake 20 minutes", "step 3 a: 1, a: 2",
    ],
)  # fmt: skip
def test_prose_with_a_step_in_it_is_no_row(text):
    """A line counts only when it is a step and pairs from one end to the other."""
    assert read_pairs(text) is None
