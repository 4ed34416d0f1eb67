"""Reports hold every table in every format, the same bytes each time, and harm no other file."""

import dataclasses
import hashlib
import io
import os
import re
import subprocess
import sys
import tomllib

import numpy as np
import orjson
import pandas as pd
import pytest
from rich.console import Console

from tests.synthetic import make_two_clocks
from twoclock.errors import SettingsError
from twoclock.notes import Note, Refusal
from twoclock.report import FORMATS, display_tables, report_tables, to_text, write_report
from twoclock.report.listing import event_list, run_list
from twoclock.report.markup import LONG, to_latex, to_markdown, to_toml
from twoclock.report.tables import TABLES
from twoclock.results import Bound
from twoclock.words import equivalence_text, exponent_text, number_text

NASTY = 'a_b & 50% #1 ${x}^2$ ~c\\d <|> "q" --flag [\N{GREEK SMALL LETTER ALPHA}]\n*'


@pytest.fixture(scope="module")
def result():
    """Three strata: a converged learning fit, a bound, and one that is not identified."""
    return make_two_clocks(3, seeds=2)


@pytest.fixture(scope="module")
def empty(result):
    """Return a result with nothing in it."""
    none = dict.fromkeys(("learning", "failure", "equivalence", "differences", "rise"), ())
    frames = {name: pd.DataFrame() for name in ("runs", "steps", "evals", "marks")}
    frames["events"] = result.events.iloc[:0]
    more = {"safe_windows": (), "notes": (), "refused": (), "files": ()}
    return dataclasses.replace(
        result, **none, **frames, **more, published=result.published.iloc[:0], n_read=0, n_used=0
    )


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    """Write a report once, without figures."""
    out = tmp_path_factory.mktemp("report") / "out"
    write_report(result, out, formats=())
    return out


def _digests(out):
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def test_every_table_in_every_format(folder):
    """Each table is written as CSV, Parquet, Markdown and LaTeX."""
    names = {path.name for path in (folder / "tables").iterdir()}
    assert names == {f"{t}.{s}" for t in TABLES for s in ("csv", "parquet", "md", "tex")}


def test_tables_and_displays_have_the_same_names(result):
    """What has full numbers also has a table for people."""
    assert list(report_tables(result)) == list(display_tables(result))


@pytest.mark.parametrize("name", TABLES)
def test_csv_and_parquet_keep_full_precision(name, result, folder):
    """Numbers come back from CSV and Parquet bit by bit."""
    table = report_tables(result)[name]
    parquet = pd.read_parquet(folder / "tables" / f"{name}.parquet")
    pd.testing.assert_frame_equal(parquet, table, check_dtype=False)
    csv = pd.read_csv(folder / "tables" / f"{name}.csv", dtype=str, keep_default_na=False)
    assert list(csv.columns) == list(table.columns)
    for column in table.select_dtypes("float").columns:
        numbers = [float(cell or "nan") for cell in csv[column]]
        np.testing.assert_array_equal(numbers, table[column].to_numpy())


def test_right_censored_events_stay_so_in_csv(result, folder):
    """An event not reached is written as inf, never as an empty or a finite number."""
    csv = pd.read_csv(folder / "tables" / "events.csv")
    right = csv[csv["censoring"] == "right"]
    assert len(right)
    assert np.isinf(right["upper"]).all()


def test_one_scalar_per_cell(result):
    """No cell of any table holds a list, a dict or an array."""
    for table in report_tables(result).values():
        for column in table.columns:
            assert not table[column].map(lambda v: isinstance(v, list | dict | np.ndarray)).any()


def _check_latex(text):
    lines = text.splitlines()
    body = [line for line in lines if not line.startswith("%")]
    assert [re.match(r"\\begin\{(\w+)\}", line)[1] for line in body if "\\begin" in line] == [
        re.match(r"\\end\{(\w+)\}", line)[1] for line in body if "\\end{" in line
    ]
    align = re.fullmatch(r"\\begin\{\w+\}\{([lr]+)\}", body[0])[1]
    rows = [line for line in body if line.endswith(r"\\")]
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(align) - 1
        assert len(re.findall(r"(?<!\\)\{", row)) == len(re.findall(r"(?<!\\)\}", row))
        assert len(re.findall(r"(?<!\\)\$", row)) % 2 == 0
        assert not re.search(r"(?<!\\)[%#_]|(?<!\\)~|\^|--|[<>|]", row)
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_latex_tables_parse(name, folder):
    """Environments and braces balance, columns agree, nothing special is left unescaped."""
    _check_latex((folder / "tables" / f"{name}.tex").read_text(encoding="utf-8"))


