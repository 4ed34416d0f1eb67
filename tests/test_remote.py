"""Logs at addresses: copied, read and named as if they lay here; trouble is one line."""

import functools
import http.server
import json
import sys
import threading

import pandas as pd
import pytest

from tests.reading import read, reasons, write
from twoclock.errors import NoUsableRuns, SettingsError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.remote import fetched, is_address

fsspec = pytest.importorskip("fsspec")

TABLE = "step,reward,val_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))
OTHER = TABLE.replace("0.", "0.0")


@pytest.fixture
def memory():
    """Give the store of memory://, empty before and after."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs.clear()
    yield store
    store.store.clear()
    store.pseudo_dirs.clear()


def put(store, files):
    """Write {path: text or bytes} into a store."""
    for name, content in files.items():
        store.pipe(name, content if isinstance(content, bytes) else content.encode())


LOGS = {
    "/logs/b64/seed0/metrics.csv": TABLE, "/logs/b64/seed1/metrics.csv": OTHER,
    "/logs/bad.csv": "", "/logs/b64/model.safetensors": b"x" * 1000,
    "/logs/runs.yaml": "- {path: 'b64/*', batch_size: 64}\n",
}  # fmt: skip


def test_a_remote_folder_reads_like_the_same_folder_here(memory, tmp_path):
    """Tables, notes and refusals are those of a local copy, under remote addresses."""
    put(memory, LOGS)
    far = read_runs("memory://logs")
    near = read(tmp_path / "logs", {k.removeprefix("/logs/"): v for k, v in LOGS.items()})
    for name in ("steps", "evals"):
        pd.testing.assert_frame_equal(getattr(far, name), getattr(near, name))
    here = str(tmp_path / "logs")
    assert far.runs["source"].tolist() == [
        text.replace(here, "memory://logs") for text in near.runs["source"]
    ]
    assert [f.path for f in far.files] == [
        f.path.replace(here, "memory://logs") for f in near.files
    ]
    assert [f.sha256 for f in far.files] == [f.sha256 for f in near.files]
    assert [r.path for r in far.refused] == ["memory://logs/bad.csv"]
    assert "twoclock-" not in repr(far.to_dict())


def test_a_single_remote_file_brings_its_settings(memory):
    """A file given by address is named after it, and runs.yaml beside it counts."""
    put(memory, {**LOGS, "/logs/b64/seed0/runs.yaml": "- {batch_size: 32}\n"})
    runs = read_runs("memory://logs/b64/seed0/metrics.csv")
    assert runs.runs["run_id"].tolist() == ["seed0"]
    assert runs.runs["batch_size"].tolist() == [32]
    assert runs.runs["source"].tolist() == ["memory://logs/b64/seed0/metrics.csv"]


def test_commands_take_addresses_and_settings_repeat_them(run, memory, tmp_path):
    """runs, events, fit and convert read memory://; settings.toml holds the address."""
    put(memory, LOGS)
    code, out, _ = run("runs", "memory://logs", "--json")
    assert code == 0
    assert [row["run_id"] for row in json.loads(out)] == ["b64/seed0", "b64/seed1"]
    code, _, _ = run("convert", "memory://logs", "--out", tmp_path / "tables")
    assert code == 0
    code, out, _ = run("runs", tmp_path / "tables", "--sources")
    assert "memory://logs/b64/seed0/metrics.csv (csv)" in " ".join(out.split())
    code, _, err = run("fit", "memory://logs", "--target", 0.4, "--draws", 50,
                       "--out", tmp_path / "report")  # fmt: skip
    assert code == 0, err
    told = (tmp_path / "report/settings.toml").read_text(encoding="utf-8")
    assert "memory://logs" in told
    assert "twoclock-" not in told


def test_remote_and_local_paths_are_read_together(memory, tmp_path):
    """An address beside a local folder gives the runs of both."""
    put(memory, LOGS)
    write(tmp_path, {"here.csv": TABLE.replace("0.", "0.1")})
    runs = read_runs(["memory://logs", tmp_path], ReadOptions(batch_size=64))
    assert sorted(runs.runs["run_id"]) == ["b64/seed0", "b64/seed1", "here"]


def test_only_files_that_could_be_logs_are_copied(memory):
    """Weights, hidden folders and pictures stay where they are; Hydra's settings come along."""
    put(memory, {**LOGS, "/logs/.git/x.csv": "a", "/logs/plot.png": b"1",
                 "/logs/b64/seed0/.hydra/overrides.yaml": "[]"})  # fmt: skip
    with fetched(["memory://logs"]) as place:
        (root,) = place.paths
        names = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert names == {"b64/seed0/metrics.csv", "b64/seed1/metrics.csv", "bad.csv", "runs.yaml",
                     "b64/seed0/.hydra/overrides.yaml"}  # fmt: skip
    assert not root.exists()


