"""s3:// against a local S3 server: the same runs as here, and trouble in one line."""

import socket
import subprocess
import sys
import time
import urllib.request

import pandas as pd
import pytest

from tests.reading import read, write
from twoclock.errors import NoUsableRuns
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.store import write_store

pytestmark = pytest.mark.sinks
s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")

TABLE = "step,reward,val_acc\n" + "".join(f"{s},0.{s}5,0.{s}7\n" for s in range(1, 8))
FILES = {
    "b64/seed0/metrics.csv": TABLE,
    "b64/seed1/metrics.csv": TABLE.replace("0.", "0.0"),
    "ü 学习/x.jsonl.gz": '{"step": 1, "val_acc": 0.5}\n{"step": 2, "val_acc": 0.6}\n',
    "model.safetensors": "weights",
}


@pytest.fixture(scope="module")
def server():
    """Run an S3 server on a free port; return its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{address}/moto-api/data.json", timeout=1).read()
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def bucket(server, monkeypatch, tmp_path):
    """Put the files into a bucket and let every client of this process use the server."""
    for name, value in (
        ("AWS_ENDPOINT_URL", server),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("logs")
    folder = write(tmp_path / "put", FILES)
    for path in (p for p in folder.rglob("*") if p.is_file()):
        store.put_file(str(path), f"logs/study/{path.relative_to(folder).as_posix()}")
    yield store
    store.rm("logs", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_bucket_reads_like_a_folder(bucket, tmp_path):
    """Tables from S3 are those of a local copy, with the addresses as sources."""
    far = read_runs("s3://logs/study", ReadOptions(batch_size=8))
    near = read(tmp_path / "study", FILES, batch_size=8)
    pd.testing.assert_frame_equal(far.steps, near.steps)
    pd.testing.assert_frame_equal(far.evals, near.evals)
    here = str(tmp_path / "study")
    assert far.runs["source"].tolist() == [
        text.replace(here, "s3://logs/study") for text in near.runs["source"]
    ]
    assert len(far.runs) == 3


def test_converted_tables_read_back_from_a_bucket(bucket, tmp_path):
    """A folder of stored tables on S3 is read as the unit that it is."""
    found = read(tmp_path / "study", FILES, batch_size=8)
    for path in write_store(found, tmp_path / "tables"):
        bucket.put_file(str(path), f"logs/tables/{path.name}")
    far = read_runs("s3://logs/tables")
    pd.testing.assert_frame_equal(far.runs, found.runs)
    pd.testing.assert_frame_equal(far.steps, found.steps)


def test_a_single_object_is_read(bucket):
    """A key that names a file gives its run."""
    runs = read_runs("s3://logs/study/b64/seed0/metrics.csv", ReadOptions(batch_size=8))
    assert runs.runs["source"].tolist() == ["s3://logs/study/b64/seed0/metrics.csv"]


@pytest.mark.parametrize("address", ["s3://nowhere/x", "s3://logs/nothing"])
def test_what_is_not_there_is_one_line(bucket, address):
    """A missing bucket and a missing key name the address."""
    with pytest.raises(NoUsableRuns, match=f"{address}: no such file or folder") as caught:
        read_runs(address)
    assert "\n" not in str(caught.value)


def test_no_credentials_is_one_line(bucket, monkeypatch, tmp_path):
    """Without credentials the line says so."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(NoUsableRuns, match="check the credentials") as caught:
        read_runs("s3://logs/study")
    assert "\n" not in str(caught.value)
