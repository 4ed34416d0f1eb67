"""`twoclock runs` tells what was read, from where, what was refused and what to add."""

import fnmatch
import json
from pathlib import Path

import pytest
import yaml

from tests.reading import SHARED, write
from twoclock.errors import NoUsableRuns, SettingsError
from twoclock.notes import Refusal
from twoclock.overview import run_rows
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.draft import find_lacks, write_draft
from twoclock.runs.wants import list_wants

TABLE = "step,reward,val_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))
TWO_KEYS = "step,val_a_acc,val_b_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))


def rows_of(shift):
    """Return a table with values of its own."""
    return "step,reward,val_acc\n" + "".join(
        f"{s},0.{s}5{shift:02d},0.{s}7{shift:02d}\n" for s in range(1, 8)
    )


@pytest.fixture
def told(run, monkeypatch):
    """Run the program in a terminal of a given width; return exit code, stdout and stderr."""

    def call(width, *arguments):
        monkeypatch.setenv("COLUMNS", str(width))
        return run(*arguments)

    return call


def fill(file, values, accuracy=None):
    """Fill the blanks of a runs.yaml, as a user with an editor would."""
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    for entry in entries:
        for name in entry:
            if entry[name] is None and name in values:
                entry[name] = values[name]
        if "map" in entry and accuracy is not None:
            entry["map"] = {"accuracy": accuracy}
    file.write_text(yaml.safe_dump(entries, allow_unicode=True), encoding="utf-8")


def test_thirty_runs_that_lack_the_same_are_one_line(told, tmp_path):
    """What many files lack is one line with their number and what gives it."""
    for i in range(30):
        (tmp_path / f"r{i}.csv").write_text(rows_of(i))
    code, out, err = told(100, "runs", tmp_path)
    assert code == 1
    assert "30 files need a batch size: --batch-size N, or batch_size in runs.yaml" in out
    assert "30 files: batch size (responses per rollout) is not logged" in out
    assert "22 more (--sources names all)" in out
    assert "no usable run" in err


def test_useful_facts_of_runs_that_were_read_are_asked_for(told, tmp_path):
    """Unknown clipping, learning rate and seed are named with what they cost."""
    write(tmp_path, {"a.csv": TABLE})
    code, out, _ = told(200, "runs", tmp_path, "--batch-size", 64)
    assert code == 0
    for words in (
        "may clip or not, which is unknown (not in the failure clock)",
        "no learning rate",
        "no seed (each counts as a seed of its own): --run-seed N",
    ):
        assert words in out
    assert "accuracy key" not in out


def test_a_value_from_elsewhere_than_most_is_marked(told, tmp_path):
    """The line below says where facts came from; a run that differs carries a letter."""
    write(tmp_path, {"a.csv": rows_of(1), "b.csv": rows_of(2), "c.csv": rows_of(3)})
    write(tmp_path, {"c.csv": "batch_size," + rows_of(3).replace("\n", "\n32,").rstrip("32,")})
    write(tmp_path, {"runs.yaml": "- {path: a.csv, batch_size: 64}\n"
                                  "- {path: b.csv, batch_size: 64}\n"})  # fmt: skip
    _, out, _ = told(120, "runs", tmp_path)
    assert "32^l" in out
    assert "64^" not in out
    assert "you: B" in out
    assert "^l log" in out


@pytest.mark.parametrize("width", [40, 80, 140])
def test_the_list_fits_the_terminal(told, width):
    """No line is wider than the terminal, whatever its width."""
    if not SHARED.is_dir():
        pytest.skip("real logs are not here")
    _, out, _ = told(width, "runs", SHARED, "--sources")
    assert out
    assert max(len(line) for line in out.splitlines()) <= width


def test_sources_names_the_file_and_reader_of_every_fact(told, tmp_path):
    """`--sources` lists facts with where they came from, and files with their readers."""
    write(tmp_path, {"a.csv": TABLE})
    _, out, _ = told(200, "runs", tmp_path, "--batch-size", 64, "--sources")
    assert "batch_size 64 (user)" in out
    assert f"{tmp_path}/a.csv (csv)" in out