def test_the_size_of_copies_is_bounded(memory):
    """More than --max-download is refused before or while it is copied, in one line."""
    put(memory, {"/logs/big.csv": TABLE + "1" * 5_000_000})
    with pytest.raises(NoUsableRuns, match=r"holds more than 0\.001 GiB .* --max-download"):
        read_runs("memory://logs", ReadOptions(max_download=0.001))
    with pytest.raises(SettingsError, match="max_download is 0"):
        ReadOptions(max_download=0)


def test_progress_tells_the_address(memory):
    """Copying is told in bytes, with the address and never the place of the copy."""
    put(memory, LOGS)
    told = []
    with fetched(["memory://logs"], progress=lambda *call: told.append(call)):
        pass
    assert told[-1][0] == told[-1][1]
    assert all("memory://logs/" in text for _, _, text in told)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory://nothing", "no such file or folder"),
        ("nonsense://x/y", "nonsense:// is not known"),
    ],
)
def test_what_cannot_be_reached_is_one_line(memory, address, words):
    """A missing folder and an unknown protocol name the address and the reason."""
    with pytest.raises(NoUsableRuns, match=words) as caught:
        read_runs(address)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("s3://b/x", "s3fs", "s3"), ("gs://b/x", "gcsfs", "gs"), ("hf://d/x", "huggingface_hub", "hf"),
     ("memory://x", "fsspec", "remote")],
)  # fmt: skip
def test_a_missing_extra_names_the_install_command(monkeypatch, address, package, extra):
    """Without the package of a store, the line says what to install."""
    if package != "fsspec" and address.partition(":")[0] in fsspec.registry:
        pytest.skip("the store is loaded already")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NoUsableRuns) as caught:
        read_runs(address)
    assert f"pip install 'twoclock[{extra}]'" in str(caught.value)


def test_errors_of_a_store_are_one_line(monkeypatch, memory):
    """Whatever a store raises is a refusal that names the address."""
    put(memory, LOGS)

    def fails(*_, **__):
        msg = "line one\nline two"
        raise RuntimeError(msg)

    monkeypatch.setattr(type(memory), "find", fails)
    with pytest.raises(NoUsableRuns, match="RuntimeError: line one line two"):
        read_runs("memory://logs")
    monkeypatch.setattr(type(memory), "find", lambda *_, **__: (_ for _ in ()).throw(
        PermissionError("Access Denied")))  # fmt: skip
    with pytest.raises(NoUsableRuns, match="check the credentials"):
        read_runs("memory://logs")


def test_a_name_that_leads_out_of_the_folder_is_refused(monkeypatch, memory):
    """A key with '..' is not written outside the copy."""
    put(memory, LOGS)
    find = type(memory).find

    def hostile(self, path, **options):
        return {**find(self, path, **options), "/logs/../../evil.csv": {"size": 3, "type": "file"}}

    monkeypatch.setattr(type(memory), "find", hostile)
    runs = read_runs("memory://logs")
    assert any("leads out of the folder" in reason for reason in reasons(runs).values())


def test_files_and_http_servers_are_addresses_too(tmp_path):
    """file:// reads a folder, http:// a file of a server."""
    pytest.importorskip("aiohttp")
    write(tmp_path, {"run7/metrics.csv": TABLE})
    runs = read_runs(f"file://{tmp_path}", ReadOptions(batch_size=8))
    assert runs.runs["source"].tolist() == [f"file://{tmp_path}/run7/metrics.csv"]
    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/run7/metrics.csv"
        runs = read_runs(address, ReadOptions(batch_size=8))
        assert runs.runs["run_id"].tolist() == ["run7"]
        assert runs.runs["source"].tolist() == [address]
        with pytest.raises(NoUsableRuns, match="no such file or folder"):
            read_runs(address.replace("run7", "run8"), ReadOptions(batch_size=8))
    finally:
        server.shutdown()
        server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that logs nothing."""

    def log_message(self, *_):
        """Say nothing."""


def test_a_path_object_keeps_the_address(tmp_path):
    """`Path` takes a slash from an address; it is put back, but not into local names."""
    from pathlib import Path

    assert is_address(Path("s3://bucket/logs"))
    assert not is_address(Path("logs/x"))
    local = tmp_path / "s3:" / "x"
    local.mkdir(parents=True)
    assert not is_address(local)
