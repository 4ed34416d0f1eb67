"""Whatever lies in a folder of logs: bounded time and memory, no code run, one line a trouble."""

import gzip
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
import yaml
import zstandard

from tests.reading import codes, reasons, write
from twoclock.cli import main
from twoclock.errors import NoUsableRuns, SettingsError
from twoclock.frameworks.yaml_text import load_yaml
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs

TABLE = "step,reward,val_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))
GIB = 2**30

CHILD = """
import json, sys, time
from tests.peak_memory import peak_mb
from twoclock.cli import main
from twoclock.errors import NoUsableRuns, SettingsError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
base = peak_mb()
start = time.process_time()
out = {"runs": [], "refused": [], "notes": [], "error": ""}
try:
    runs = read_runs(sys.argv[1], ReadOptions(batch_size=8))
    out["runs"] = sorted(runs.runs["run_id"])
    out["refused"] = [r.to_dict() for r in runs.refused]
    out["notes"] = [n.to_dict() for n in runs.notes]
except (NoUsableRuns, SettingsError) as err:
    out["error"] = str(err)
    out["refused"] = [{"path": p, "reason": r} for p, r in getattr(err, "refused", ())]
out["seconds"] = time.process_time() - start
out["mb"] = peak_mb() - base
print(json.dumps(out))
"""


def bounded(folder, *, seconds=20, megabytes=300):
    """Read a folder in a process of its own; require little work and memory, and its answer."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    out = json.loads(done.stdout)
    assert out["seconds"] < seconds
    assert out["mb"] < megabytes
    assert all("\n" not in item["reason"] for item in out["refused"])
    return out


def sparse(path, size, head=b""):
    """Make a file that says to be large and takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def test_sparse_lines_of_two_gigabytes_cost_little(tmp_path):
    """A file that is one endless line is passed over, whatever it is called."""
    write(tmp_path, {"good.csv": TABLE})
    for name in ("a.jsonl", "b.csv", "c.log", "d.json", "e", "trainer_state.json", "f.txt"):
        sparse(tmp_path / name, 2 * GIB)
    out = bounded(tmp_path, seconds=30)
    assert out["runs"] == ["good"]


@pytest.mark.slow
def test_sparse_lines_that_begin_like_a_log_cost_little(tmp_path):
    """The same where the first bytes are those of a log."""
    write(tmp_path, {"good.csv": TABLE})
    heads = {
        "a.jsonl": b'{"step": 1, "val_acc": 0.5}\n{"step": 2, "x": "', "b.csv": b"step,val_acc\n1,",
        "c.log": b"step:1 - critic/score/mean:0.5\n", "d.json": b'[{"step": 1, "val_acc": 0.5},',
        "trainer_state.json": b'{"global_step": 7, "log_history": [',
        "run/run.json": b'{"format": "',
    }  # fmt: skip
    for name, head in heads.items():
        sparse(tmp_path / name, 2 * GIB, head)
    out = bounded(tmp_path, seconds=40)
    assert "good" in out["runs"]
    told = json.dumps([out["refused"], out["notes"]])
    for name in ("a.jsonl", "d.json", "trainer_state.json", "run.json"):
        assert name in told


def test_sparse_binary_files_of_a_hundred_gigabytes_cost_little(tmp_path):
    """Databases, Parquet, event files and W&B files that only say to be large."""
    write(tmp_path, {"good.csv": TABLE})
    heads = {
        "a.db": b"SQLite format 3\0", "b.parquet": b"PAR1", "events.out.tfevents.1.host": b"",
        "run-x.wandb": b":W&B\xe1\xbe\x00", "mlflow.db": b"", "c.sqlite": b"SQLite format 3\0",
        "t/runs.parquet": b"PAR1", "t/steps.parquet": b"PAR1", "t/evals.parquet": b"PAR1",
    }  # fmt: skip
    for name, head in heads.items():
        sparse(tmp_path / name, 100 * GIB, head)
    out = bounded(tmp_path)
    assert out["runs"] == ["good"]


