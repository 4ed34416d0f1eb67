"""TensorBoard event files: cases 19, 20, 21 and 24, every kind of scalar, damage, any bytes."""

import gzip
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.event_bytes import (
    event,
    field,
    hparams_value,
    record,
    scalar,
    scalars,
    start,
    tensor_value,
    text_value,
)
from tests.reading import curve, note, read, write
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.runs.finding import find_files
from twoclock.sources.record_file import Damage, iter_records, masked_crc
from twoclock.sources.tensorboard import read_event_folder

FIRST = "r/events.out.tfevents.1700000100.host.7.0"
SECOND = "r/events.out.tfevents.1700000500.host.8.0"


HPARAMS = "r/1700000101.25/events.out.tfevents.1700000101.host"
BELOW = "events.out.tfevents.1700000100.host"


def log_of(folder, files, **options):
    """Write files and return the log that the first of them stands for."""
    path = write(folder, files) / next(iter(files))
    (log,) = read_event_folder(path, ReadOptions(**options))
    return log


def series(log, key):
    """Return {step: value} of a key."""
    steps = dict(zip(log.rows.values["step"].at, log.rows.values["step"].value, strict=True))
    values = log.rows.values[key]
    return {
        steps[at]: value
        for at, value in zip(values.at.tolist(), values.value.tolist(), strict=True)
    }


# --- several files -----------------------------------------------------------------------------


def test_files_of_several_workers_are_one_run(tmp_path):
    """Case 19: steps that interleave over files are put in order."""
    files = {FIRST: scalars("val/acc", [(0, 0.1), (20, 0.3)], 100.0),
             SECOND: scalars("val/acc", [(10, 0.2), (30, 0.6)], 100.0)}  # fmt: skip
    assert curve(read(tmp_path, files, batch_size=1)) == [(0, 0.1), (10, 0.2), (20, 0.3), (30, 0.6)]


def test_a_restart_from_a_checkpoint_wins(tmp_path):
    """Case 20: the later file counts where steps overlap, with a note."""
    files = {FIRST: scalars("val/acc", [(0, 0.1), (10, 0.3), (20, 0.9), (30, 0.95)], 100.0),
             SECOND: scalars("val/acc", [(20, 0.4), (30, 0.5), (40, 0.6)], 500.0)}  # fmt: skip
    runs = read(tmp_path, files, batch_size=1)
    assert curve(runs) == [(0, 0.1), (10, 0.3), (20, 0.4), (30, 0.5), (40, 0.6)]
    assert note(runs, "resumed").message == "steps 20-30 overwritten by a later segment"


def test_the_time_in_the_name_orders_files_and_not_the_name(tmp_path):
    """A resumed file counts as the later one though its name sorts first."""
    later, earlier = "r/events.out.tfevents.1700000500.a", "r/events.out.tfevents.1700000100.b"
    files = {later: scalars("val/acc", [(1, 0.4), (2, 0.5)]),
             earlier: scalars("val/acc", [(0, 0.2), (1, 0.3)])}  # fmt: skip
    assert curve(read(tmp_path, files, batch_size=1)) == [(0, 0.2), (1, 0.4), (2, 0.5)]


def test_the_first_wall_time_orders_files_without_one_in_the_name(tmp_path):
    """Where names tell no time, the first record does."""
    files = {"r/a.tfevents": scalars("val/acc", [(1, 0.4), (2, 0.5)], 900.0),
             "r/b.tfevents": scalars("val/acc", [(0, 0.2), (1, 0.3)], 100.0)}  # fmt: skip
    assert curve(read(tmp_path, files, batch_size=1)) == [(0, 0.2), (1, 0.4), (2, 0.5)]


def test_wall_times_are_ignored(tmp_path):
    """Case 21: a clock that goes back changes nothing."""
    walls = [1000.0, 900.0, 1100.0]
    points = zip([0, 10, 20], [0.1, 0.4, 0.6], walls, strict=True)
    data = start(1000.0) + b"".join(scalar(b"val/acc", s, v, wall) for s, v, wall in points)
    assert curve(read(tmp_path, {FIRST: data}, batch_size=1)) == [(0, 0.1), (10, 0.4), (20, 0.6)]


