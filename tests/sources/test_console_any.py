"""Whatever a console holds and wherever it is cut: rows or a named refusal, complete rows kept."""

import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources.test_console_trl import console as trl_console
from twoclock.errors import SourceError
from twoclock.reading import ReadOptions
from twoclock.sources.base import Head
from twoclock.sources.console import blocks as blocks_module
from twoclock.sources.console import find_dialect, read
from twoclock.sources.console.literals import read_dict
from twoclock.sources.text import read_head

STEPS = range(1, 7)
GOOD = {
    "verl": "".join(f"(T pid=7) step:{s} - critic/score/mean:0.{s}5 - actor/entropy:1.{s}5\n"
                    for s in STEPS),
    "openrlhf": "".join(f"12:00:0{s} ✨ Global step {s}: {{'reward': 0.{s}5, 'kl': 1.{s}5}}\n"
                        for s in STEPS),
    "slime": "".join(f"(A pid=1) rollout {s}: {{'rollout/raw_reward': 0.{s}5, 'rollout/log_probs': "
                     f"1.{s}5}}\n" for s in STEPS),
    "roll": "".join(f'[INFO] metrics_tag: {{"step": {s}, "metrics": {{"critic/score/mean": 0.{s}5, '
                    f'"actor/lr": 1.{s}5}}}}\n' for s in STEPS),
    "skyrl": "".join(f"12:00:00 | INFO | a:b:1 - Step {s}: \n{{'reward/avg_raw_reward': '0.{s}5'"
                     f",\n 'policy/policy_kl': '1.{s}5'}}\n" for s in STEPS),
    "areal": "".join(f"Epoch 1/1 Step {s}/9 Train step {s}/9 done.\nStats (1/1):\n"
                     f"│ ppo_actor/task_reward/avg │ 0.{s}5 │\n" for s in STEPS),
    "nemo-rl": "".join(f"==== Step {s}/9 ====\n📊 Training Results:\n  • Avg Reward: 0.{s}500\n"
                       for s in STEPS),
    "torchtune": "".join(f"Step {s} | rewards:0.{s}5 loss:1.{s}5 \n" for s in STEPS),
    "plain": "".join(f"step {s} reward 0.{s}5 loss 1.{s}5\n" for s in STEPS),
}  # fmt: skip
REWARDS = {
    "verl": "critic/score/mean", "openrlhf": "reward", "slime": "rollout/raw_reward",
    "roll": "critic/score/mean", "skyrl": "reward/avg_raw_reward",
    "areal": "ppo_actor/task_reward/avg", "nemo-rl": "train/reward", "torchtune": "rewards",
    "plain": "reward",
}  # fmt: skip
LINES_OF_A_ROW = {"skyrl": 3, "areal": 3, "nemo-rl": 3}

PIECES = (
    "step:1 - a/lr:0.000 - b:nan", "(T pid=1) ", "\x1b[36m", "\x1b]0;x", "\r", "\n", "\r\n", "{'",
    "}", "Global step 1: {'reward': 0.5", "rollout 2: {'rollout/raw_reward': ", "metrics_tag: ",
    '{"step": 3, "metrics": {"critic/score/mean": NaN}}', " - Step 12: \n", "{'loss': '0.1'",
    "│ a │ 1e-3 │", "Train step 3/9 done", "==== Step 1/3 ====", "  • Avg Reward: 0.5", "Step 3 | ",
    "rewards:tensor(0.4) ", "{'loss': nan, 'epoch': 0.1}\n", " 10%|# | 1/10 [00:01<00:02]",
    " " * 40, "\r", "Traceback (most recent call last):\n", "ValueError: x\n", "Namespace(a=1, b='",
    ")", "--lr 1e-6 \\\n", "python ", "'actor_rollout_ref': {",
    "Initial validation metrics: {'a': 1", "np.float64(", "[" * 50, "'" * 3, "\\", "[rank1]: ",
    "step 4 loss 0.5\n", "9" * 400, "\0", "é",
    "Resuming from x", "Total training steps: 9999999999999999999999\n",
    "Setting global step to 3\n",
)  # fmt: skip


