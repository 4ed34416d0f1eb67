"""Generic CSV and JSON lines: group E of the cases, and the generic ones of group A."""

import gzip
import os
import subprocess
import sys

import pytest
import zstandard

from tests.reading import codes, curve, note, read, reasons
from twoclock.errors import NoUsableRuns
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.sources.rows import RowStore

GOOD = "step,val_acc\n0,.1\n10,.6\n"
POINTS = [(0, 0.1), (10, 0.6)]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        b"step,val_acc\r\n0,.1\n10,.6\r\n",
        GOOD.rstrip().encode(),
        b"\n\n" + GOOD.encode() + b"\n\n",
        b"step\tval_acc\n0\t.1\n10\t.6\n",
        b'"step","val_acc"\n"0",".1"\n"10",".6"\n',
        b"host,step,val_acc\n\xff\xfe,0,.1\n\xff,10,.6\n",
    ],
    ids=["bom", "crlf", "mixed-ends", "no-end", "blank-lines", "tab", "quoted", "bad-bytes"],
)
def test_a_table_reads_the_same_however_it_was_saved(tmp_path, content):
    """Cases 36, 37: marks, line ends, quotes and stray bytes change nothing."""
    assert curve(read(tmp_path, {"r.csv": content}, batch_size=1)) == POINTS


def test_json_lines_with_a_byte_order_mark(tmp_path):
    """Case 36: a mark before the first object does not cost the first row."""
    text = b'\xef\xbb\xbf{"step":0,"val_acc":0.1}\n{"step":10,"val_acc":0.6}\n'
    assert curve(read(tmp_path, {"r.jsonl": text}, batch_size=1)) == POINTS


def test_semicolons_with_decimal_commas(tmp_path):
    """Case 38: 0,62 in a semicolon table is 0.62, and the dialect is told."""
    runs = read(tmp_path, {"r.csv": "step;val_acc\n0;0,10\n10;0,62\n"}, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.62)]
    assert "decimal commas" in note(runs, "decimal_commas").message


def test_concatenated_gzip_members_by_suffix_or_content(tmp_path):
    """Case 40: every member is read, and packed data is recognised without its suffix."""
    lines = [b'{"step":0,"val_acc":0.1}\n', b'{"step":10,"val_acc":0.6}\n']
    data = b"".join(gzip.compress(line) for line in lines)
    assert curve(read(tmp_path / "a", {"r.jsonl.gz": data}, batch_size=1)) == POINTS
    assert curve(read(tmp_path / "b", {"r.jsonl": data}, batch_size=1)) == POINTS
    packed = b"".join(zstandard.ZstdCompressor().compress(line) for line in lines)
    assert curve(read(tmp_path / "c", {"r.jsonl.zst": packed}, batch_size=1)) == POINTS