def test_latex_of_a_nasty_cell():
    """Every character special to LaTeX is escaped, and a first '[' is no argument of a break."""
    frame = pd.DataFrame({"a": [NASTY, "[x]", "*"], "b_%": ["-0.05", "1", ""]})
    rows = _check_latex(to_latex(frame, "two\nlines"))
    assert len(rows) == 4
    assert rows[1].endswith(r"$-$0.05 \\")
    assert rows[2].startswith("{}[")
    assert rows[3].startswith("{}*")


def test_long_latex_tables_break_over_pages():
    """Above a page of rows the table is a longtable."""
    frame = pd.DataFrame({"a": [str(i) for i in range(LONG + 1)]})
    assert r"\begin{longtable}{r}" in to_latex(frame, "t")


def test_markdown_rows_have_equal_columns(result):
    """Pipes inside cells are escaped, so that every row has the columns of the header."""
    for name, frame in display_tables(result).items():
        lines = [x for x in to_markdown(frame, name).splitlines() if x.startswith("|")]
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(counts) == 1
    nasty = to_markdown(pd.DataFrame({"a": [NASTY]}), "t").splitlines()
    assert len(re.findall(r"(?<!\\)\|", nasty[-1])) == 2


def test_settings_and_digests_can_be_read_back(result, folder):
    """`settings.toml` is TOML, with all settings that have a value, and each SHA-256."""
    document = tomllib.loads((folder / "settings.toml").read_text(encoding="utf-8"))
    given = {name: value for name, value in result.settings.items() if value is not None}
    assert {name: document[name] for name in given} == given
    assert [(f["path"], f["sha256"]) for f in document["files"]] == list(result.files)
    assert document["report"]["files"][0] == "settings.toml"


@pytest.mark.parametrize(
    "value",
    [
        {"x": NASTY, 'k "ey': [1, 2.5, True], "big": 1e300, "small": 1e-05},
        {"inf": float("inf"), "t": {"u": {"v": ["a" * 60, "b" * 60]}}, "e": []},
        {"rows": [{"a": 1}, {"b": [{"c": 2}]}], "control": "\x01\x7f"},
    ],
)
def test_toml_round_trip(value):
    """What the small writer writes, the standard library reads back the same."""
    assert tomllib.loads(to_toml(value)) == value


def test_json_is_the_contract(result, folder):
    """`result.json` is `to_dict()`."""
    assert orjson.loads((folder / "result.json").read_bytes()) == orjson.loads(
        orjson.dumps(result.to_dict(), option=orjson.OPT_SERIALIZE_NUMPY)
    )


@pytest.mark.slow
def test_same_bytes_under_another_hash_seed(tmp_path):
    """Two processes with different hash seeds and clocks write byte-identical reports."""
    write_report(make_two_clocks(1, seeds=2), tmp_path / "a")
    code = (
        "import sys; from tests.synthetic import make_two_clocks as m;"
        "from twoclock.report import write_report as w; w(m(1, seeds=2), sys.argv[1])"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=True, env=env)
    assert _digests(tmp_path / "a") == _digests(tmp_path / "b")


@pytest.mark.slow
def test_figures_in_all_formats(tmp_path):
    """Every figure is written in each format, and the progress callable counts them up."""
    seen = []
    result = make_two_clocks(1, seeds=2)
    paths = write_report(result, tmp_path / "r", progress=lambda *args: seen.append(args))
    figures = {
        p.relative_to(tmp_path / "r").as_posix() for p in paths if p.parent.name == "figures"
    }
    names = ("learning", "failure", "exponents", "two_clocks", "validation")
    assert figures == {f"figures/{name}.{suffix}" for name in names for suffix in FORMATS}
    assert all(path.is_file() for path in paths)
    assert seen[-1] == (len(paths), len(paths), "")
    done = [count for count, _, _ in seen]
    assert done == sorted(set(done))


