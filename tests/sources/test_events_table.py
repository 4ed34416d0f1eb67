"""Events tables: crossings measured elsewhere."""

import math

import pandas as pd
import pytest

from tests.reading import write
from twoclock.errors import SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_events, read_runs
from twoclock.schema import EVENTS


def events(folder, text, **options):
    """Write a table and read it as events."""
    return read_events(write(folder, {"events.csv": text}) / "events.csv", ReadOptions(**options))


def bounds(table):
    """Return [(lower, upper, censoring)]."""
    frame = table.events
    return list(zip(frame["lower"], frame["upper"], frame["censoring"], strict=True))


def test_every_kind_of_censoring(tmp_path):
    """Equal bounds are exact, 0 or no lower bound is left-, no upper bound right-censored."""
    text = (
        "batch_size,seed,lower,upper\n64,0,100,200\n64,1,150,150\n128,0,0,300\n128,1,,300\n"
        "256,0,400,\n256,1,400,inf\n"
    )
    table = events(tmp_path, text)
    assert bounds(table) == [
        (100, 200, "interval"), (150, 150, "exact"), (0, 300, "left"), (0, 300, "left"),
        (400, math.inf, "right"), (400, math.inf, "right"),
    ]  # fmt: skip
    assert table.events["run_id"].tolist() == [f"row{i}" for i in range(1, 7)]
    assert table.events["clock"].unique().tolist() == ["learning"]
    assert table.events.columns.tolist()[: len(EVENTS.names)] == list(EVENTS.names)
    assert len(table.files[0].sha256) == 64


def test_exact_responses(tmp_path):
    """A `responses` column means exact crossings; it does not stay as a column."""
    table = events(tmp_path, "run,batch_size,responses,clock\na,64,1000,failure\nb,128,2e3,\n")
    assert bounds(table) == [(1000, 1000, "exact"), (2000, 2000, "exact")]
    assert table.events["run_id"].tolist() == ["a", "b"]
    assert table.events["clock"].tolist() == ["failure", "learning"]
    assert "responses" not in table.events.columns


def test_columns_of_other_names_are_mapped(tmp_path):
    """A foreign table: only first evaluations known, so every crossing is left-censored."""
    text = "global_batch_size,rng_seed,first_eval_samples,note\n512,1,5120,x\n1024,2,5120,y\n"
    names = {
        "batch_size": ("global_batch_size",),
        "upper": ("first_eval_samples",),
        "seed": ("rng_seed",),
    }
    assert events(tmp_path, text) is None
    table = events(tmp_path, text, map=names)
    assert bounds(table) == [(0, 5120, "left"), (0, 5120, "left")]
    assert table.events["seed"].tolist() == [1, 2]
    (ignored,) = [n for n in table.notes if n.code == "ignored_columns"]
    assert ignored.message.startswith("columns that make no strata: note (")
    assert table.events["note"].tolist() == ["x", "y"]


def test_a_censoring_column_says_what_responses_is(tmp_path):
    """Right: not yet at that count; left: already there; exact or blank: the event itself."""
    text = (
        "batch_size,responses,censoring\n64,100000,right\n64,500,left\n64,700,exact\n64,800,\n"
        "128,900, Right \n"
    )
    table = events(tmp_path, text)
    assert bounds(table) == [
        (100000, math.inf, "right"), (0, 500, "left"), (700, 700, "exact"), (800, 800, "exact"),
        (900, math.inf, "right"),
    ]  # fmt: skip
    assert not table.refused


def test_first_evaluations_that_say_so_are_left_censored_under_responses_too(tmp_path):
    """The published kind of table: a stated censoring goes before the word responses."""
    text = "global_batch_size,first_eval_samples,censoring\n512,5120,left\n1024,7168,left\n"
    names = {"batch_size": ("global_batch_size",), "responses": ("first_eval_samples",)}
    assert bounds(events(tmp_path, text, map=names)) == [(0, 5120, "left"), (0, 7168, "left")]