def bomb_lines(opened, rows):
    """Write rows, and then zeros without end."""
    opened.write(rows)
    zeros = b"0" * (1 << 20)
    for _ in range(600):
        opened.write(zeros)


@pytest.mark.slow
def test_packed_bombs_stop_early_with_a_note(tmp_path):
    """Packed files that unpack to gigabytes are read no further than it takes to see it."""
    rows = b'{"step": 1, "val_acc": 0.5}\n{"step": 2, "val_acc": 0.6}\n'
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", compresslevel=1) as file:
        bomb_lines(file, rows)
    with (tmp_path / "b.jsonl.zst").open("wb") as raw, \
            zstandard.ZstdCompressor().stream_writer(raw) as file:  # fmt: skip
        bomb_lines(file, rows.replace(b"0.5", b"0.4"))
    with gzip.open(tmp_path / "c.json.gz", "wb", compresslevel=1) as file:
        bomb_lines(file, b'[{"step": 1}, "')
    out = bounded(tmp_path, seconds=30, megabytes=900)
    assert {"a", "b"} <= set(out["runs"])
    bombs = [run for note in out["notes"] if note["code"] == "compression_bomb"
             for run in note["runs"]]  # fmt: skip
    assert {"a", "b"} <= set(bombs)
    assert "c.json.gz" in json.dumps([out["refused"], out["notes"]])


def test_well_packed_logs_are_no_bombs(tmp_path):
    """A log of many equal rows shrinks far and is still read whole."""
    row = '{"step": %d, "loss": 0.0, "reward": 0.0, "grad_norm": 0.0, "val_acc": 0.5}\n'
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(row % step for step in range(1, 20_001))
    runs = read_runs(tmp_path, ReadOptions(batch_size=8))
    assert len(runs.evals) == 20_000
    assert "compression_bomb" not in codes(runs)