@pytest.mark.slow
def test_names_in_any_script_do_not_break_figures(result, tmp_path):
    """Names with formula signs, slashes or foreign letters give valid files and no warning."""
    names = ("a$b{$", "\u6392\u5e8f/../x", "x_1^2 %")
    fits = tuple(
        dataclasses.replace(fit, stratum={**fit.stratum, "task": name})
        for fit, name in zip(result.learning, names, strict=True)
    )
    odd = dataclasses.replace(result, learning=fits, failure=(), evals=pd.DataFrame())
    out = tmp_path / "r"
    paths = write_report(odd, out, formats=("png",))
    assert {p.name for p in paths if p.suffix == ".png"} == {"learning.png", "exponents.png"}
    assert names[1] in (out / "tables" / "exponents.csv").read_text(encoding="utf-8")
    assert sorted(tmp_path.iterdir()) == [out]


def test_report_of_nothing(empty, tmp_path):
    """A result without fits gives tables without rows, no figures, and no error."""
    paths = write_report(empty, tmp_path / "r")
    assert not [p for p in paths if p.parent.name == "figures"]
    assert "0 runs read" in to_text(empty)


def test_folder_of_someone_else_is_refused(result, tmp_path):
    """A folder that is not empty and no report is left as it is."""
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(SettingsError, match="no earlier report"):
        write_report(result, tmp_path, formats=())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_earlier_report_is_replaced_and_foreign_files_stay(result, tmp_path):
    """Writing again replaces the report, removes its stale files and touches no other file."""
    out = tmp_path / "r"
    write_report(result, out, formats=())
    stale = out / "tables" / "gone.csv"
    stale.write_text("x")
    settings = out / "settings.toml"
    text = settings.read_text()
    assert '"result.json"' in text
    settings.write_text(text.replace('"result.json"', '"tables/gone.csv", "../evil", "note.txt"'))
    (out / "note.txt").write_text("mine")
    (tmp_path / "evil").write_text("mine")
    write_report(result, out, formats=())
    assert not stale.exists()
    assert (out / "note.txt").read_text() == "mine"
    assert (tmp_path / "evil").read_text() == "mine"
    assert not list(out.rglob(".*"))


def test_trouble_with_the_folder_is_one_line(result, tmp_path):
    """A file in the way, or a folder below a file, is a SettingsError of one line."""
    (tmp_path / "f").write_text("x")
    for out in (tmp_path / "f", tmp_path / "f" / "deeper"):
        with pytest.raises(SettingsError) as error:
            write_report(result, out, formats=())
        assert "\n" not in str(error.value)
        assert str(out) in str(error.value)


def test_full_disk_leaves_no_half_file(result, tmp_path, monkeypatch):
    """When writing fails the error names the folder and no part file stays behind."""

    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(SettingsError, match="No space left on device"):
        write_report(result, tmp_path / "r", formats=())
    assert not list((tmp_path / "r").rglob(".*"))