def test_json_is_a_list_of_rows_with_readers_and_metric(told, tmp_path):
    """`--json` prints rows alone; refusals stand on stderr."""
    write(tmp_path, {"a.csv": TABLE, "b.csv": ""})
    _, out, err = told(80, "runs", tmp_path, "--batch-size", 64, "--json")
    (row,) = json.loads(out)
    assert row["reader"] == "csv"
    assert row["metric"] == "val_acc"
    assert row["batch_size_from"] == "user"
    assert "b.csv: no data" in err


def test_names_that_hold_control_characters_stay_on_one_line(told, tmp_path):
    """Line ends, escapes and broken bytes in file names are written as escapes."""
    (tmp_path / "a\n\x1b[2Jb.csv").write_text(TABLE)
    (tmp_path / "bad\udcff.csv").write_text(rows_of(1))
    (tmp_path / "c\nd.csv").write_text("")
    for json_too in ([], ["--json"]):
        code, out, err = told(200, "runs", tmp_path, "--batch-size", 64, "--sources", *json_too)
        assert code == 0
        assert "\x1b[2J" not in out + err
        assert r"a\n\x1b[2Jb" in out.replace(r"\\", "\\")
        assert r"bad\udcff" in out.replace(r"\\", "\\")
        assert r"c\nd.csv" in out + err


def test_a_draft_filled_in_makes_the_refused_runs_usable(tmp_path):
    """Blanks keep runs refused as before; with the values they are read."""
    files = {f"b/seed{i}.csv": rows_of(i) for i in range(4)} | {"odd/two.csv": TWO_KEYS}
    write(tmp_path, files)
    with pytest.raises(NoUsableRuns) as caught:
        read_runs(tmp_path)
    file, blanks = write_draft([tmp_path], None, caught.value.details)
    assert file == tmp_path / "runs.yaml"
    assert blanks == 7  # batch_size, model, task for b/*.csv; these and the accuracy for two.csv
    text = file.read_text(encoding="utf-8")
    assert '"./b/*.csv" # 4 files' in text
    assert '"val_a_acc", "val_b_acc"' in text
    with pytest.raises(NoUsableRuns) as again:
        read_runs(tmp_path)
    assert again.value.details == caught.value.details
    fill(file, {"batch_size": 64}, accuracy="val_b_acc")
    runs = read_runs(tmp_path)
    assert len(runs.runs) == 5
    assert set(runs.runs["batch_size"]) == {64}
    assert not runs.refused


def test_a_draft_asks_for_seeds_run_by_run(tmp_path):
    """Runs that are read without seeds get an entry each, with what the name says beside it."""
    write(tmp_path, {f"seed{i}.csv": rows_of(i) for i in range(3)})
    runs = read_runs(tmp_path, ReadOptions(batch_size=64))
    file, _ = write_draft([tmp_path], runs, runs.refused)
    text = file.read_text(encoding="utf-8")
    assert text.count("seed:") == 3
    assert "seed: # the name says 2" in text
    assert '"./*.csv" # 3 files' in text
    fill(file, {"seed": 5, "clip_active": "no", "lr": 1e-6})
    filled = read_runs(tmp_path, ReadOptions(batch_size=64))
    assert set(filled.runs["seed"]) == {5}
    assert {want.fact for want in list_wants(filled, ())} == set()


ODD = ["a[1].csv", "a1.csv", "star*.csv", "q?.csv", "it's: #1 - {x}.csv", "tab\t.csv", "学习 ü.csv",
       '"quoted".csv', "back\\slash.csv", "line\nend.csv"]  # fmt: skip


def test_odd_names_are_matched_by_their_own_entry_alone(tmp_path):
    """Whatever a file is called, its entry means that file and no other."""
    for i, name in enumerate(ODD):
        head = f"val_{i}_a_acc,val_{i}_b_acc"
        (tmp_path / name).write_text(TWO_KEYS.replace("val_a_acc,val_b_acc", head))
    with pytest.raises(NoUsableRuns) as caught:
        read_runs(tmp_path)
    file, _ = write_draft([tmp_path], None, caught.value.details)
    globs = [entry["path"] for entry in yaml.safe_load(file.read_text(encoding="utf-8"))]
    assert len(globs) == len(ODD)
    for glob in globs:
        hits = [name for name in ODD if fnmatch.fnmatchcase(name, glob.removeprefix("./"))]
        assert len(hits) == 1