@pytest.mark.parametrize("together", [True, False], ids=["one-file", "two-files"])
def test_a_counter_that_restarts_needs_a_decision(tmp_path, together):
    """Case 24: within a file or over files, a fall to the first step is refused, or counted on."""
    early, late = [(0, 0.1), (10, 0.3), (20, 0.5)], [(0, 0.5), (10, 0.6), (20, 0.7)]
    files = {FIRST: scalars("val/acc", early + late)} if together else {
        FIRST: scalars("val/acc", early), SECOND: scalars("val/acc", late)}  # fmt: skip
    with pytest.raises(NoUsableRuns, match="step falls 20 -> 0 at row 4"):
        read(tmp_path, files, batch_size=1)
    runs = read_runs(tmp_path, ReadOptions(batch_size=1, on_reset="offset"))
    assert curve(runs) == [(0, 0.1), (10, 0.3), (20, 0.5), (30, 0.6), (40, 0.7)]


def test_a_resume_within_a_file_is_seen(tmp_path):
    """Points stand in the order of writing where the steps of a tag fall."""
    data = start() + b"".join(
        scalar(b"train/reward", s, v / 10) + scalar(b"val/acc", s, v / 10)
        for s, v in [(1, 1), (2, 2), (3, 9), (2, 3), (3, 4)]
    )
    runs = read(tmp_path, {FIRST: data}, batch_size=1)
    assert curve(runs) == [(1, 0.1), (2, 0.3), (3, 0.4)]
    assert runs.steps["reward"].round(6).tolist() == [0.1, 0.3, 0.4]
    assert "steps 2-3 overwritten" in note(runs, "resumed").message


def test_writers_without_a_common_tag_do_not_overwrite_each_other(tmp_path):
    """Two writers of one run, with metrics of their own, are put together by step."""
    files = {FIRST: scalars("train/reward", [(s, s / 10) for s in range(1, 6)]),
             SECOND: scalars("train/grad_norm", [(s, s * 1.0) for s in range(1, 6)])}  # fmt: skip
    runs = read(tmp_path, files, batch_size=8)
    assert runs.steps["reward"].round(6).tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert runs.steps["grad_norm"].tolist() == [1, 2, 3, 4, 5]
    assert "resumed" not in {n.code for n in runs.notes}


def test_a_writer_that_says_it_resumes_explains_a_fall_to_the_first_step(tmp_path):
    """A session start with a step is a resume from there, not a counter that begins anew."""
    again = start() + record(field(1, 0.0) + field(2, 1) + field(7, field(1, 1)))
    again += b"".join(scalar(b"val/acc", s, 0.5) for s in (1, 2, 3))
    files = {FIRST: scalars("val/acc", [(1, 0.1), (2, 0.2)]), SECOND: again}
    assert curve(read(tmp_path, files, batch_size=1)) == [(1, 0.5), (2, 0.5), (3, 0.5)]


def test_an_event_file_given_by_name_stands_for_its_folder(tmp_path):
    """Each of the files of a run leads to all of it, once."""
    files = {FIRST: scalars("val/acc", [(0, 0.1), (1, 0.3)]),
             SECOND: scalars("val/acc", [(1, 0.4), (2, 0.5)])}  # fmt: skip
    folder = write(tmp_path, files)
    runs = read_runs([folder / SECOND, folder / FIRST], ReadOptions(batch_size=1))
    assert runs.runs["run_id"].tolist() == ["r"]
    assert curve(runs) == [(0, 0.1), (1, 0.4), (2, 0.5)]


def test_an_empty_file_of_a_worker_that_died_hides_nothing(tmp_path):
    """A file without any content beside the others is passed over."""
    files = {"r/events.out.tfevents.1600000000.dead": b"",
             FIRST: scalars("val/acc", [(0, 0.1), (1, 0.3)])}  # fmt: skip
    folder = write(tmp_path, files)
    assert curve(read_runs(folder, ReadOptions(batch_size=1))) == [(0, 0.1), (1, 0.3)]
    assert curve(read_runs(folder / FIRST, ReadOptions(batch_size=1))) == [(0, 0.1), (1, 0.3)]


