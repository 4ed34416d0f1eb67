"""The command line: exit codes, one-line errors, JSON alone on stdout, repeatable settings."""

import dataclasses
import json
import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from twoclock.cli.options import Fitting, Reading, Rule, settings_of
from twoclock.reading import ReadOptions
from twoclock.settings import Settings
from twoclock.simulate.logs import write_simulated
from twoclock.simulate.runs import simulate_runs
from twoclock.simulate.truth import Design, Law, Truth

FAST = ["--draws", "200"]


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """Write nine simulated runs that learn and then fail."""
    out = tmp_path_factory.mktemp("logs") / "made"
    truth = Truth(learning=Law(0.3), failure=Law(0.0, 20_000.0))
    design = Design((64, 256, 1024), 3, 60_000.0, every_responses=512.0)
    write_simulated(simulate_runs(truth, design, np.random.default_rng(0)), out)
    return out


def test_fit_answers_on_one_screen(run, logs):
    """The text names the runs, both clocks, the verdict and the safe window."""
    code, out, _ = run("fit", logs, "--target", 0.6, *FAST)
    assert code == 0
    for words in ("9 runs read", "to 0.60 validation accuracy", "to failure", "Safe window"):
        assert words in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_json_is_alone_on_stdout_and_keeps_the_contract(run, logs):
    """`--json` prints one object with the documented keys and no NaN."""
    code, out, _ = run("fit", logs, "--target", 0.6, "--json", *FAST)
    assert code == 0
    found = json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    assert {"twoclock", "settings", "runs", "learning", "failure", "equivalence", "differences",
            "warnings"} <= set(found)  # fmt: skip
    (fit,) = found["learning"]
    assert {"stratum", "targets", "law", "status", "exponent", "bound", "coefficient", "sigma",
            "loglik", "aicc", "n_runs", "n_seeds", "n_batch_sizes", "n_exact", "n_interval",
            "n_left", "n_right", "batch_sizes", "cells", "lack_of_fit", "influence",
            "sensitivity", "notes"} <= set(fit)  # fmt: skip
    assert fit["status"] == "converged"
    assert fit["exponent"]["lower"] < 0.3 < fit["exponent"]["upper"]
    assert {"crossing_first", "crossing_sustain2", "crossing_isotonic"} <= set(fit["sensitivity"])
    assert found["runs"] == {"read": 9, "used": 9, "refused": []}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_differs(run, logs):
    """Two calls print the same; with another seed the bootstrap interval moves."""
    call = ("fit", logs, "--target", 0.6, "--json", *FAST)
    assert run(*call)[1] == run(*call)[1]
    interval = [
        json.loads(run(*call, "--seed", s)[1])["learning"][0]["exponent"]["percentile"]
        for s in (0, 1)
    ]
    assert interval[0] != interval[1]


def test_order_of_paths_does_not_matter(run, logs):
    """Giving the runs one by one in another order changes nothing but the settings' paths."""
    folders = sorted(logs.iterdir())
    one, two = (
        json.loads(run("fit", *paths, "--target", 0.6, "--json", *FAST)[1])
        for paths in (folders, folders[::-1])
    )
    assert one.pop("settings") != two.pop("settings")
    assert one == two


def test_settings_repeat_a_fit(run, logs, tmp_path):
    """`fit --settings settings.toml` gives the same JSON; mixing in other options is refused."""
    out = tmp_path / "report"
    first = run("fit", logs, "--target", 0.6, "--out", out, "--json", *FAST)
    assert first[0] == 0
    assert "paths" in tomllib.loads((out / "settings.toml").read_text())
    again = run("fit", "--settings", out / "settings.toml", "--json")
    assert again[1] == first[1]
    code, _, err = run("fit", "--settings", out / "settings.toml", "--draws", 5)
    assert code == 2
    assert "--draws cannot stand beside --settings" in err