def test_a_pattern_never_reaches_a_file_that_lacks_nothing(tmp_path):
    """Files beside a good one of the same kind are entered one by one."""
    write(tmp_path, {"a.csv": rows_of(1), "b.csv": rows_of(2)})
    (tmp_path / "c.csv").write_text("batch_size,step,val_acc\n8,1,0.1\n8,2,0.2\n")
    runs = read_runs(tmp_path)
    lacks = [Refusal(str(tmp_path / n), "no", ("batch_size",)) for n in ("a.csv", "b.csv")]
    file, _ = write_draft([tmp_path], runs.select([]), lacks)
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert [entry["path"] for entry in entries if "batch_size" in entry] == ["./a.csv", "./b.csv"]


def test_a_draft_overwrites_nothing_and_needs_one_folder(told, tmp_path):
    """An existing runs.yaml is named and kept; two paths and complete logs get one line."""
    write(tmp_path, {"a/x.csv": TABLE, "b/y.csv": TABLE, "a/runs.yaml": "# mine\n"})
    code, _, err = told(80, "runs", tmp_path / "a", "--init")
    assert code == 2
    assert "runs.yaml exists and is left alone" in err
    assert (tmp_path / "a/runs.yaml").read_text() == "# mine\n"
    code, _, err = told(80, "runs", tmp_path / "a", tmp_path / "b", "--init")
    assert code == 2
    assert "--init needs one PATH" in err
    code, _, err = told(80, "runs", tmp_path / "b", "--init")
    assert code == 0
    assert "blanks to fill in" in err
    with pytest.raises(SettingsError, match="nothing is missing"):
        write_draft([tmp_path / "a" / "x.csv"][:0] or [_empty(tmp_path)], None, [])


def _empty(folder):
    path = Path(folder) / "empty"
    path.mkdir()
    return path


def test_a_blank_is_unknown_and_hides_no_value_of_the_log(tmp_path):
    """`batch_size:` left blank does not take the log's own; `clip_high: null` still is no limit."""
    write(tmp_path, {"a.csv": "batch_size," + TABLE.replace("\n", "\n16,").rstrip("16,")})
    write(tmp_path, {"runs.yaml": "- {path: a.csv, batch_size: , seed: , clip_high: null, "
                                  "map: {accuracy: }, scale: {accuracy: }}\n"})  # fmt: skip
    runs = read_runs(tmp_path)
    row = runs.runs.iloc[0]
    assert row["batch_size"] == 16
    assert row["clip_high"] == float("inf")


def test_rows_name_how_many_metrics_a_run_has():
    """The overview keeps the first metric and counts the others."""
    columns = set(run_rows(read_runs("data/probes")).columns)
    assert {"reader", "metric", "metrics", "validations"} <= columns


def test_facts_that_nobody_foresaw_are_asked_for_by_name():
    """A refusal for another fact is listed under that fact and leaves the draft alone."""
    refused = [Refusal("a.csv", "needs it", ("world_size",)), Refusal("b.csv", "x", ("weather",))]
    assert [w.fact for w in list_wants(None, refused)] == ["world_size", "weather"]
    assert [lack.facts for lack in find_lacks(None, refused)] == [("world_size",)]


def test_files_refused_for_one_reason_are_one_line_of_stderr(told, tmp_path):
    """Commands without a list name each reason once, with its files; many are counted."""
    write(tmp_path, {"a.csv": TABLE} | {f"empty{i:02d}.csv": "" for i in range(12)})
    for command in (["events"], ["runs", "--json"], ["convert", "--out", tmp_path / "out"]):
        _, _, err = told(80, *command, tmp_path, "--batch-size", 64)
        (line,) = [line for line in err.splitlines() if line.startswith("refused: ")]
        assert "empty00.csv" in line
        assert "empty07.csv and 4 more: no data" in line


def test_what_is_asked_for_below_the_list_is_no_warning_above_it(told, tmp_path):
    """A missing seed, rate or validation is told once by `runs`, and by commands without a list."""
    write(tmp_path, {"a.csv": "step,reward\n1,0.5\n2,0.25\n"})
    _, out, err = told(200, "runs", tmp_path, "--batch-size", 64)
    assert "1 run has no validation that is known (not in the learning clock)" in out
    assert "warning" not in err
    assert out.startswith("1 run\n")
    _, _, err = told(200, "runs", tmp_path, "--batch-size", 64, "--json")
    assert {"[missing_lr]", "[no_validation]"} <= set(err.split())