# --- rows --------------------------------------------------------------------------------------


def test_groups_of_tags_have_rows_of_their_own(tmp_path):
    """Tags of one group and step are one row; another group at that step is another."""
    data = start() + b"".join(
        scalar(tag, step, 0.5)
        for step in (1, 2)
        for tag in (b"train/reward", b"train/grad_norm", b"eval/acc")
    )
    rows = log_of(tmp_path, {FIRST: data}).rows
    assert rows.count == 4
    assert rows.values["train/reward"].at.tolist() == rows.values["train/grad_norm"].at.tolist()
    assert rows.values["step"].value.tolist() == [1, 1, 2, 2]


def test_a_step_that_is_logged_twice_has_two_rows(tmp_path):
    """A repeated step keeps both values, in their order."""
    data = scalars("train/reward", [(1, 0.1), (2, 0.2), (2, 0.3), (3, 0.4)])
    rows = log_of(tmp_path, {FIRST: data}).rows
    assert rows.values["step"].value.tolist() == [1, 2, 2, 3]
    assert rows.values["train/reward"].value.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_a_tag_named_step_goes_before_the_step_of_the_event(tmp_path):
    """The run's own counter stands under "step"; rows without it have that of the event."""
    data = start() + scalar(b"step", 7, 3.0) + scalar(b"loss", 7, 1.0) + scalar(b"loss", 8, 1.0)
    rows = log_of(tmp_path, {FIRST: data}).rows
    assert rows.values["step"].value.tolist() == [3, 8]


def test_what_nothing_needs_is_not_kept(tmp_path):
    """Tags that no column can use take no memory, and are named."""
    data = scalars("perf/some_timer", [(s, 1.0) for s in range(50)]) + scalar(b"loss", 1, 2.0)
    rows = log_of(tmp_path, {FIRST: data}).rows
    assert set(rows.values) == {"step", "loss"}
    assert "perf/some_timer" in rows.names


# --- values ------------------------------------------------------------------------------------

FLOAT, DOUBLE, INT32, INT64, BOOL, HALF, BFLOAT16 = 1, 2, 3, 9, 10, 19, 14


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (field(1, FLOAT) + field(4, struct.pack("<f", 0.7)), 0.7),
        (field(1, FLOAT) + field(2, b"") + field(5, struct.pack("<f", 0.7)), 0.7),
        (field(1, FLOAT) + b"\x2d" + struct.pack("<f", -2.5), -2.5),
        (field(1, DOUBLE) + field(4, struct.pack("<d", 1e-300)), 1e-300),
        (field(1, DOUBLE) + field(6, struct.pack("<d", 0.1)), 0.1),
        (field(1, INT32) + field(4, struct.pack("<i", -3)), -3.0),
        (field(1, INT64) + field(10, b"\x07"), 7.0),
        (field(1, INT64) + field(10, 2**64 - 5), -5.0),
        (field(1, HALF) + field(4, struct.pack("<e", 0.5)), 0.5),
        (field(1, BFLOAT16) + field(4, b"\x80\x3f"), 1.0),
    ],
)
def test_tensors_with_one_number_are_scalars(tmp_path, tensor, value):
    """Newer writers give tensors; every number type that can stand there is read, twice alike."""
    data = start() + b"".join(
        event(tensor_value("train/reward", tensor, plugin), step=step)
        for step, plugin in [(1, ""), (2, "scalars"), (3, ""), (4, "scalars")]
    )
    values = log_of(tmp_path, {FIRST: data}).rows.values["train/reward"].value
    assert values.tolist() == [value] * 4


