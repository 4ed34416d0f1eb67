"""W&B run folders: records over blocks, keys, configuration, endings, damage, any bytes."""

import gzip
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.event_bytes import field
from tests.reading import curve, reasons, write
from tests.wandb_bytes import BLOCK, HEADER, config, ended, framed, history, item, run
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.finding import find_files
from twoclock.sources.wandb_run import read_wandb

FOLDER = "wandb/offline-run-20260101_120000-ab12"
NAME = f"{FOLDER}/run-ab12.wandb"


def log_of(folder, contents, name=NAME, **files):
    """Write a log of some records (or bytes) and read it."""
    data = contents if isinstance(contents, bytes) else framed(contents)
    path = write(folder, {name: data, **files}) / name
    (log,) = read_wandb(path, ReadOptions(map={"loss": ("odd", "a.b")}))
    return log


def rows(count, pad=""):
    """Return history records with rising rewards."""
    return [history({"_step": s, "train/reward": s / 8, "pad": pad}) for s in range(count)]


def test_a_run_is_named_dated_and_configured_by_its_records(tmp_path):
    """Name, id, start and configuration stand in the log; later updates win."""
    contents = [run(lr=1e-6, seed=1), config({"seed": 2, "gone": 1}), *rows(2),
                config({}, removed=["gone"]), ended(0)]  # fmt: skip
    log = log_of(tmp_path, contents)
    assert (log.name, log.key, log.started) == ("b64-s0", "grpo/ab12", 1_700_000_000.5)
    assert log.config == {"lr": 1e-6, "seed": 2}
    assert log.facts["ended"].value == "completed"
    assert log.rows.values["train/reward"].value.tolist() == [0.0, 0.125]


@pytest.mark.parametrize(
    ("tail", "expected"), [([ended(0)], "completed"), ([ended(255)], "crashed"), ([], None)]
)
def test_how_a_run_ended(tmp_path, tail, expected):
    """The exit code tells; a log without one does not."""
    facts = log_of(tmp_path, [run(), *rows(1), *tail]).facts
    assert (facts["ended"].value if facts else None) == expected


def test_nested_configurations_are_set_one_by_one(tmp_path):
    """An update of an inner setting leaves the others."""
    update = field(5, field(1, item(("actor", "optim", "lr"), 2e-6)))
    log = log_of(tmp_path, [run(actor={"optim": {"lr": 1e-6, "wd": 0.1}}), update, *rows(1)])
    assert log.config == {"actor.optim.lr": 2e-6, "actor.optim.wd": 0.1}


def test_the_written_configuration_completes_the_records(tmp_path):
    """`files/config.yaml`, which a synced run has, goes before what the log says."""
    text = "_wandb:\n  value: {}\nlr:\n  value: 1e-05\nseed:\n  value: 7\n"
    files = {f"{FOLDER}/files/config.yaml": text}
    log = log_of(tmp_path, [run(lr=1e-6, model="m"), *rows(1)], **files)
    assert log.config == {"lr": "1e-05", "seed": 7, "model": "m"}
    assert [path.name for path in log.files] == ["run-ab12.wandb", "config.yaml"]


def test_keys_are_plain_nested_or_with_slashes(tmp_path):
    """A plain key and a path of one are the same; deeper ones are joined by dots."""
    old = field(2, field(1, item("val/acc", 0.5)) + field(1, item("reward", 1.5)))
    new = history({("val/acc",): 0.25, ("a", "b"): 2.0, "odd": {"c": 1}})
    values = log_of(tmp_path, [run(), old, new]).rows.values
    assert values["val/acc"].value.tolist() == [0.5, 0.25]
    assert values["a.b"].value.tolist() == [2.0]


def test_values_that_are_no_numbers_of_json_are_kept_as_what_they_are(tmp_path):
    """NaN and infinities are numbers, null is NaN, texts and lists are no numbers."""
    texts = ["NaN", "Infinity", "-Infinity", '"nan"', "null", "1e-300", "-7", "true", '"x"', "[1]"]
    contents = [field(2, field(1, item(("loss",), None, raw=text))) for text in texts]
    log = log_of(tmp_path, [run(), *contents])
    got = log.rows.values["loss"].value.tolist()
    expected = [math.nan, math.inf, -math.inf, math.nan, math.nan, 1e-300, -7.0]
    assert [str(v) for v in got] == [str(v) for v in expected]
    assert log.rows.rejected["loss"].count == 3


def test_histograms_and_pictures_are_no_metrics(tmp_path):
    """What a picture under a metric's name says of its size is no value."""
    picture = {("val/samples", "_type"): "images", ("val/samples", "width"): 4, "val/acc": 0.5}
    log = log_of(tmp_path, [run(), history(picture)])
    assert set(log.rows.values) == {"val/acc"}


def test_the_step_of_the_record_stands_where_no_item_has_it(tmp_path):
    """Versions differ in where the step is."""
    contents = [run(), history({"loss": 1.0}, step=0), history({"loss": 2.0, "_step": 4}, step=9)]
    assert log_of(tmp_path, contents).rows.values["_step"].value.tolist() == [0, 4]