def test_zip_files_are_never_opened(tmp_path):
    """A zip bomb is no log, also under the name of one."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.csv", b"0" * 50_000_000)
    write(tmp_path, {"b.csv": (tmp_path / "a.zip").read_bytes(), "good.csv": TABLE})
    runs = read_runs(tmp_path, ReadOptions(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["good"]
    assert set(reasons(runs)) == {"b.csv"}


def test_deep_json_is_refused(tmp_path):
    """A hundred thousand brackets are no log and no crash."""
    deep = "[" * 100_000
    inner = '{"a":' * 100_000
    write(tmp_path, {
        "a.json": deep, "b.jsonl": f'{{"step": 1, "x": {deep}\n', "c.jsonl": inner + "\n",
        "d.json": '[{"step": 1, "x": ' + inner, "trainer_state.json": '{"log_history": ' + deep,
        "run/run.json": deep, "e.log": "{'a': " * 100_000, "config.json": inner, "good.csv": TABLE,
        "f.csv": "step,x\n" + '"' * 100_001,
    })  # fmt: skip
    out = bounded(tmp_path)
    assert "good" in out["runs"]


YAML_BOMBS = {
    "aliases": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)),
    "mappings": "a0: &a0 {x: 1}\n"
    + "".join(
        f"a{i}: &a{i} {{{','.join(f'k{j}: *a{i - 1}' for j in range(10))}}}\n" for i in range(1, 30)
    ),
    "brackets": "[" * 1_000_000,
    "dashes": "- " * 500_000,
    "braces": "{a: " * 250_000,
    "itself": "a: &a [*a]",
    "tag": "!!python/object/apply:os.system ['touch /tmp/twoclock-was-here']",
}


@pytest.mark.parametrize("name", sorted(YAML_BOMBS))
def test_hostile_yaml_is_refused_in_no_time(name):
    """Deep nesting, aliases of aliases and tags that build objects are named at once."""
    start = time.perf_counter()
    with pytest.raises((ValueError, yaml.YAMLError)):
        load_yaml(YAML_BOMBS[name])
    assert time.perf_counter() - start < 5


def test_hostile_yaml_beside_logs_runs_no_code(tmp_path):
    """As runs.yaml it is one line; as a configuration it is as if not there."""
    for name, text in YAML_BOMBS.items():
        folder = write(tmp_path / name, {"r/good.csv": TABLE, "r/runs.yaml": text})
        with pytest.raises(SettingsError, match="cannot be read as YAML") as caught:
            read_runs(folder)
        assert "\n" not in str(caught.value)
        (folder / "r/runs.yaml").unlink()
        write(folder, {"r/config.yaml": text, "r/.hydra/overrides.yaml": text,
                       "r/.hydra/config.yaml": text})  # fmt: skip
        runs = read_runs(folder, ReadOptions(batch_size=8))
        assert len(runs.runs) == 1
    entry = "- {seed: &a0 [1,1,1,1,1,1,1,1,1,1], task: [" + "*a0," * 9 + "*a0]}"
    write(tmp_path / "r", {"good.csv": TABLE, "runs.yaml": entry})
    with pytest.raises(SettingsError, match=r"seed is \[1, 1"):
        read_runs(tmp_path / "r")
    assert not Path("/tmp/twoclock-was-here").exists()


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        """Name the call that unpickling makes."""
        return (Path.touch, (self.mark,))


def test_pickles_under_the_names_of_logs_run_no_code(tmp_path):
    """A pickle is never loaded, whatever it is called."""
    mark = tmp_path / "mark"
    folder = tmp_path / "logs"
    for protocol in (0, 4):
        data = pickle.dumps(Trap(mark), protocol=protocol)
        names = ("a.json", "b.jsonl", "c.log", "d", "e.csv", "f.parquet", "g.wandb", "h.db",
                 "trainer_state.json", "training_args.bin", "i.jsonl.gz")  # fmt: skip
        write(folder, {f"{protocol}/{name}": data for name in names})
    write(folder, {"good.csv": TABLE})
    runs = read_runs(folder, ReadOptions(batch_size=8))
    assert runs.runs["run_id"].tolist() == ["good"]
    assert not mark.exists()


def test_what_is_no_regular_file_is_never_opened(tmp_path):
    """FIFOs, sockets, devices and loops of links wait for nobody and end."""
    folder = write(tmp_path / "logs", {"good.csv": TABLE, "dir/metrics.jsonl/x.txt": "hello"})
    os.mkfifo(folder / "a.jsonl")
    os.mkfifo(folder / "runs.yaml")
    os.mkfifo(folder / "config.yaml")
    os.mkfifo(folder / "run.json")
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "tty.log").symlink_to("/dev/tty")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "up").symlink_to(folder)
    (folder / "dir" / "round").symlink_to("../dir")
    (folder / "gone.csv").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        short = Path(f"/tmp/tc-{os.getpid()}.sock")
        server.bind(str(short))
        try:
            (folder / "socket.log").symlink_to(short)
            out = bounded(folder)
        finally:
            short.unlink()
    assert out["runs"] == ["good"]
    for name in ("a.jsonl", "loop.csv", "zero.csv"):
        with pytest.raises(NoUsableRuns, match="is no regular file"):
            read_runs(folder / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_and_folders_are_named(tmp_path):
    """What may not be read is refused with the system's reason, the rest is read."""
    folder = write(tmp_path, {"good.csv": TABLE, "closed.csv": TABLE, "shut/x.csv": TABLE})
    (folder / "closed.csv").chmod(0)
    (folder / "shut").chmod(0)
    runs = read_runs(folder, ReadOptions(batch_size=8))
    (folder / "shut").chmod(0o700)
    assert "permission denied" in reasons(runs)["closed.csv"]
    assert "permission denied" in reasons(runs)["shut"]