def test_tensors_of_other_plugins_and_sizes_are_none(tmp_path):
    """A histogram, a curve or a vector under a metric's name is no value of it."""
    one, two = struct.pack("<f", 1.0), struct.pack("<ff", 1.0, 2.0)
    data = start() + scalar(b"loss", 1, 0.5)
    for tensor, plugin in [(one, "histograms"), (two, "scalars"), (two, "")]:
        data += event(tensor_value("val/acc", field(1, FLOAT) + field(4, tensor), plugin), step=1)
    assert set(log_of(tmp_path, {FIRST: data}).rows.values) == {"step", "loss"}


def test_numbers_of_four_bytes_are_the_shortest_decimals(tmp_path):
    """A logged 0.7 is 0.7 again, and every value is still the same number in four bytes."""
    logged = [0.7, 1e-6, -3.14, 16777216.0, 1 / 3, 1e-30, 0.0, -0.0, 65504.0]
    points = list(enumerate(logged))
    values = log_of(tmp_path, {FIRST: scalars("loss", points)}).rows.values["loss"].value
    assert values[:4].tolist() == logged[:4]
    assert np.array_equal(values.astype(np.float32), np.array(logged, dtype=np.float32))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_every_value_is_the_logged_one(values):
    """Whatever is logged, NaN and infinities too, is read as the same number of four bytes."""
    with TemporaryDirectory() as folder:
        log = log_of(folder, {FIRST: scalars("loss", list(enumerate(values)))})
    got = log.rows.values["loss"].value.astype(np.float32)
    assert np.array_equal(got, np.array(values, dtype=np.float32), equal_nan=True)


@pytest.mark.parametrize("step", [127, 128, 16383, 16384, 2**31, 2**62, -1])
def test_steps_of_any_length_are_read(tmp_path, step):
    """Steps take one to ten bytes, and may be negative."""
    data = start() + b"".join(
        event(field(1, "loss") + b"\x15" + struct.pack("<f", 1.0), step=step) for _ in range(3)
    )
    log = log_of(tmp_path, {FIRST: data})
    assert set(log.rows.values["step"].value.tolist()) == {float(step)}


def test_several_values_of_one_event_are_read(tmp_path):
    """One event may hold many tags, and be followed by events that hold one."""
    value = b"\x15" + struct.pack("<f", 0.5)
    both = event(field(1, "loss") + value, field(1, "val/acc") + value, step=1)
    log = log_of(tmp_path, {FIRST: start() + both + scalar(b"loss", 2, 0.25) + both})
    assert log.rows.values["loss"].value.tolist() == [0.5, 0.25, 0.5]
    assert log.rows.values["val/acc"].value.tolist() == [0.5, 0.5]


# --- configuration -----------------------------------------------------------------------------


def test_the_arguments_in_a_text_are_the_configuration(tmp_path):
    """TRL writes its arguments as JSON text, and the model's under their own name."""
    data = start() + event(text_value("args/text_summary", '{"learning_rate": 1e-06, "beta": 0}'))
    data += event(text_value("model_config/text_summary", '<pre>{"vocab_size": 9}</pre>'))
    config = log_of(tmp_path, {FIRST: data + scalar(b"train/loss", 1, 1.0)}).config
    assert config == {"learning_rate": 1e-06, "beta": 0, "model_config.vocab_size": 9}


def test_texts_that_are_no_configuration_are_none(tmp_path):
    """Samples, broken JSON and JSON without end leave the configuration as it is."""
    texts = ["a sample", '{"a": ', "[" * 5000, '{"a":' * 5000, "[1, 2]"]
    data = start() + scalar(b"loss", 1, 1.0)
    data += b"".join(event(text_value(f"t{i}", text)) for i, text in enumerate(texts))
    assert log_of(tmp_path, {FIRST: data}).config == {}


def test_hyperparameters_in_a_folder_below_are_the_configuration(tmp_path):
    """ROLL's whole configuration stands as hyperparameters in a folder named by the time."""
    hparams = {"rollout_batch_size": 64.0, "pg_clip": "0.2", "use_kl_loss": True, "x": "None"}
    files = {FIRST: scalars("critic/score/mean", [(0, 0.5), (1, 0.6)]),
             HPARAMS: start() + event(hparams_value(hparams)) + scalar(b"hp", 0, 1)}  # fmt: skip
    log = log_of(tmp_path, files)
    expected = {"rollout_batch_size": 64, "pg_clip": 0.2, "use_kl_loss": True, "x": None}
    assert log.config == expected
    assert len(log.files) == 2
    assert "hp" not in log.rows.names
    below = tmp_path / HPARAMS
    assert read_event_folder(below, ReadOptions()) == []