def test_a_censoring_that_agrees_with_the_bounds_changes_nothing(tmp_path):
    """Bounds may be given with their name, and beside responses that repeat one of them."""
    text = (
        "batch_size,lower,upper,responses,censoring\n64,100,200,,interval\n64,0,200,,interval\n"
        "64,0,200,,left\n64,100,,,right\n64,100,,100,right\n64,150,150,,exact\n64,,90,90,left\n"
    )
    assert bounds(events(tmp_path, text)) == [
        (100, 200, "interval"), (0, 200, "left"), (0, 200, "left"), (100, math.inf, "right"),
        (100, math.inf, "right"), (150, 150, "exact"), (0, 90, "left"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("64,,,500,interval", "censoring is interval but there is only responses; interval needs"),
        ("64,,,500,before_start", "censoring is before_start but there is only responses"),
        ("64,,,500,maybe", "censoring is 'maybe', must be one of exact, interval, left, right"),
        ("64,,,500,1", "censoring is '1', must be one of exact"),
        ("64,100,200,,right", "censoring is right but lower 100 and upper 200 mean interval"),
        ("64,100,200,,exact", "censoring is exact but lower 100 and upper 200 mean interval"),
        ("64,100,,,left", "censoring is left but lower 100 and upper blank mean right; left needs"),
        ("64,0,0,,left", "lower and upper are 0"),
        ("64,5,,500,right", "responses is 500 and censoring right but lower is 5"),
        ("64,,500,500,right", "responses is 500 and censoring right but upper is 500"),
    ],
)
def test_a_censoring_that_contradicts_its_row_is_refused(tmp_path, row, rule):
    """File, row, what it says and the rule, in one line, as a refusal too."""
    text = f"batch_size,lower,upper,responses,censoring\n64,10,20,,\n{row}\n128,10,30,,\n"
    table = events(tmp_path, text)
    assert table.events["batch_size"].tolist() == [64, 128]
    (bad,) = table.refused
    assert bad.path.endswith("events.csv row 3")
    assert bad.reason.startswith(rule)
    assert "\n" not in bad.reason
    assert [n.code for n in table.notes] == ["bad_row"]


@pytest.mark.parametrize("column", ["event", "reached", "status", "censored", "Observed"])
@pytest.mark.parametrize("cells", [("1", "0"), ("True", "false"), ("1", "")])
def test_a_column_that_may_be_censoring_is_not_guessed_but_told(tmp_path, column, cells):
    """Whether 1 means an event or a cap is the user's to say; the note names the column."""
    text = f"batch_size,responses,{column}\n64,100,{cells[0]}\n128,200,{cells[1]}\n"
    table = events(tmp_path, text)
    assert bounds(table) == [(100, 100, "exact"), (200, 200, "exact")]
    (told,) = [n for n in table.notes if n.code == "possible_censoring_column"]
    assert repr(column) in told.message
    assert "column censoring" in told.message


@pytest.mark.parametrize(
    "text",
    [
        "batch_size,responses,status\n64,100,ok\n",
        "batch_size,responses,status\n64,100,\n",
        "batch_size,responses,flag\n64,100,1\n",
        "batch_size,responses,censoring,event\n64,100,right,0\n",
        "batch_size,lower,upper,event\n64,100,,0\n",
    ],
)
def test_a_table_that_states_its_censoring_gets_no_such_note(tmp_path, text):
    """Other words, other columns, and tables with bounds or censoring pass without it."""
    codes = [n.code for n in events(tmp_path, text).notes]
    assert "possible_censoring_column" not in codes


def test_flags_in_parquet_are_seen_too(tmp_path):
    """Booleans of a data frame are the same yes or no."""
    frame = pd.DataFrame({"batch_size": [64, 128], "responses": [1, 2], "event": [True, False]})
    frame.to_parquet(tmp_path / "e.parquet")
    codes = [n.code for n in read_events(tmp_path / "e.parquet").notes]
    assert "possible_censoring_column" in codes


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("64,300,200,", "lower 300 is above upper 200"),
        ("64,-1,200,", "lower is -1, must not be negative"),
        ("64,,,0", "responses is 0, must be above 0"),
        ("64,,,-5", "responses is -5, must be above 0"),
        ("64,ten,200,", "lower is 'ten', must be a number"),
        ("64,NaN,200,", "lower is 'NaN', must be a number"),
        ("64,,,", "lower and upper are both blank or 0"),
        ("64,0,0,", "lower and upper are 0"),
        ("64,100,200,150", "responses is 150 but lower is 100"),
        (",100,200,", "batch_size is blank"),
        ("64.5,100,200,", "batch_size is 64.5, must be a whole number"),
        ("0,100,200,", "batch_size is 0, must be a whole number from 1"),
    ],
)
def test_a_contradiction_is_one_line_and_good_rows_stay(tmp_path, row, rule):
    """A bad row is named with file, row and rule; the others are used."""
    table = events(tmp_path, f"batch_size,lower,upper,responses\n64,10,20,\n{row}\n128,10,30,\n")
    assert table.events["batch_size"].tolist() == [64, 128]
    (bad,) = [n for n in table.notes if n.code == "bad_row"]
    assert bad.message.startswith(f"row 3: {rule}")
    assert bad.where.endswith("events.csv")
    assert "\n" not in bad.message
    (refused,) = table.refused
    assert refused.path == f"{bad.where} row 3"
    assert refused.reason.startswith(rule)