def read_text(data):
    """Read a console in a folder of its own; None when it is refused in one line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        path.write_bytes(data)
        try:
            head = Head(path, read_head(path))
            find_dialect(head)
            (log,) = read(path, ReadOptions())
        except SourceError as err:
            return _one_line(err)
        return log


def _one_line(err):
    assert "\n" not in str(err)


def rewards(log, framework):
    """Return the rewards of a log, in order."""
    found = None if log is None else log.rows.values.get(REWARDS[framework])
    return [] if found is None else found.value.tolist()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
@example(b"\xff\xfestep:1 - a:1\n")
@example(b"\xef\xbb\xbf")
def test_any_bytes(data):
    """No byte string makes the reader raise anything but its refusals."""
    read_text(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_pieces_of_consoles(text):
    """Pieces of all consoles in any order are rows or a refusal."""
    read_text(text.encode())


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_a_dictionary_or_not(text):
    """Reading a dictionary ends, and finds texts only."""
    found = read_dict("{'k': " + text)
    assert all(isinstance(value, str) for value in found.items.values())


@pytest.mark.parametrize("framework", sorted(GOOD))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_cut_keeps_all_complete_rows(framework, data):
    """Wherever a console is cut, complete rows are there, and nothing else than their values."""
    text = GOOD[framework].encode()
    whole = rewards(read_text(text), framework)
    assert whole == [float(f"0.{s}5") for s in STEPS]
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))
    found = rewards(read_text(text[:cut]), framework)
    complete = text[:cut].count(b"\n") // LINES_OF_A_ROW.get(framework, 1)
    if framework == "plain" and complete < 3:
        return  # fewer lines make no log
    assert found == whole[: len(found)] or (complete == 0 and framework == "verl")
    assert len(found) >= complete


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0, max_value=3000))
def test_a_cut_console_of_trl_has_no_wrong_step(cut):
    """The rows of a cut console stand at their steps, or it is refused."""
    text = trl_console(total=40, buffered=cut % 3).encode()
    log = read_text(text[:cut])
    if log is not None:
        steps = log.rows.values["step"].value
        assert (log.rows.values["reward"].value == steps / 1000).all()


@pytest.mark.parametrize("framework", sorted(GOOD))
def test_lines_may_fall_on_any_border_of_blocks(framework, monkeypatch):
    """Reading in small blocks gives the same rows."""
    whole = rewards(read_text(GOOD[framework].encode()), framework)
    for size in (1, 7, 64):
        monkeypatch.setattr(blocks_module, "BLOCK", size)
        assert rewards(read_text(GOOD[framework].encode()), framework) == whole


def test_a_line_without_end_is_left_out_and_told(tmp_path, monkeypatch):
    """A line above the limit is skipped, with a note, and the rows around it stay."""
    monkeypatch.setattr(blocks_module, "LINE_LIMIT", 1 << 20)
    path = tmp_path / "train.log"
    row = "Global step {0}: {{'reward': 0.{0}}}\n"
    with path.open("w") as file:
        file.write(row.format(1))
        file.truncate(50_000_000)
        file.seek(50_000_000)
        file.write("\n" + row.format(2))
    tracemalloc.start()
    (log,) = read(path, ReadOptions())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.rows.values["reward"].value.tolist() == [0.1, 0.2]
    assert log.rows.lines.numbers(2).tolist() == [1, 3]
    assert [n.where.endswith("line 2") for n in log.notes if n.code == "huge_line"] == [True]
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("pid= ", ""), (" ", "[repeated 4x"), ("=", " Step 1/2 "), ("'epoch': ", ""),
        ("{'epoch': ", ""),
        ("a:b ", ":"), ("tensor(1) ", "|"), ("\x1b]0", ""), ("(", ""), ("{'a': ", ""), ("w(x)", ""),
        ("--a ", "python"), ("| ", ""), ("'", ""), ("a:1:", ""), ("np.float64(", ""),
        ("step:1 - ", ""),
        ("a=1, ", ""), ("\\", ""), ("Step 1: ", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "start",
    ["", "(", "Step 1 | ", "Global step 1: {'a': ", "step 1 ", "{'loss': 1, ", "Namespace(",
     "Train step 1/2 done │", "Step 1: \n{'a': "],
)  # fmt: skip
def test_long_lines_of_one_kind_take_no_longer(start, unit, end):
    """Repeats that a pattern could try again and again are read in time that is linear."""
    text = start + unit * (60_000 // len(unit)) + end
    began = time.process_time()
    read_text((text + "\n" + text).encode())
    assert time.process_time() - began < 3