@pytest.mark.parametrize("folder", ["val_acc_easy", "val/acc/easy"])
def test_values_written_together_belong_to_the_log_above(tmp_path, folder):
    """`add_scalars` writes folders of its own; their tags are told apart by what they add."""
    files = {FIRST: scalars("train/reward", [(1, 0.5), (2, 0.6)]),
             f"r/{folder}/{BELOW}": scalars("val/acc", [(2, 0.25)])}  # fmt: skip
    log = log_of(tmp_path, files)
    assert series(log, "val/acc/easy") == {2.0: 0.25}
    below = tmp_path / f"r/{folder}/{BELOW}"
    assert read_event_folder(below, ReadOptions()) == []


def test_a_run_in_a_folder_below_another_is_its_own(tmp_path):
    """A folder whose tags do not explain its name is another run."""
    files = {FIRST: scalars("train/reward", [(1, 0.5), (2, 0.6)]),
             f"r/seed_1/{BELOW}": scalars("train/reward", [(1, 0.3)])}  # fmt: skip
    runs = read(tmp_path, files, batch_size=8)
    assert sorted(runs.runs["run_id"]) == ["r", "r/seed_1"]


# --- damage ------------------------------------------------------------------------------------

GOOD = start() + b"".join(scalar(b"loss", step, step / 8) for step in range(1, 40))
ONE = len(scalar(b"loss", 1, 1.0))


def _one_line(err):
    assert "\n" not in str(err)


def spoiled(at, data=GOOD):
    """Return the file with one byte changed."""
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.mark.parametrize("place", [3, 9, 15, ONE - 2], ids=["length", "check", "content", "crc"])
def test_a_damaged_record_is_named_and_the_next_ones_are_read(tmp_path, place):
    """Wherever a record is damaged, that one is lost, named by its byte, and no other."""
    begin = len(start()) + 10 * ONE
    log = log_of(tmp_path, {FIRST: spoiled(begin + place)})
    assert log.rows.values["loss"].value.tolist() == [s / 8 for s in range(1, 40) if s != 11]
    (told,) = log.notes
    assert (told.code, told.count) == ("damaged_records", 1)
    assert told.where == f"{tmp_path / FIRST} byte {begin}"


@pytest.mark.parametrize("good", [True, False], ids=["good-checksum", "bad-checksum"])
def test_a_length_without_end_is_not_believed(tmp_path, good):
    """A record of 2**60 bytes reserves nothing and hides nothing, even with a good checksum."""
    huge = struct.pack("<Q", 2**60)
    header = huge + (struct.pack("<I", masked_crc(huge)) if good else b"xxxx")
    log = log_of(tmp_path, {FIRST: GOOD + header + scalar(b"loss", 40, 5.0)})
    assert log.rows.values["loss"].value[-1] == 5.0
    assert [n.code for n in log.notes] == ["damaged_records"]


def test_a_record_that_ends_behind_the_file_is_cut(tmp_path):
    """A picture that was not written to its end is a cut record."""
    length = struct.pack("<Q", 20 << 20)
    header = length + struct.pack("<I", masked_crc(length))
    log = log_of(tmp_path, {FIRST: GOOD + header + b"rest"})
    assert [n.code for n in log.notes] == ["huge_record", "cut_file"]
    assert len(log.rows.values["loss"].value) == 39


def test_a_record_that_is_too_large_is_passed_over(tmp_path):
    """A picture above the limit is left out and named, and reading goes on behind it."""
    large = record(field(1, 0.0) + field(5, bytes(17 << 20)))
    log = log_of(tmp_path, {FIRST: GOOD + large + scalar(b"loss", 40, 5.0)})
    assert len(log.rows.values["loss"].value) == 40
    assert [n.code for n in log.notes] == ["huge_record"]


