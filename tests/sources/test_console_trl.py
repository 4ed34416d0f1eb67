"""TRL's console: the steps of its rows come from the progress bar, or the file is refused."""

import pytest

from tests.reading import SHARED, note, write
from twoclock.errors import SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.sources.console import blocks as blocks_module
from twoclock.sources.console import read

BLANK = " " * 46


def bar(step, total):
    """Return one paint of a progress bar."""
    return f"\r {step * 100 // total:2d}%|##   | {step}/{total} [00:05<00:45,  5.00s/it]"


def row(epoch, kind="loss", value=0.5):
    """Return a row as it is printed."""
    return f"{{'{kind}': {value}, 'reward': {value}, 'learning_rate': 1e-06, 'epoch': {epoch}}}"


def console(total=20, every=5, per_epoch=10, *, buffered=0, evals=0, digits=2, start=0):
    """Return a console of training, row by row, or with rows held back in clumps."""
    out = [bar(start, total)]
    held = []
    for step in range(start + 1, total + 1):
        out.append(bar(step, total))
        texts = []
        if step % every == 0:
            epoch = round(step / per_epoch, digits)
            texts.append((row(epoch, value=step / 1000), 1))
            if evals and step % evals == 0:
                texts.append((row(epoch, "eval_loss", step / 500), 2))
        for text, blanks in texts:
            held.append(text + "\n")
            if blanks == 2:
                out.append(f"\n{bar(1, 3)}\x1b[A\r{BLANK}\r\n\r{BLANK}\r\x1b[A")
            else:
                out.append(f"\r{BLANK}\r")
            if len(held) > buffered:
                out += held
                held = []
            out.append(bar(step, total))
            if blanks == 2:
                out.append(f"\n{bar(3, 3)}\x1b[A\n\r{BLANK}\x1b[A")
    return "".join(["Loading checkpoint shards:  50%|#| 1/2 [00:01<00:01]\n", *out, "\n", *held])


def log_of(folder, text):
    """Write a console and return the one log in it."""
    (log,) = read(write(folder, {"train.log": text}) / "train.log", ReadOptions())
    return log


def steps(log):
    """Return the step of each row."""
    assert log.rows.values["step"].at.tolist() == list(range(log.rows.count))
    return log.rows.values["step"].value.tolist()


@pytest.mark.parametrize("buffered", [0, 1, 2, 99], ids=["in-order", "pairs", "threes", "at-end"])
def test_each_row_has_the_step_of_its_repaint(tmp_path, buffered):
    """Whether rows come at once or in clumps, the k-th belongs to the k-th repaint."""
    log = log_of(tmp_path, console(buffered=buffered))
    assert steps(log) == [5, 10, 15, 20]
    assert log.rows.values["reward"].value.tolist() == [0.005, 0.01, 0.015, 0.02]
    assert (log.config["max_steps"], log.config["logging_steps"]) == (20, 5)
    (told,) = [n for n in log.notes if n.code == "steps_from_bar"]
    assert told.count == 4


@pytest.mark.parametrize("buffered", [0, 99])
def test_evaluations_have_a_bar_of_their_own(tmp_path, buffered):
    """The end of an evaluation's bar is no row; its row has the step of the training."""
    log = log_of(tmp_path, console(evals=10, buffered=buffered))
    assert steps(log) == [5, 10, 10, 15, 20, 20]


def test_a_resumed_run_begins_later(tmp_path):
    """A bar that begins at a checkpoint counts on from there."""
    assert steps(log_of(tmp_path, console(start=10))) == [15, 20]


def test_full_and_short_epochs(tmp_path):
    """Epochs in full and in four digits as texts agree within their rounding."""
    assert steps(log_of(tmp_path / "a", console(per_epoch=7, digits=17))) == [5, 10, 15, 20]
    text = console(per_epoch=7, digits=3).replace("'epoch': ", "'epoch': '").replace("}\n", "'}\n")
    assert steps(log_of(tmp_path / "b", text)) == [5, 10, 15, 20]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n".join(row(e / 10) for e in (1, 2, 3)), "no progress bar"),
        (console().replace(row(1.5, value=0.015) + "\n", ""), "uneven|agree|repaints"),
        (console(total=400, every=100, per_epoch=10).replace("'epoch': 40.0", "'epoch': 70.0"),
         "does not agree with 'epoch'"),
        (console() + console(), "falls back"),
        (console(buffered=99) + row(2.0) + "\n" + row(2.0) + "\n", "4 repaints for 6 rows"),
        (row(0.1) + "\n" + console(buffered=99), "repaints for 5 rows"),
    ],
    ids=["no-bar", "lost-row", "other-epochs", "second-launch", "more-rows", "row-before"],
)  # fmt: skip
def test_steps_in_doubt_are_refused(tmp_path, text, why):
    """What does not agree is not guessed; the file that tells the steps is named."""
    path = write(tmp_path, {"train.log": text}) / "train.log"
    with pytest.raises(SourceError, match=why) as caught:
        read(path, ReadOptions())
    assert "give trainer_state.json" in str(caught.value)