@pytest.mark.parametrize("size", [10, BLOCK - 40, BLOCK, 3 * BLOCK])
def test_records_over_blocks_are_put_together(tmp_path, size):
    """A record may fill several blocks, and the next begin anywhere."""
    log = log_of(tmp_path, [run(), *rows(6, "x" * size)])
    assert log.rows.values["train/reward"].value.tolist() == [s / 8 for s in range(6)]
    assert log.notes == ()


def test_damage_costs_its_block_and_is_named(tmp_path):
    """Records behind a damaged block are read, and the place of the damage is told."""
    data = bytearray(framed([run(), *rows(2000, "x" * 40)]))
    data[BLOCK + 900] ^= 0xFF
    log = log_of(tmp_path, bytes(data))
    (told,) = [n for n in log.notes if n.code == "damaged_records"]
    at = int(told.where.rpartition(" ")[2])
    assert BLOCK <= at <= BLOCK + 900
    values = log.rows.values["train/reward"].value.tolist()
    assert values[-1] == 1999 / 8
    assert 2000 - len(values) <= BLOCK // 60
    assert values == sorted(set(values))


def test_zeros_behind_the_records_end_the_file(tmp_path):
    """Space that was never written to is no damage."""
    log = log_of(tmp_path, framed([run(), *rows(3)]) + bytes(3 * BLOCK))
    assert (log.rows.count, log.notes) == (3, ())


def test_a_live_run_without_data_says_so(tmp_path):
    """Seven bytes are a run that has not written yet, not a broken file."""
    with pytest.raises(SourceError, match="no data yet: W&B writes a live run every 15 s"):
        log_of(tmp_path / "a", HEADER)
    with pytest.raises(SourceError, match="no data: no history is written"):
        log_of(tmp_path / "b", [run()])


def test_another_version_is_refused(tmp_path):
    """A mark with another number behind it is no log that is known."""
    with pytest.raises(SourceError, match="no W&B log of a known version"):
        log_of(tmp_path, framed([run(), *rows(2)], header=b":W&B\x00\x00\x09"))


def test_a_run_folder_is_one_run_and_its_own_logs_are_none(tmp_path):
    """Of a whole `wandb` folder with its links only the run is read, once."""
    data = framed([run(), *[history({"_step": s, "val/acc": s / 10}) for s in range(3)]])
    folder = write(
        tmp_path,
        {
            NAME: data,
            f"{FOLDER}/logs/debug.log": "step:1 - x:1\n",
            f"{FOLDER}/files/wandb-summary.json": "{}",
            f"{FOLDER}/files/requirements.txt": "wandb==0.31.0\n",
            f"{FOLDER}/files/media/table/t.table.json": '{"columns": [], "data": []}',
        },
    )
    (folder / "wandb/latest-run").symlink_to(folder / FOLDER)
    (folder / "wandb/debug.log").symlink_to(folder / FOLDER / "logs/debug.log")
    runs = read_runs(folder, ReadOptions(batch_size=1))
    assert runs.runs["run_id"].tolist() == ["b64-s0"]
    assert reasons(runs) == {}
    assert curve(runs) == [(0, 0.0), (1, 0.1), (2, 0.2)]


def test_packed_logs_are_found_and_read(tmp_path):
    """A packed log gives what the plain one gives."""
    data = gzip.compress(framed([run(), *rows(3)]))
    log = log_of(tmp_path, data, name=f"{NAME}.gz")
    assert log.rows.values["train/reward"].value.tolist() == [0, 0.125, 0.25]
    assert [f.path.name for f in find_files([tmp_path])[0]] == ["run-ab12.wandb.gz"]


GOOD = framed([run(), *rows(30, "x" * 1500), ended(0)])
ENDS = [len(framed([run(), *rows(count, "x" * 1500)])) for count in range(31)]
"""Where each row of `GOOD` ends."""


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=1, max_value=len(GOOD) - 1), st.booleans())
def test_a_cut_keeps_all_complete_records(cut, packed):
    """Wherever a log is cut, plain or packed, all records before the cut are read."""
    complete = sum(end <= cut for end in ENDS[1:])
    data = gzip.compress(GOOD[:cut]) if packed else GOOD[:cut]
    with TemporaryDirectory() as folder:
        try:
            log = log_of(folder, data)
        except SourceError:
            assert complete == 0
            return
    assert log.rows.values["train/reward"].value.tolist() == [s / 8 for s in range(complete)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=6), st.binary(max_size=80))
def test_any_bytes_give_a_log_or_a_refusal(contents, tail):
    """Behind a good start, any records and any bytes raise nothing but refusals."""
    records = [*contents, *(field(number, c) for number in (2, 5, 17, 18) for c in contents)]
    with TemporaryDirectory() as folder:
        write(folder, {NAME: framed([run(), *records]) + tail})
        try:
            read_runs(Path(folder), ReadOptions(batch_size=8))
        except NoUsableRuns as err:
            _one_line(err)


def _one_line(err):
    assert "\n" not in str(err)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_never_invents_values(data):
    """Whatever bytes change, every value that is read was written, in order."""
    spoil = bytearray(GOOD)
    for at in data.draw(st.lists(st.integers(7, len(GOOD) - 1), min_size=1, max_size=3)):
        spoil[at] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        try:
            log = log_of(folder, bytes(spoil))
        except SourceError:
            return
    values = log.rows.values["train/reward"].value.tolist()
    assert set(values) <= {s / 8 for s in range(30)}
    assert values == sorted(values)