def test_events_lists_both_clocks(run, logs):
    """`events --json` gives a row per run and clock; right-censored upper ends are null."""
    code, out, _ = run("events", logs, "--target", 0.6, "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["clock"] for row in rows} == {"learning", "failure"}
    assert len(rows) == 18
    assert all(row["upper"] is None or row["lower"] <= row["upper"] for row in rows)


def test_runs_lists_what_was_read_and_refused(run, logs, tmp_path):
    """A damaged file beside good ones is named with its reason; the others are listed."""
    (tmp_path / "good.csv").write_text("step,val_acc\n0,0.1\n10,0.6\n")
    (tmp_path / "empty.csv").write_text("")
    code, out, err = run("runs", tmp_path, "--batch-size", 64)
    assert code == 0
    assert "good" in out
    assert "empty.csv:nodata" in "".join(out.split())  # a long path is broken over lines
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "{empty}"], 1, "no run logs found"),
        (["fit", "{empty}/nothing"], 1, "nothing"),
        (["fit", "{logs}", "--target", "x"], 2, "--target 'x' is not a number"),
        (["fit", "{logs}", "--target", "7"], 1, "target == 7, must be above 0 and at most 1"),
        (["fit", "{logs}", "--crossing", "best"], 2, "crossing == 'best', must be"),
        (["fit", "{logs}", "--level", "95"], 2, "level == 95.0, must be between"),
        (["fit", "{logs}", "--drop-abs", "-1"], 2, "drop_abs == -1.0, must be"),
        (["fit", "{logs}", "--margin", "0"], 2, "margin == 0.0, must be > 0"),
        (["fit", "{logs}", "--select", "seed > 99"], 1, "keeps none of the runs"),
        (["fit", "{logs}", "--select", "seed >"], 2, "--select 'seed >'"),
        (["fit", "{logs}", "--by", "nope"], 2, "--by nope: no such column"),
        (["fit", "{logs}", "--map", "acuracy=x"], 2, "did you mean 'accuracy'"),
        (["fit", "{logs}", "--map", "accuracy"], 2, "must be NAME=VALUE"),
        (["fit", "{logs}", "--lr-rule", "cubic"], 2, "--lr-rule"),
        (["fit", "{logs}", "--sigma", "odd"], 2, "sigma == 'odd', must be one of"),
        (["fit", "{logs}", "--settings", "{empty}/none.toml"], 2, "cannot be read as settings"),
        (["fit", "{logs}", "--nope"], 2, "No such option"),
        (["train", "{empty}/r", "--batch-size", "63"], 2, "batch_size == 63"),
        (["train", "{empty}/r", "--clip-low", "x"], 2, "--clip-low 'x': must be a number or none"),
        (["sweep", "{empty}/none.toml"], 2, "cannot be read as TOML"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(run, logs, tmp_path, arguments, code, words):
    """Every mistake gives its exit code and a line that names it; never a traceback."""
    if arguments[0] in ("train", "sweep"):
        pytest.importorskip("torch")
    places = {"{empty}": str(tmp_path), "{logs}": str(logs)}
    for mark, place in places.items():
        arguments = [a.replace(mark, place) for a in arguments]
    if arguments[0] == "fit":
        arguments += FAST
    if "--settings" in arguments:
        arguments = arguments[:-2]
        arguments.remove(str(logs))
    got, _, err = run(*arguments)
    assert got == code
    assert words in err
    assert "Traceback" not in err


def test_a_target_nobody_reached_still_tells_what_runs_show(run, logs):
    """All runs censored: no exponent, exit 0, and each cell's lower bound is told."""
    code, out, _ = run("fit", logs, "--target", 0.95, "--json", *FAST)
    (fit,) = json.loads(out)["learning"]
    assert code == 0
    assert fit["status"] == "not_identified"
    assert fit["exponent"] is None
    assert fit["n_right"] == 9
    assert any("no event" in note for note in fit["notes"])


def test_one_batch_size_gives_no_exponent(run, logs):
    """With one batch size the slope is not identified; strict makes that exit code 3."""
    call = ("fit", logs, "--target", 0.6, "--select", "batch_size == 256", "--json", *FAST)
    code, out, _ = run(*call)
    assert code == 0
    assert json.loads(out)["learning"][0]["status"] == "not_identified"
    assert run(*call, "--strict")[0] == 3


def test_one_seed_has_no_seed_interval(run, logs):
    """One run per cell: the interval is named for what it is."""
    code, out, _ = run("fit", logs, "--target", 0.6, "--select", "seed == 0", "--json", *FAST)
    assert code == 0
    (fit,) = json.loads(out)["learning"]
    assert fit["exponent"]["method"] != "jackknife-t"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_named(run, logs, tmp_path):
    """An unreadable folder is refused by name."""
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    code, _, err = run("fit", shut)
    assert code == 1
    assert "shut" in err


def test_output_into_a_file_is_one_line(run, logs, tmp_path):
    """--out naming an existing file is an error of one line."""
    (tmp_path / "taken").write_text("")
    code, _, err = run("fit", logs, "--target", 0.6, "--out", tmp_path / "taken", *FAST)
    assert code in (1, 2)
    assert "taken" in err
    assert len(err.strip().splitlines()) == 1


def test_simulate_makes_logs_that_fit_reads(run, tmp_path):
    """simulate, then fit, finds the simulated exponent within its interval."""
    code, _, _ = run("simulate", tmp_path / "made", "--alpha", 0.3, "--sigma", 0.1, "--seeds", 6)
    assert code == 0
    _, out, _ = run("fit", tmp_path / "made", "--target", 0.6, "--json", *FAST)
    exponent = json.loads(out)["learning"][0]["exponent"]
    assert abs(exponent["estimate"] - 0.3) < 4 * exponent["se"]


def test_options_have_the_defaults_of_the_library():
    """The command line without options is the library without arguments."""
    assert settings_of(Reading(), Rule(), Fitting()) == Settings()
    assert Reading().options() == ReadOptions()


def test_train_has_every_option_of_the_trainer():
    """`twoclock train` names all settings of a run, with the same defaults."""
    settings = pytest.importorskip("twoclock.trainer").TrainSettings
    from twoclock.cli.training import Training

    grid = {"seed", "batch_size", "base_lr", "responses"}
    theirs = {f.name: f.default for f in dataclasses.fields(settings) if f.name not in grid}
    assert Training().values() == theirs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "huge"), "size == 'huge', must be one of small, medium, large"),
        (("--size", "small", "--width", "64"), "size == 'small' sets width already"),
        (("--device", "tpu"), "device == 'tpu': no such device"),
        (("--task", "brackets", "--symbols", "5"), "symbols == 5, must be even"),
    ],
)
def test_wrong_training_options_are_one_line(run, tmp_path, options, message):
    """`twoclock train` refuses what cannot be trained in one line, and writes nothing."""
    pytest.importorskip("torch")
    shape = ("--responses", "64", "--base-steps", "1", "--minibatches", "4")
    code, _, err = run("train", tmp_path, *shape, *options, "--quiet")
    assert code == (1 if "--device" in options else 2)  # 2: wrong usage
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("B*"))