def test_rows_that_were_never_written_out_are_at_the_end(tmp_path):
    """A killed process loses rows that were held back: those before keep their steps."""
    text = console(total=50, buffered=3)
    cut = text[: text.index(row(4.5, value=0.045))]
    assert steps(log_of(tmp_path, cut)) == [5, 10, 15, 20, 25, 30, 35, 40]


def test_a_finished_training_is_complete(tmp_path):
    """The summary at the end stands at the last step."""
    end = f"\r{BLANK}\r{{'train_runtime': 9.5, 'train_loss': 0.1, 'epoch': 2.0}}\n{bar(20, 20)}\n"
    log = log_of(tmp_path, console()[:-1] + end)
    assert steps(log) == [5, 10, 15, 20, 20]
    assert log.facts["ended"].value == "completed"


def test_steps_of_a_rollout_show_in_the_rewards(tmp_path):
    """With a row a step, a reward at every second one means two steps a rollout."""
    text = console(total=8, every=1)
    for step in (2, 4, 6, 8):
        text = text.replace(f"'reward': {step / 1000}, ", "")
    assert log_of(tmp_path, text).facts["steps_between_rewards"].value == 2


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared real logs are not here")


@shared
def test_the_real_console_of_trl():
    """93 rows at every 20th of 1875 steps and the summary; values as they are printed."""
    (log,) = read(SHARED / "trl-console-no-steps.log", ReadOptions())
    assert steps(log) == [*range(20, 1861, 20), 1875]
    assert log.rows.values["reward"].value[1] == 0.6277844633208588
    assert log.rows.values["learning_rate"].value[1] == 4.9943873930671175e-06
    assert (log.config["max_steps"], log.config["logging_steps"]) == (1875, 20)
    assert log.facts["ended"].value == "completed"


@pytest.mark.parametrize(
    "header",
    [
        "***** Running training *****\n  Num examples = 15,000\n  Num Epochs = 1\n"
        "  Instantaneous batch size per device = 4\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 24\n"
        "  Gradient Accumulation steps = 2\n  Total optimization steps = 20\n",
        "   \\\\   /|    Num examples = 15,000 | Num Epochs = 1 | Total steps = 20\n"
        "O^O/ \\_/ \\    Batch size per device = 4 | Gradient accumulation steps = 2\n"
        "\\        /    Data Parallel GPUs = 3 | Total batch size (4 x 2 x 3) = 24\n",
    ],
    ids=["transformers", "unsloth"],
)
def test_the_sizes_that_are_announced(tmp_path, header):
    """Batch of a device, accumulation and processes are read from what stands above training."""
    config = log_of(tmp_path, header + console()).config
    assert config["per_device_train_batch_size"] == 4
    assert config["gradient_accumulation_steps"] == 2
    assert config["world_size"] == 3
    assert config["max_steps"] == 20


def test_rows_that_print_their_step(tmp_path):
    """ms-swift's rows have the step in them, and need no bar."""
    text = "".join(
        f"{{'loss': 0.1, 'reward': 0.{n}, 'epoch': 0.{n}, 'global_step/max_steps': '{5 * n}/50', "
        f"'elapsed_time': '1m 2s'}}\n" for n in (1, 2, 3)
    )  # fmt: skip
    log = log_of(tmp_path, text)
    assert steps(log) == [5, 10, 15]
    assert log.rows.values["reward"].value.tolist() == [0.1, 0.2, 0.3]
    assert not [n for n in log.notes if n.code == "steps_from_bar"]


@shared
def test_the_real_console_of_trl_makes_a_run():
    """The responses follow from the steps and the batch that is given."""
    runs = read_runs(SHARED / "trl-console-no-steps.log", ReadOptions(batch_size=8))
    row = runs.runs.iloc[0]
    assert (row["framework"], row["ended"]) == ("trl", "completed")
    assert runs.steps["responses"].iloc[[0, -1]].tolist() == [160, 15_000]
    assert note(runs, "steps_from_bar").count == 94


def test_a_bar_in_one_line_without_end(tmp_path):
    """Megabytes of paints in one line, as a long run makes them, cost no memory and no row."""
    text = console(total=20_000, every=1000, per_epoch=10_000, buffered=10**6)
    assert text.count("\n") < 30
    assert len(text) > 900_000
    log = log_of(tmp_path, text)
    assert steps(log) == list(range(1000, 20_001, 1000))
    assert not [n for n in log.notes if n.code == "huge_line"]


def test_a_bar_in_one_line_above_the_limit(tmp_path, monkeypatch):
    """Where the line is handed out in parts does not matter."""
    text = console(total=400, every=20, per_epoch=100, buffered=10**6)
    monkeypatch.setattr(blocks_module, "BLOCK", 100)
    monkeypatch.setattr(blocks_module, "_PIECES", 300)
    monkeypatch.setattr(blocks_module, "LINE_LIMIT", 2000)
    assert steps(log_of(tmp_path, text)) == list(range(20, 401, 20))