def test_nothing_usable_is_an_error_in_one_line(tmp_path):
    """When every row contradicts itself the first rule is told."""
    with pytest.raises(SourceError, match=r"events\.csv: no usable event: row 2: lower 3 is above"):
        events(tmp_path, "batch_size,lower,upper\n64,3,2\n")
    with pytest.raises(SourceError, match="no data"):
        events(tmp_path, "batch_size,lower,upper\n")


def test_an_identical_row_counts_once_only_under_a_shared_seed(tmp_path):
    """Case 106: a repeated seed with equal values is a copy; rows without seed are runs."""
    seeded = "batch_size,seed,responses\n64,0,1e5\n64,0,1e5\n64,1,1.2e5\n64,0,1.3e5\n"
    table = events(tmp_path, seeded)
    assert table.events["lower"].tolist() == [1e5, 1.2e5, 1.3e5]
    assert [n.code for n in table.notes] == ["duplicate_run"]
    unseeded = "batch_size,responses\n64,1e5\n64,1e5\n64,1e5\n"
    assert len(events(tmp_path, unseeded).events) == 3


def test_stratum_and_other_columns_stay(tmp_path):
    """Known columns are kept for strata, numbers as numbers; unknown ones for --by only."""
    text = (
        "batch_size,responses,base_lr,task,minibatches,note,status\n64,100,1e-6,7,8,0.5,ok\n"
        "128,200,1e-5,7,8,,ok\n"
    )
    table = events(tmp_path, text)
    assert table.events["base_lr"].tolist() == [1e-6, 1e-5]
    assert table.events["task"].tolist() == ["7", "7"]
    assert table.events["note"].isna().tolist() == [False, True]
    (ignored,) = [n for n in table.notes if n.code == "ignored_columns"]
    assert "note" in ignored.message
    assert "task" not in ignored.message
    assert "status" not in ignored.message


def test_one_run_may_have_both_clocks_and_names_may_repeat_over_sizes(tmp_path):
    """Rows of one run and clock get distinct names; the two clocks of a run share its name."""
    text = (
        "run_id,batch_size,clock,lower,upper\na,64,learning,1,2\na,64,failure,5,6\n"
        "seed0,64,learning,1,2\nseed0,128,learning,1,3\n"
    )
    table = events(tmp_path, text)
    assert table.events["run_id"].tolist() == ["a", "a", "seed0", "seed0#2"]
    assert "same_name" in {n.code for n in table.notes}


@pytest.mark.parametrize(
    "text",
    ["step,batch_size,responses\n1,64,64\n", "batch_size,responses,val_acc\n64,64,.1\n",
     "step,val_acc\n1,.1\n", "", '{"batch_size":64,"responses":1}\n', "\x00\x01"],
)  # fmt: skip
def test_run_logs_are_no_events_tables(tmp_path, text):
    """A table with steps or accuracies, and anything that is no table, is None."""
    assert events(tmp_path, text) is None


def test_parquet_and_semicolons(tmp_path):
    """The same rows from Parquet and from a European spreadsheet."""
    frame = pd.DataFrame({"batch_size": [64, 256], "lower": [100.5, 400.0], "upper": [200.0, None]})
    frame.to_parquet(tmp_path / "e.parquet")
    table = read_events(tmp_path / "e.parquet")
    other = events(tmp_path, "batch_size;lower;upper\n64;100,5;200\n256;400;\n")
    assert bounds(table) == bounds(other) == [(100.5, 200, "interval"), (400, math.inf, "right")]


def test_an_events_table_among_logs_is_named(tmp_path):
    """In a folder of logs an events table is no run; the refusal says what to do."""
    write(tmp_path, {"e.csv": "batch_size,responses\n64,100\n", "r.csv": "step,val_acc\n1,.1\n"})
    runs = read_runs(tmp_path, ReadOptions(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["r"]
    assert "is an events table" in runs.refused[0].reason


def test_own_events_are_read_back(tmp_path):
    """What `twoclock events` lists, written as CSV, gives the same events."""
    text = (
        "run_id,clock,target,batch_size,lower,upper,censoring,reason\n"
        "a,learning,0.6,64,0,0,before_start,above at 0\na,failure,,64,100,,right,never failed\n"
    )
    table = events(tmp_path, text)
    assert bounds(table) == [(0, 0, "before_start"), (100, math.inf, "right")]
    assert table.events["target"].isna().tolist() == [False, True]