@pytest.mark.slow
def test_reading_many_tiny_files_is_linear(tmp_path):
    """Four times the files take about four times as long, and the good run is found."""
    times = []
    for count in (2_000, 8_000):
        folder = tmp_path / str(count)
        for number in range(count):
            path = folder / f"{number // 1000}" / f"{number}.txt"
            if number % 1000 == 0:
                path.parent.mkdir(parents=True)
            path.write_bytes(b"hello\n")
        write(folder, {"good.csv": TABLE})
        start = time.perf_counter()
        runs = read_runs(folder, ReadOptions(batch_size=8))
        times.append(time.perf_counter() - start)
        assert runs.runs["run_id"].tolist() == ["good"]
    assert times[1] < 4 * 2.5 * times[0]


def test_a_file_that_changes_while_it_is_read_is_no_crash(tmp_path):
    """Truncating, replacing and removing a log under the reader gives rows or a refusal."""
    path = tmp_path / "live.jsonl"
    text = "".join(json.dumps({"step": s, "val_acc": s / 3001, "loss": 0.1}) + "\n"
                   for s in range(1, 3001))  # fmt: skip
    write(tmp_path, {"good.csv": TABLE})
    stop = threading.Event()

    def change():
        while not stop.is_set():
            path.write_text(text)
            path.write_text(text[: len(text) // 3])
            other = path.with_suffix(".new")
            other.write_text(text)
            other.replace(path)
            path.unlink()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(25):
            runs = read_runs(tmp_path, ReadOptions(batch_size=8))
            assert "good" in set(runs.runs["run_id"])
    finally:
        stop.set()
        thread.join()


def test_tables_of_very_many_columns_cost_little(tmp_path):
    """Sixty thousand columns, of one name or of one chart's run, are read in linear time."""
    count = 60_000
    heads = {"many": [f"k{i}" for i in range(count)], "same": ["k"] * count,
             "chart": [f"a - k{i}" for i in range(count)]}  # fmt: skip
    for name, keys in heads.items():
        row = ",0.5" * count
        text = f"step,{','.join(keys)},val_acc\n1{row},0.25\n2{row},0.{len(name)}\n"
        text = text.replace(",val_acc", ",a - val_acc") if name == "chart" else text
        write(tmp_path, {f"{name}.csv": text})
    out = bounded(tmp_path)
    assert out["runs"] == ["a", "many", "same"]


def test_a_document_of_very_many_runs_is_refused(tmp_path):
    """Objects side by side are runs, but not without end."""
    run = '"r%d": {"steps": [1, 2], "val_acc": [0.1, 0.2]}'
    text = "{" + ", ".join(run % i for i in range(10_001)) + "}"
    write(tmp_path, {"a.json": text, "good.csv": TABLE})
    out = bounded(tmp_path)
    assert out["runs"] == ["good"]
    assert "more than 10,000 runs in one document" in out["refused"][0]["reason"]


def test_names_in_a_log_reach_no_terminal_as_commands(tmp_path, capsys):
    """Keys, run names, models and values with escapes or line ends are printed as escapes."""
    evil = "../../x\x1b]0;evil\x07\nval_acc"
    rows = [{"step": s, "val_acc": s / 9, "loss": evil if s == 3 else 0.5, "run_id": evil,
             "model": evil, evil: 0.25, "task": evil} for s in range(1, 8)]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write(tmp_path, {"logs/a.jsonl": text, "logs/b.jsonl": text.replace("val_acc", "x"),
                     f"logs/{evil.replace('/', '')}.csv": ""})  # fmt: skip
    logs, out = str(tmp_path / "logs"), str(tmp_path / "out")
    for words in (["runs", logs, "--sources"], ["runs", logs, "--json"],
                  ["events", logs, "--target", "0.3"], ["convert", logs, "--out", out],
                  ["fit", logs, "--target", "0.3", "--draws", "20"]):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main([*words, "--batch-size", "8", "--map", f"reward={evil}"])
        assert stop.value.code == 0
        told = capsys.readouterr()
        assert "evil" in told.out + told.err
        assert not set("\x1b\x07\r") & set(told.out + told.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out"]