def test_a_cut_gzip_file_gives_what_it_has(tmp_path):
    """Damage in packed data ends the log there, with a note."""
    lines = "".join(f'{{"step":{i},"val_acc":0.1,"x":{i * 7919 % 1000}}}\n' for i in range(2000))
    data = gzip.compress(lines.encode())
    runs = read(tmp_path, {"r.jsonl.gz": data[: len(data) // 2]}, batch_size=1)
    assert 100 < len(runs.evals) < 2000
    assert "cut_file" in codes(runs)


def test_empty_files_are_no_data_beside_a_good_run(tmp_path):
    """Case 42: 0 bytes, a lone header and blank lines are listed; the good run is analysed."""
    files = {"a/metrics.csv": "", "b/metrics.csv": "step,val_acc\n", "d/metrics.jsonl": " \n\n"}
    runs = read(tmp_path, {**files, "c/metrics.csv": GOOD}, batch_size=1)
    assert runs.runs["run_id"].tolist() == ["c"]
    assert len(runs.refused) == 3
    assert all("no data" in refusal.reason for refusal in runs.refused)


def test_nothing_usable_is_one_line(tmp_path):
    """Case 42: when nothing can be used the error is one line and carries every refusal."""
    with pytest.raises(NoUsableRuns) as caught:
        read(tmp_path, {"a/metrics.csv": "", "b/metrics.csv": "step,val_acc\n"}, batch_size=1)
    assert "\n" not in str(caught.value)
    assert len(caught.value.refused) == 2


def test_a_link_cycle_ends_and_latest_is_not_a_second_run(tmp_path):
    """Case 43: links are followed once; the run keeps its own name."""
    read(tmp_path, {"logs/run1/metrics.csv": GOOD}, batch_size=1)
    (tmp_path / "logs" / "run1" / "up").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "latest").symlink_to("run1")
    runs = read_runs(tmp_path / "logs", ReadOptions(batch_size=1))
    assert runs.runs["run_id"].tolist() == ["run1"]
    outside = read_runs(tmp_path / "logs" / "latest", ReadOptions(batch_size=1))
    assert len(outside.runs) == 1


def test_names_in_any_script_stay_whole(tmp_path):
    """Case 44: blanks and non-ASCII letters in paths survive into the run's name."""
    runs = read(tmp_path, {"lauf ü 学习率/seed 0/metrics.csv": GOOD}, batch_size=1)
    assert runs.runs["run_id"].tolist() == ["lauf ü 学习率/seed 0"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_must_not_be_read_is_refused(tmp_path):
    """A file and a folder without permission are named; the rest is read."""
    read(tmp_path, {"a/m.csv": GOOD, "b.csv": GOOD, "c.csv": GOOD}, batch_size=1)
    (tmp_path / "a").chmod(0)
    (tmp_path / "b.csv").chmod(0)
    runs = read_runs(tmp_path, ReadOptions(batch_size=1))
    (tmp_path / "a").chmod(0o755)
    assert runs.runs["run_id"].tolist() == ["c"]
    assert set(reasons(runs)) == {"a", "b.csv"}


def test_a_file_that_the_system_refuses_is_named(tmp_path, monkeypatch):
    """An operating-system error is a refusal of that file, never a traceback."""
    from twoclock.sources import text

    read(tmp_path, {"a.csv": GOOD, "b.csv": GOOD.replace(".6", ".7")}, batch_size=1)
    real = text.Path.open

    def deny(self, *args, **kwargs):
        if self.name == "a.csv":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(text.Path, "open", deny)
    runs = read_runs(tmp_path, ReadOptions(batch_size=1))
    assert reasons(runs) == {"a.csv": "cannot be read (permission denied)"}


def test_a_folder_that_the_system_refuses_is_named(tmp_path, monkeypatch):
    """A folder that cannot be searched is a refusal; its neighbours are read."""
    from twoclock.runs import finding

    read(tmp_path, {"a/x.csv": GOOD, "b/x.csv": GOOD}, batch_size=1)
    real = finding.os.scandir

    def deny(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(finding.os, "scandir", deny)
    runs = read_runs(tmp_path, ReadOptions(batch_size=1))
    assert reasons(runs) == {"a": "folder cannot be searched (permission denied)"}
    assert runs.runs["run_id"].tolist() == ["b/x"]


def test_a_missing_path_is_one_line():
    """A path that is not there is named."""
    with pytest.raises(NoUsableRuns, match="nowhere: no such file or folder"):
        read_runs("nowhere")


def test_bare_nan_tokens_are_read(tmp_path):
    """Case 1: NaN and Infinity, which JSON forbids, do not cost the row."""
    text = '{"step":1,"loss":0.1,"x":-Infinity}\n{"step":2,"loss":NaN,"grad_norm":Infinity}\n'
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=8)
    assert runs.steps["nonfinite"].tolist()[1] == "grad_norm,loss"
    assert runs.steps["responses"].tolist() == [8, 16]


def test_non_finite_values_as_text(tmp_path):
    """Case 2: "NaN" and "Infinity" strings are non-finite numbers, and no validation of 0."""
    text = (
        '{"step":1,"loss":0.5,"val/acc":0.2}\n{"step":2,"loss":"NaN","val/acc":0.2}\n'
        '{"step":3,"loss":"Infinity","val/acc":"nan"}\n{"step":4,"loss":"-inf"}\n'
    )
    runs = read(tmp_path, {"m.jsonl": text}, batch_size=1)
    assert curve(runs) == [(1, 0.2), (2, 0.2)]
    assert runs.steps["nonfinite"].fillna("").tolist() == ["", "loss", "loss", "loss"]


def test_training_and_validation_rows_may_alternate(tmp_path):
    """Case 4: an absent key is no NaN, and rows are told apart by what they hold."""
    rows = [
        '{"step":10,"loss":0.2}', '{"step":10,"eval_acc":0.31}', '{"step":20,"loss":0.1}',
        '{"step":30,"loss":0.1}', '{"step":30,"eval_acc":0.44}',
    ]  # fmt: skip
    runs = read(tmp_path, {"r.jsonl": "\n".join(rows) + "\n"}, batch_size=1)
    assert curve(runs) == [(10, 0.31), (30, 0.44)]
    assert runs.steps["nonfinite"].isna().all()
    assert runs.steps["responses"].tolist() == [10, 20, 30]


def test_a_resumed_run_keeps_the_later_branch(tmp_path):
    """Case 5: for a repeated step the last row wins, and the note tells which steps."""
    values = [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.9), (6, 0.95), (5, 0.45), (6, 0.5)]
    text = "step,val_acc\n" + "".join(f"{s},{v}\n" for s, v in [*values, (7, 0.55)])
    runs = read(tmp_path, {"r.csv": text}, batch_size=8)
    expected = [0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55]
    assert curve(runs) == [(8 * (i + 1), v) for i, v in enumerate(expected)]
    assert note(runs, "resumed").message == "steps 5-6 overwritten by a later segment"


def test_a_cut_last_line_is_told(tmp_path):
    """Case 6: two points, one note with file and line 3."""
    text = '{"step":1,"val/acc":0.20}\n{"step":2,"val/acc":0.35}\n{"step":3,"val/ac'
    runs = read(tmp_path, {"r.jsonl": text}, batch_size=1)
    assert curve(runs) == [(1, 0.2), (2, 0.35)]
    assert note(runs, "cut_line").where.endswith("r.jsonl line 3")


MIXED = (
    '{"step":"10","val/acc":"0.41"}\n{"step":20,"val/acc":0.52}\n'
    '{"step":30,"val/acc":{"mean":0.60,"std":0.01}}\n{"step":40,"val/acc":true}\n'
)


def test_what_is_no_number_is_rejected_by_name(tmp_path):
    """Case 8: a boolean is not accuracy 1.0, and a dictionary is no number; both are told."""
    runs = read(tmp_path, {"r.jsonl": MIXED}, batch_size=1)
    assert curve(runs) == [(10, 0.41), (20, 0.52)]
    assert note(runs, "not_a_number").count == 2


def test_a_nested_value_is_read_when_it_is_named(tmp_path):
    """Case 8: `val/acc.mean` reaches into the dictionary."""
    named = {"accuracy": ("val/acc", "val/acc.mean")}
    runs = read(tmp_path, {"r.jsonl": MIXED}, batch_size=1, map=named)
    assert curve(runs) == [(10, 0.41), (20, 0.52), (30, 0.6)]


def test_a_line_without_end_is_left_out(tmp_path, monkeypatch):
    """A line above the limit costs one row, not the memory."""
    from twoclock.sources import text

    monkeypatch.setattr(text, "LINE_LIMIT", 1000)
    rows = ['{"step":1,"val_acc":0.1}', '{"step":2,"x":"' + "y" * 5000 + '"}',
            '{"step":3,"val_acc":0.3}']  # fmt: skip
    runs = read(tmp_path, {"r.jsonl": "\n".join(rows) + "\n"}, batch_size=1)
    assert curve(runs) == [(1, 0.1), (3, 0.3)]
    assert note(runs, "huge_line").where.endswith("line 2")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_log_of_many_rows_is_streamed(tmp_path):
    """Case 46, at 600,000 rows: the crossing is exact and little memory is added to the imports'.

    Six columns of it are 29 MB, the tables that it is thinned to about as much.
    """
    rows = 600_000
    path = tmp_path / "r.jsonl"
    keys = ("reward", "kl", "entropy", "grad_norm", "loss")
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, rows + 1):
            val = f',"val/acc":{0.7 if step >= rows * 3 // 4 else 0.5}' if step % 1000 == 0 else ""
            dense = ",".join(f'"{key}":0.{step:07d}' for key in keys)
            file.write(f'{{"step":{step},{dense},"host":"x"{val}}}\n')
    code = (
        "import sys; from pathlib import Path; from twoclock.reading import ReadOptions; "
        "from twoclock.runs import read_runs; "
        "status = lambda: Path('/proc/self/status').read_text(); "
        "peak = lambda: int(status().split('VmHWM:')[1].split()[0]) // 1024; "
        "before = peak(); "
        "runs = read_runs(sys.argv[1], ReadOptions(batch_size=64)); e = runs.evals; "
        "print(int(e['responses'][e['accuracy'] >= 0.6].min()), len(e), peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    crossing, validations, megabytes = map(int, done.stdout.split())
    assert (crossing, validations) == (rows * 3 // 4 * 64, rows // 1000)
    assert megabytes < 90


def test_utf16_text_is_refused_with_the_remedy(tmp_path):
    """Text that an editor saved as UTF-16 is named, not misread."""
    with pytest.raises(NoUsableRuns, match="save it as UTF-8"):
        read(tmp_path, {"r.csv": GOOD.encode("utf-16")}, batch_size=1)


def test_keys_that_are_no_metrics_do_not_pile_up(tmp_path, monkeypatch):
    """A log with more keys than are remembered is read; the others are looked at anew."""
    monkeypatch.setattr("twoclock.sources.rows.MAX_KEYS", 10)
    path = tmp_path / "r.jsonl"
    lines = [f'{{"step": {s}, "val/acc": 0.{s + 1}, "junk{s}": 1}}\n' for s in range(9)]
    path.write_text("".join(lines))
    assert len(read_runs(path, ReadOptions(batch_size=8)).evals) == 9
    store = RowStore()
    for s in range(50):
        store.add({f"junk{s}": 1.0, "step": s}, s + 1)
    assert len(store._columns) <= 11
    assert len(store.finish().values["step"].value) == 50


def test_text_in_place_of_keys_is_refused(tmp_path, monkeypatch):
    """More wanted keys than a run log has is a refusal of one line, not an unbounded table."""
    monkeypatch.setattr("twoclock.sources.rows.MAX_KEYS", 10)
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f'{{"step": {s}, "val/acc{s}": 0.5}}\n' for s in range(20)))
    with pytest.raises(NoUsableRuns, match="more than 10 different keys look like metrics"):
        read_runs(path, ReadOptions(batch_size=8))


def test_a_quoted_cell_may_go_over_lines(tmp_path):
    """A line break within quotes is part of the cell; the rows around it are read."""
    text = 'step,note,val_acc\n0,"a\nb, ""c""\n\nd",.1\n10,x,.6\n'
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert curve(runs) == POINTS
    assert "bad_lines" not in codes(runs)


def test_a_stray_quote_costs_its_row_only(tmp_path):
    """A quote that nothing closes in a fitting way takes no other row with it."""
    text = 'step,note,val_acc\n0,x,.1\n5,"x,.3\n10,x,.6\n20,"y,.7\n30,x,.8\n'
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert curve(runs) == [*POINTS, (30, 0.8)]
    assert note(runs, "bad_lines").count == 2


def test_a_spreadsheet_may_tell_its_separator(tmp_path):
    """The line `sep=;` that Excel writes before the header is none."""
    runs = read(tmp_path, {"r.csv": "sep=;\nstep;val_acc\n0;0,10\n10;0,62\n"}, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.62)]