def test_zeros_behind_the_records_end_the_file(tmp_path):
    """A file that was made longer than what was written ends there, said with its place."""
    with (write(tmp_path, {FIRST: GOOD}) / FIRST).open("r+b") as file:
        file.truncate(1 << 31)
    (log,) = read_event_folder(tmp_path / FIRST, ReadOptions())
    assert len(log.rows.values["loss"].value) == 39
    (told,) = log.notes
    assert f"no good record is found from byte {len(GOOD)} on" in told.message


def test_a_record_that_is_no_event_counts_as_damaged(tmp_path):
    """Good checksums around something else are a damaged record, not an error."""
    odd = record(b"\x09" + b"\xff" * 30)
    log = log_of(tmp_path, {FIRST: GOOD + odd + record(b"\xff")})
    assert log.notes[0].count == 2


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_files_are_read_alike(tmp_path, ending):
    """A packed event file gives what the plain one gives; a cut one what is before the cut."""
    import zstandard

    packed = gzip.compress(GOOD) if ending == ".gz" else zstandard.compress(GOOD)
    plain = log_of(tmp_path / "plain", {FIRST: GOOD}).rows.values["loss"].value
    whole = log_of(tmp_path / "whole", {FIRST + ending: packed})
    assert np.array_equal(whole.rows.values["loss"].value, plain)
    assert [f.path.name for f in find_files([tmp_path / "whole"])[0]] == [Path(FIRST).name + ending]


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=1, max_value=len(GOOD) - 1), st.booleans())
def test_a_cut_keeps_all_complete_records(cut, packed):
    """Wherever a file is cut, plain or packed, all records before the cut are read."""
    data = gzip.compress(GOOD[:cut]) if packed else GOOD[:cut]
    complete = max(0, (cut - len(start())) // ONE)
    with TemporaryDirectory() as folder:
        try:
            log = log_of(folder, {"r/tfevents.gz" if packed else FIRST: data})
        except SourceError:
            assert complete == 0
            return
    assert log.rows.values["loss"].value.tolist() == [s / 8 for s in range(1, complete + 1)]
    on_edge = (cut - len(start())) % ONE == 0
    assert [n.code for n in log.notes] == ([] if on_edge else ["cut_file"])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_never_invents_values(data):
    """Whatever bytes change, every value that is read was written, in order."""
    spoil = bytearray(GOOD)
    for at in data.draw(st.lists(st.integers(0, len(GOOD) - 1), max_size=8)):
        spoil[at] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        try:
            log = log_of(folder, {FIRST: bytes(spoil)})
        except SourceError:
            return
    values = log.rows.values["loss"].value.tolist()
    assert set(values) <= {s / 8 for s in range(1, 40)}
    assert values == sorted(values)
    assert len(values) >= 39 - 2 * 8


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_give_a_log_or_a_refusal(tail, contents):
    """Behind a good start, records with any content and any bytes raise nothing but refusals."""
    data = start() + b"".join(record(content) for content in contents) + tail
    with TemporaryDirectory() as folder:
        write(folder, {FIRST: data})
        try:
            read_runs(folder, ReadOptions(batch_size=8))
        except NoUsableRuns as err:
            _one_line(err)


def test_records_are_read_in_parts(tmp_path):
    """Records that lie over the edge of what is read at once are whole."""
    contents = [bytes([i % 251]) * (400_000 + i) for i in range(8)]
    path = write(tmp_path, {"x": b"".join(record(c) for c in contents)}) / "x"
    damage = Damage()
    assert list(iter_records(path, damage)) == contents
    assert damage.told(path) == []


def test_a_file_without_scalars_says_so(tmp_path):
    """A live file with nothing but its start is refused by what it lacks; so is one of no use."""
    with pytest.raises(SourceError, match=r"hold no scalars \(yet\)"):
        log_of(tmp_path / "a", {FIRST: start()})
    with pytest.raises(SourceError, match="none of its 1 tags is known"):
        log_of(tmp_path / "b", {FIRST: scalars("perf/x", [(1, 1.0)])})
