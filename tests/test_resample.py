"""Bootstrap weights and deletions: what is drawn, and that nothing else decides it."""

import numpy as np
import pandas as pd
import pytest

from twoclock.errors import FitError
from twoclock.fit.resample import SeedWeights, deletions


def runs(counts: dict[int, int]) -> pd.DataFrame:
    """Return runs with so many seeds at each batch size."""
    rows = [(f"b{b}s{s}", b, s) for b, n in counts.items() for s in range(n)]
    return pd.DataFrame(rows, columns=["run_id", "batch_size", "seed"])


def draw(table, seed=0, draws=200, **options):
    """Draw weights with a generator of its own."""
    return SeedWeights.of(table, draws=draws, rng=np.random.default_rng(seed), **options)


def test_every_draw_keeps_the_runs_of_each_batch_size():
    """Stratified: no draw loses a batch size or changes its number of runs."""
    table = runs({64: 1, 128: 1, 256: 6})
    weights = draw(table)
    for size, count in {64: 1, 128: 1, 256: 6}.items():
        mine = table.loc[table["batch_size"] == size, "run_id"].tolist()
        assert (weights.columns_for(mine).sum(axis=1) == count).all()


def test_each_run_is_drawn_once_on_average():
    """Multiplicities have mean 1 and the variance 1 - 1/m of a multinomial."""
    table = runs({64: 5})
    matrix = draw(table, draws=20_000).columns_for(table["run_id"].tolist())
    np.testing.assert_allclose(matrix.mean(axis=0), 1.0, atol=0.03)
    np.testing.assert_allclose(matrix.var(axis=0), 0.8, atol=0.03)


def test_same_seed_same_bytes_and_other_seed_other_draws():
    """The draws depend on the seed alone."""
    table = runs({64: 3, 256: 3})
    one, two, other = draw(table), draw(table), draw(table, seed=1)
    assert one.matrix.tobytes() == two.matrix.tobytes()
    assert one.matrix.tobytes() != other.matrix.tobytes()


def test_order_of_rows_does_not_matter():
    """Runs are sorted before anything is drawn, so file order changes nothing."""
    table = runs({64: 3, 256: 4})
    shuffled = table.sample(frac=1.0, random_state=3)
    one, two = draw(table), draw(shuffled)
    assert one.run_ids == two.run_ids
    assert one.matrix.tobytes() == two.matrix.tobytes()


def test_runs_of_both_clocks_are_drawn_once():
    """A run that stands in several rows has one column, so that differences are paired."""
    table = runs({64: 3, 256: 3})
    both = pd.concat([table, table])
    assert draw(both).matrix.tobytes() == draw(table).matrix.tobytes()


def test_crossed_seeds_are_drawn_over_all_batch_sizes_at_once():
    """resample='seeds': runs that share a seed number always have the same weight."""
    table = runs({64: 4, 256: 4, 1024: 4})
    weights = draw(table, resample="seeds")
    for seed in range(4):
        columns = weights.columns_for([f"b{b}s{seed}" for b in (64, 256, 1024)])
        assert (columns == columns[:, :1]).all()
    assert (weights.matrix.sum(axis=1) == 12).all()


def test_crossed_seeds_need_seed_numbers():
    """resample='seeds' without seeds, or with one, is refused with the run's name."""
    table = runs({64: 2}).astype({"seed": "Int64"})
    with pytest.raises(FitError, match="every run has seed 0"):
        draw(table.assign(seed=0), resample="seeds")
    table.loc[1, "seed"] = pd.NA
    with pytest.raises(FitError, match="'b64s1' has none"):
        draw(table, resample="seeds")


def test_unknown_runs_are_refused():
    """Asking weights for a run that they were not drawn for is an error, not a zero."""
    with pytest.raises(FitError, match="'x'"):
        draw(runs({64: 2})).columns_for(["x"])


def test_deletions_leave_out_each_group_once():
    """One row a group, zero for its runs."""
    names, weights = deletions(np.array([256, 64, 64]))
    assert names == [64, 256]
    assert weights.tolist() == [[1, 0, 0], [0, 1, 1]]