def test_a_size_makes_the_model_of_that_size(run, tmp_path):
    """`--size small` trains a model of width 16 with one block."""
    pytest.importorskip("torch")
    shape = ("--responses", "64", "--base-steps", "1", "--size", "small", "--eval-size", "50")
    code, _, _ = run("train", tmp_path, *shape, "--quiet")
    assert code == 0
    (header,) = tmp_path.glob("B*/run.json")
    assert json.loads(header.read_text())["model"].startswith("transformer-1x16-")


@pytest.mark.parametrize(
    "command", ["fit", "runs", "convert", "events", "train", "sweep", "simulate", "schema"]
)
def test_every_command_has_help_with_an_example(run, command):
    """`twoclock COMMAND --help` exits 0 and shows an example."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example" in out


def test_the_program_runs_as_a_module():
    """`python -m twoclock --version` prints the version."""
    done = subprocess.run(
        [sys.executable, "-m", "twoclock", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0.1.0"


def test_what_only_some_runs_say_is_not_said_of_all(run, tmp_path):
    """A framework that some runs do not tell stands in their rows, not in the title."""
    (tmp_path / "plain.csv").write_text("step,val_acc\n0,0.1\n10,0.6\n")
    (tmp_path / "named.csv").write_text("step,val_acc\n0,0.1\n10,0.7\n")
    (tmp_path / "runs.yaml").write_text("- {path: named.csv, framework: mine}\n")
    _, out, _ = run("runs", tmp_path, "--batch-size", 64)
    assert "framework mine" not in out.splitlines()[0]
    assert "mine" in out


def test_unknown_task_is_named(run, logs):
    """A target for a task that no run has is refused, with the tasks there are."""
    code, _, err = run("fit", logs, "--target", "nope=0.6", *FAST)
    assert code == 2
    assert "--target nope=...: no such task; the runs have: simulated" in err


def test_no_path_is_wrong_usage(run):
    """`fit` without a path says what to give and exits 2."""
    code, _, err = run("fit")
    assert code == 2
    assert "no PATH given" in err


def test_a_target_at_the_base_leaves_the_failure_clock(run, logs):
    """A target that the base policy meets is refused by name; failures are still fitted."""
    code, out, _ = run("fit", logs, "--target", 0.2, "--json", *FAST)
    found = json.loads(out)
    assert code == 0
    assert found["learning"] == []
    assert len(found["failure"]) == 1
    assert any("target_at_base" in w["message"] for w in found["warnings"])


def test_accuracies_and_scores_are_not_pooled(run, tmp_path):
    """Runs whose metric is a score make a stratum of their own."""
    for size in (64, 256):
        for seed in range(2):
            for kind, factor in (("accuracy", 1.0), ("score", 2.0)):
                curve = ((0, 0.1), (10, 0.3 + 0.01 * seed), (20, 0.65), (30, 0.7))
                rows = [(s, factor * a) for s, a in curve]
                text = "step,val_acc\n" + "".join(f"{s},{a}\n" for s, a in rows)
                (tmp_path / f"{kind}-b{size}-s{seed}.csv").write_text(text)
    entries = "".join(
        f'- {{path: "*-b{b}-*.csv", batch_size: {b}, lr: 1.0e-6}}\n' for b in (64, 256)
    )
    (tmp_path / "runs.yaml").write_text(entries)
    _, out, _ = run("fit", tmp_path, "--target", 0.6, "--json", *FAST)
    fits = json.loads(out)["learning"]
    assert [fit["n_runs"] for fit in fits] == [4, 4]
    assert len({fit["stratum"]["metric"] for fit in fits}) == 2
    _, out, _ = run("fit", tmp_path, "--target", 0.6, "--pool", "metric", "--json", *FAST)
    assert all("metric" not in fit["stratum"] for fit in json.loads(out)["learning"])


@pytest.fixture
def both_clocks(tmp_path):
    """Write an events table with two targets and failures."""
    lines = ["run_id,batch_size,seed,clock,target,lower,upper"]
    for b in (64, 256, 1024):
        for s in range(3):
            learn, fail = 1000 * b**0.3 * (1 + 0.1 * s), 50_000 * (1 + 0.2 * s)
            lines += [f"b{b}-s{s},{b},{s},learning,{t},{learn * t},{learn * t}" for t in (0.5, 0.6)]
            lines.append(f"b{b}-s{s},{b},{s},failure,,{fail},{fail}")
    path = tmp_path / "events.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_target_selects_rows_of_an_events_table(run, both_clocks):
    """--target keeps the learning rows of that target and the failures; an absent one is named."""
    found = json.loads(run("fit", both_clocks, "--json", *FAST)[1])
    assert [fit["targets"] for fit in found["learning"]] == [[0.5], [0.6]]
    found = json.loads(run("fit", both_clocks, "--target", 0.6, "--json", *FAST)[1])
    assert [fit["targets"] for fit in found["learning"]] == [[0.6]]
    assert len(found["failure"]) == 1
    assert len(found["safe_windows"]) == 1
    code, _, err = run("fit", both_clocks, "--target", 0.7)
    assert code == 2
    assert "the events table has 0.5, 0.6 targets" in err


def test_json_warnings_hold_those_of_single_fits(run, both_clocks):
    """Every note has a code and says which fit it is about."""
    found = json.loads(run("fit", both_clocks, "--select", "seed == 0", "--json", *FAST)[1])
    own = [w for w in found["warnings"] if w["fit"]]
    assert {w["fit"]["clock"] for w in own} == {"learning", "failure"}
    assert all(w["code"] and w["message"] for w in found["warnings"])