@pytest.mark.parametrize(
    "text",
    ["step\tval_acc\n0\t0,1\n10\t0,6\n", 'step,val_acc\n0,"0,1"\n10,"0,6"\n',
     '"step";"val_acc"\n"0";"0,1"\n"10";"0,6"\n'],
    ids=["tab", "quoted", "semicolon-quoted"],
)  # fmt: skip
def test_decimal_commas_in_any_dialect(tmp_path, text):
    """A decimal comma is one with tabs, semicolons and in quotes."""
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert curve(runs) == POINTS
    assert "decimal_commas" in codes(runs)


@pytest.mark.parametrize("cell", ["1.234,5", "1 234,5", "1.234.567"])
def test_thousands_separators_are_refused_by_name(tmp_path, cell):
    """A number with thousands separators is not guessed; column, line and remedy are told."""
    text = f"step;val_acc;response_length\n0;0,10;{cell}\n10;0,60;{cell}\n"
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    told = note(runs, "thousands")
    assert "2 values of response_length" in told.message
    assert told.where.endswith("line 2")


def test_a_comma_before_three_digits_is_not_guessed(tmp_path):
    """In a table with comma separators, "1,234" may be 1234 or 1.234: it is not read."""
    text = 'step,val_acc,response_length\n0,.1,"1,234"\n10,.6,"1,250"\n'
    runs = read(tmp_path, {"r.csv": text}, batch_size=1)
    assert runs.steps.empty
    assert "first '1,234'" in note(runs, "thousands").message
