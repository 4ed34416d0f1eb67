"""Strata: which runs share an exponent."""

import numpy as np
import pandas as pd
import pytest

from twoclock.errors import SettingsError
from twoclock.strata import stratify


def runs_table(**columns):
    """Make a runs table with numbered run_ids."""
    frame = pd.DataFrame(columns)
    frame.insert(0, "run_id", [f"r{i}" for i in range(len(frame))])
    return frame


def sizes(strata, runs):
    """Return the batch sizes of each stratum."""
    by_id = dict(zip(runs["run_id"], runs["batch_size"], strict=True))
    return [sorted(by_id[i] for i in s.run_ids) for s in strata.strata]


def test_runs_that_differ_in_a_crossed_column_make_two_strata():
    """A column with a value run at every B splits the runs, and is named as splitting."""
    runs = runs_table(batch_size=[64, 256, 64, 256], kl_coef=[0.0, 0.0, 0.1, 0.1])
    strata = stratify(runs)
    assert sizes(strata, runs) == [[64, 256], [64, 256]]
    assert strata.splits == ("kl_coef",)
    assert strata.strata[1].values == {"kl_coef": 0.1}


def test_missing_equals_missing():
    """Runs in which a column is missing share a stratum, apart from those that have it."""
    runs = runs_table(batch_size=[64, 256, 64, 256], kl_coef=[np.nan, np.nan, 0.1, 0.1])
    strata = stratify(runs)
    assert len(strata.strata) == 2
    assert "kl_coef" not in strata.strata[0].values


def test_a_column_that_changes_with_b_does_not_split_but_is_named():
    """Optimizer steps that grow with B leave one stratum and a confounded_with_B warning."""
    runs = runs_table(
        batch_size=[256, 512, 1024, 2048, 4096, 8192, 8192, 65536],
        optimizer_steps_per_rollout=[1, 1, 1, 1, 2, 4, 1, 32],
    )
    strata = stratify(runs)
    assert len(strata.strata) == 1
    (note,) = strata.notes
    assert note.code == "confounded_with_B"
    assert "B=8192: 1/4" in note.message


def test_two_columns_that_both_change_with_b_are_both_named():
    """Confounding is judged column by column, so one does not hide the other."""
    runs = runs_table(
        batch_size=[64, 256, 1024] * 2,
        warmup_responses=[640.0, 2560.0, 10240.0] * 2,
        optimizer_steps_per_rollout=[1, 4, 16] * 2,
    )
    strata = stratify(runs)
    assert len(strata.strata) == 1
    assert {n.message.split()[0] for n in strata.notes} == {
        "warmup_responses",
        "optimizer_steps_per_rollout",
    }


def test_base_lr_splits_even_where_the_grids_do_not_overlap():
    """Each base learning rate keeps its own exponent although its batch sizes are its own."""
    runs = runs_table(batch_size=[64, 128, 256, 512, 1024, 2048], base_lr=[1e-6] * 3 + [3e-6] * 3)
    assert sizes(stratify(runs), runs) == [[64, 128, 256], [512, 1024, 2048]]


def test_two_models_are_never_one_stratum():
    """Identity columns split although they change with B."""
    runs = runs_table(batch_size=[64, 256], model=["small", "large"])
    assert len(stratify(runs).strata) == 2


def test_by_adds_and_pool_removes_a_column():
    """--by splits whatever B does; --pool merges."""
    runs = runs_table(batch_size=[64, 256], minibatches=[1, 4], base_lr=[1e-6, 2e-6])
    assert len(stratify(runs, by=["minibatches"], pool=["base_lr"]).strata) == 2
    assert len(stratify(runs, pool=["base_lr"]).strata) == 1


@pytest.mark.parametrize("option", [{"by": ["nope"]}, {"pool": ["nope"]}])
def test_an_unknown_column_is_one_clear_line(option):
    """--by and --pool name the unknown column and the known ones."""
    with pytest.raises(SettingsError, match="nope: no such column; known"):
        stratify(runs_table(batch_size=[64]), **option)


def test_order_of_rows_does_not_matter():
    """Strata and their run lists are the same for any order of the input."""
    runs = runs_table(batch_size=[64, 256, 64, 256], base_lr=[1e-6, 1e-6, 1e-5, 1e-5])
    assert stratify(runs) == stratify(runs.iloc[::-1].reset_index(drop=True))