def test_unknown_format_is_refused(result, tmp_path):
    """A format that matplotlib might know but the report does not is a SettingsError."""
    with pytest.raises(SettingsError, match="'jpg'"):
        write_report(result, tmp_path / "r", formats=("jpg",))


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_text_fits_its_width(result, width):
    """No line is wider than the terminal."""
    assert max(map(len, to_text(result, width=width).splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_keep_labels_and_numbers_whole(result, width):
    """At any width each row has its label, and no number is broken or loses a digit."""
    text = to_text(result, width=width)
    table = text.split("Responses to failure")[1].split("\n\n")[0]
    for fit in result.failure:
        rate = number_text(fit.stratum["base_lr"])
        assert re.search(rf"^{rate}\s", table, re.MULTILINE)
        assert exponent_text(fit) in table
    assert "64-4,096 (4)" in table
    assert "rollouts" in table


@pytest.mark.parametrize("width", [60, 80, 200])
def test_huge_batch_sizes_are_written_in_short(result, width):
    """A batch size of 1e18 is never cut to a smaller one, and no column gives way to it."""
    fit = result.learning[0]
    *cells, last = fit.cells
    cells = (*cells, dataclasses.replace(last, batch_size=10**18, in_headline=True))
    fit = dataclasses.replace(fit, cells=cells)
    text = to_text(dataclasses.replace(result, learning=(fit,), failure=()), width=width)
    assert "64-1e18 (4)" in text
    for word in (exponent_text(fit), "reached", "of 8", "rollouts"):
        assert word in text


def _events(**more):
    row = {
        "run_id": "B00064-lr0.0003-s0", "clock": "learning", "target": 0.55, "batch_size": 64,
        "seed": 1, "lower": 7_168.0, "upper": np.inf, "censoring": "right",
        "reason": "failed before target", "flags": "failed_before_target,inside_warmup,dip", **more,
    }  # fmt: skip
    return pd.DataFrame([row, {**row, "clock": "failure", "target": np.nan, "flags": ""}])


def _printed(grid, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(grid)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("run_id", ["a", "B00064-lr0.0003-s0", "x" * 75])
def test_list_of_events_loses_nothing(width, run_id):
    """At any width every cell of the list is printed whole, and no line is too long."""
    text = _printed(event_list(_events(run_id=run_id, batch_size=10**18)), width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("failed before target", "failed_before_target,", "inside_warmup,", "dip"):
        assert word in re.sub(r"\n\s+", " ", text)
    for word in ("0.55", "1e18", "7,168", "inf", "right", "learning", "failure"):
        assert word in text
    assert run_id in text.replace("\n", "")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_list_of_runs_loses_nothing(width):
    """At any width every number of a run stands whole under or beside its name."""
    row = {
        "run_id": "B04096-lr0.0002-s3", "framework": "twoclock", "batch_size": 4096, "lr": 1e-5,
        "group_size": 8, "clip_active": "no", "seed": 123_456, "rollouts": 768,
        "responses": 49_152_000, "validations": 97, "ended": "completed",
    }  # fmt: skip
    text = _printed(run_list(pd.DataFrame([row])), width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("B04096-lr0.0002-s3", "4,096", "1e-5", "49,152,000", "completed", "123,456"):
        assert word in text


def _independence(result, item, fit, width=200):
    other = dataclasses.replace(result, failure=(fit,), equivalence=(item,))
    text = to_text(other, width=width)
    return text.split("Is failure independent")[1].split("\n\n")[0]


def test_verdicts_on_independence_say_each_its_factor(result):
    """The heading names the margin once; what factor it means depends on the sizes of each fit."""
    items = tuple(
        dataclasses.replace(item, factor=factor)
        for item, factor in zip(result.equivalence, (None, 1.15, 1.52), strict=True)
    )
    text = to_text(dataclasses.replace(result, equivalence=items), width=300)
    assert "Is failure independent of batch size? Within +-0.10\n" in text
    assert "+-0.10 (a factor of 1.15)" in text
    assert "+-0.10 (a factor of 1.52)" in text


def test_no_verdict_says_why(result):
    """A bound, a set and runs that are all alike are not called "not identified"."""
    item = dataclasses.replace(
        result.equivalence[0], estimate=None, lower=None, upper=None, verdict="not_identified"
    )
    fit = result.failure[0]
    bounded = dataclasses.replace(
        fit, status="bound", exponent=None, bound=Bound("upper", -0.68, None, None, 0.95)
    )
    a_set = dataclasses.replace(bounded, bound=Bound("both", None, -0.13, 0.03, 1.0))
    alike = dataclasses.replace(fit.exponent, se=0.0, method="degenerate")
    cases = {
        "the data bound the exponent on one side only (at most -0.68)": bounded,
        "the data give a set of exponents only (set [-0.13, 0.03])": a_set,
        "no interval (all runs of a batch size are alike)": dataclasses.replace(
            fit, exponent=alike
        ),
        "the exponent is not identified": dataclasses.replace(
            fit, status="not_identified", exponent=None
        ),
    }
    for words, case in cases.items():
        assert f"no verdict: {words}" in _independence(result, item, case)
    rejected = dataclasses.replace(item, verdict="rejected")
    text = _independence(result, rejected, bounded)
    assert "rejected: exponent at most -0.68 at 95 % lies outside +-0.10" in text


def test_a_set_is_no_interval(result):
    """A set of exponents is called one, and what seed noise adds to it stands below the table."""
    bound = Bound("both", None, -0.13, 0.03, 1.0, (-0.22, 0.17), 0.95)
    fit = dataclasses.replace(result.learning[1], bound=bound, stratum={"base_lr": 1e-5})
    other = dataclasses.replace(result, learning=(fit,), failure=(), equivalence=())
    text = to_text(other, width=200)
    assert "set [-0.13, 0.03]" in text
    assert "passes through every interval; with seed noise [-0.22, 0.17] at 95 %" in text
    shown = display_tables(other)["exponents"]
    assert shown.filter(like="Exponent").iloc[0, 0] == "set [-0.13, 0.03]"
    assert shown["Profile"].tolist() == ["[-0.22, 0.17]"]
    full = report_tables(other)["exponents"]
    assert full[["profile_lower", "profile_upper"]].iloc[0].tolist() == [-0.22, 0.17]


def test_text_claims_no_more_than_the_verdicts(result):
    """Inconclusive stays inconclusive, and no difference is not called equality."""
    text = to_text(result, width=300)
    assert "not identified" in text
    assert "at most 0.31" in text
    for item in result.equivalence:
        assert equivalence_text(item) in text
        if item.verdict == "inconclusive":
            assert equivalence_text(item).startswith("inconclusive")
    assert "no answer: an exponent is not identified" in text


def test_text_shows_one_line_of_warning_per_code(result):
    """The first warning of a code is shown, long ones in short, the others counted."""
    notes = [Note("a", f"trouble {i}") for i in range(4)] + [Note("b", "other " * 50, count=3)]
    text = to_text(dataclasses.replace(result, notes=(notes[0], notes[4], *notes[1:4])), width=300)
    assert "Warnings (5;" in text
    assert [line.strip() for line in text.splitlines() if "trouble" in line] == [
        "a: trouble 0 (+3 more)"
    ]
    (other,) = [line for line in text.splitlines() if "b: other" in line]
    assert other.endswith("... (3 times)")
    assert len(other) < 200


def test_warnings_of_single_fits_are_shown_once(result):
    """A fit's own notes join the warnings, with the fit they are about, unless already there."""
    notes = (Note("thin", "one seed only"), result.notes[0])
    fit = dataclasses.replace(result.learning[0], notes=notes)
    other = dataclasses.replace(result, learning=(fit, *result.learning[1:]))
    assert "thin: learning to 0.60, base lr 1e-5: one seed only" in to_text(other, width=200)
    codes = report_tables(other)["warnings"]["code"].tolist()
    assert codes == [note.code for note in result.notes] + ["thin"]


def test_text_names_the_interval_and_other_choices(result):
    """Beside each exponent stand its method, the other intervals and what other choices give."""
    line = next(x for x in to_text(result, width=200).splitlines() if "1e-5: jackknife-t" in x)
    assert "bootstrap [" in line
    assert "no limit]" in line
    assert "first crossing 0.21" in line


def test_text_counts_long_lists(result):
    """Many refusals are counted after the first few; markup in them is printed as it is."""
    refused = tuple(Refusal(f"a[bold]{i}", "no [red]rows[/red]") for i in range(9))
    notes = (Note("x", "[link=y]z"),)
    text = to_text(dataclasses.replace(result, refused=refused, notes=notes), width=200)
    assert "a[bold]0: no [red]rows[/red]" in text
    assert "and 4 more" in text
    assert "[link=y]z" in text


def test_exponent_words(result):
    """Estimate, bound and status each read as what they are."""
    texts = [exponent_text(fit) for fit in result.learning]
    assert re.fullmatch(r"0\.\d+ \[-?0\.\d+, 0\.\d+\]", texts[0])
    assert texts[1:] == ["at most 0.31", "not identified"]
    fit = result.learning[0]
    alike = dataclasses.replace(fit.exponent, method="degenerate", lower=0.1, upper=0.1)
    assert exponent_text(dataclasses.replace(fit, exponent=alike)).endswith(" (no interval)")


def test_text_needs_no_matplotlib_and_no_torch():
    """Importing the report, and building the text, loads neither matplotlib nor torch."""
    code = (
        "import sys, twoclock.report; "
        "print([m for m in ('torch', 'matplotlib', 'statsmodels') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_published_exponents_stand_once_beside_a_ladder_of_targets(result):
    """With several targets the published exponents are not repeated under each."""
    harder = tuple(dataclasses.replace(fit, targets=(0.7,)) for fit in result.learning)
    text = to_text(dataclasses.replace(result, learning=(*result.learning, *harder)), width=120)
    assert "Responses to 0.60" in text
    assert "Responses to 0.70" in text
    assert text.count("published 1e-5") == 1
