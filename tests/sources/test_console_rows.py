"""Consoles made up from each framework's own print statement, read and compared value by value."""

import math

import pytest

from tests.reading import codes, note, reasons, write
from twoclock.errors import NoUsableRuns, SourceError
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
from twoclock.sources import find_reader
from twoclock.sources.base import Head
from twoclock.sources.console import CONSOLE, find_dialect, read
from twoclock.sources.text import read_head


def log_of(folder, text, name="train.log", **options):
    """Write a console and return the one log in it."""
    path = write(folder, {name: text}) / name
    assert find_reader(Head(path, read_head(path))) is CONSOLE
    (log,) = read(path, ReadOptions(**options))
    return log


def values(log, key):
    """Return [(row, value)] of one key, numbers rounded so that NaN compares as None."""
    found = log.rows.values[key]
    pairs = zip(found.at.tolist(), found.value.tolist(), strict=True)
    return [(row, None if math.isnan(value) else value) for row, value in pairs]


def noted(log, code):
    """Return the only note with a code."""
    (found,) = [n for n in log.notes if n.code == code]
    return found


def test_openrlhf_rows_and_evaluations(tmp_path):
    """Rows behind the emoji are read with NaN; short names on progress bars are not."""
    text = (
        "\x1b[36m(PPOTrainer pid=77)\x1b[0m 2026-01-02 03:04:05 INFO ✨ Global step 7: "
        "{'policy_loss': 0.01, 'reward': 0.44, 'kl': nan, 'ppo_clip_ratio': 0.003, "
        "'rollout/num_samples': 128}\n"
        "Train epoch [1/1]:  50%|##| 1/2 [00:01<00:01, act_loss=0.2, gen_len=99, act_lr=1e-6]\n"
        "(PPOTrainer pid=77) ✨ Evaluation completed in 0:01:12, global_step 7, "
        "eval_metrics: {'eval_math_pass1': 0.52}\n"
    )
    log = log_of(tmp_path, text)
    assert (log.reader, log.framework, log.rows.count) == ("openrlhf-console", "openrlhf", 2)
    assert values(log, "global_step") == [(0, 7.0), (1, 7.0)]
    assert values(log, "reward") == [(0, 0.44)]
    assert values(log, "kl") == [(0, None)]
    assert values(log, "rollout/num_samples") == [(0, 128.0)]
    assert values(log, "eval_math_pass1") == [(1, 0.52)]
    assert not {"act_loss", "act_lr"} & log.rows.names


def test_slime_keeps_its_clocks_apart(tmp_path):
    """A rollout, an evaluation and an optimizer step each stand under their own counter."""
    text = (
        "(RolloutManager pid=3) rollout 3: {'rollout/raw_reward': 0.25, "
        "'rollout/response_len/mean': 812.5}\n"
        "(RolloutManager pid=3) perf 3: {'perf/rollout_time': 12.5}\n"
        "(MegatronTrainRayActor pid=9) step 5: {'train/loss': -0.01, 'train/grad_norm': "
        "tensor(0.4, device='cuda:0'), 'train/pg_clipfrac': np.float64(0.125)}\n"
        "(RolloutManager pid=3) eval 3: {'eval/aime': 0.5, 'eval/aime-truncated_ratio': 0.0}\n"
    )
    log = log_of(tmp_path, text)
    assert (log.reader, log.rows.count) == ("slime-console", 4)
    assert values(log, "rollout/step") == [(0, 3.0), (1, 3.0)]
    assert values(log, "train/step") == [(2, 5.0)]
    assert values(log, "eval/step") == [(3, 3.0)]
    assert values(log, "rollout/raw_reward") == [(0, 0.25)]
    assert values(log, "train/grad_norm") == [(2, 0.4)]
    assert values(log, "train/pg_clipfrac") == [(2, 0.125)]
    assert values(log, "eval/aime") == [(3, 0.5)]


def test_roll_rows_are_json_behind_a_logger(tmp_path):
    """NaN tokens and null of JSON are numbers that are not finite."""
    text = (
        "[2026-01-02 03:04:05] [INFO] [stdout.py (12)] metrics_tag: "
        '{"step": 3, "metrics": {"critic/score/mean": 0.41, "actor/pg_loss": NaN, '
        '"actor/lr": null, "val_correct/all/mean": 0.3}}\n'
    )
    log = log_of(tmp_path, text)
    assert (log.reader, values(log, "step")) == ("roll-console", [(0, 3.0)])
    assert values(log, "critic/score/mean") == [(0, 0.41)]
    assert values(log, "actor/pg_loss") == [(0, None)]
    assert values(log, "actor/lr") == [(0, None)]
    assert values(log, "val_correct/all/mean") == [(0, 0.3)]


SKYRL = (
    "2026-01-02 03:04:05.123 | INFO     | skyrl_train.utils.tracking:log:107 - Step 12: \n"
    "{'policy/clip_ratio': '0.0012',\n"
    " 'policy/grad_norm': 'nan',\n"
    " 'reward/avg_raw_reward': '0.4375'}\n"
    "2026-01-02 03:05:05.123 | INFO     | skyrl_train.utils.tracking:log:107 - Step 13: \n"
    "{'eval/all/avg_score': '0.5000', 'reward/avg_raw_reward': '0.5000', 'trainer/epoch': 1}\n"
)


def test_skyrl_rows_are_pretty_printed_texts(tmp_path):
    """A dictionary over several lines whose numbers are texts is one row."""
    log = log_of(tmp_path, SKYRL)
    assert (log.reader, log.rows.count) == ("skyrl-console", 2)
    assert values(log, "trainer/global_step") == [(0, 12.0), (1, 13.0)]
    assert values(log, "policy/clip_ratio") == [(0, 0.0012)]
    assert values(log, "policy/grad_norm") == [(0, None)]
    assert values(log, "reward/avg_raw_reward") == [(0, 0.4375), (1, 0.5)]
    assert values(log, "eval/all/avg_score") == [(1, 0.5)]


def test_skyrl_rows_between_the_lines_of_others(tmp_path):
    """Lines of other workers within a dictionary are not taken for parts of it."""
    head, first, *rest = SKYRL.splitlines()[:4]
    mine = "(skyrl_entrypoint pid=5) "
    lines = [mine + head, "(Worker pid=6) {'policy/clip_ratio': '9.9',", mine + first]
    lines += ["(Worker pid=6)  'reward/avg_raw_reward': '9.9'}", *(mine + line for line in rest)]
    log = log_of(tmp_path, "\n".join(lines) + "\n")
    assert values(log, "policy/clip_ratio") == [(0, 0.0012)]
    assert values(log, "reward/avg_raw_reward") == [(0, 0.4375)]


def test_areal_boxes_below_their_step(tmp_path):
    """Pairs of key and value are read from every column; the step is counted from 0."""
    text = (
        "20260102-03:04:05.678 StatsLogger INFO: Epoch 1/2 Step 3/50 Train step 3/100 done.\n"
        "20260102-03:04:05.678 StatsLogger INFO: Stats (1/1):\n"
        "╭──────────────────────────────┬────────────┬───────────────────────┬────────────╮\n"
        "│ ppo_actor/task_reward/avg    │ 4.1200e-01 │ ppo_actor/update/lr   │ 1.0000e-06 │\n"
        "│ ppo_actor/update/grad_norm   │        nan │                       │            │\n"
        "╰──────────────────────────────┴────────────┴───────────────────────┴────────────╯\n"
    )
    log = log_of(tmp_path, text)
    assert (log.reader, values(log, "step")) == ("areal-console", [(0, 2.0)])
    assert values(log, "ppo_actor/task_reward/avg") == [(0, 0.412)]
    assert values(log, "ppo_actor/update/lr") == [(0, 1e-6)]
    assert values(log, "ppo_actor/update/grad_norm") == [(0, None)]


def nemo(epoch, step, of, reward, accuracy=None):
    """Return the print of one step of NeMo-RL."""
    head = f"\n{'=' * 25} Step {step}/{of} {'=' * 25}\n"
    if step == 1:
        head = f"\n{'=' * 25} Epoch {epoch}/2 {'=' * 25}\n{head}"
    check = f"\n📊 Validation Results:\n    • Accuracy: {accuracy:.4f}\n" if accuracy else ""
    return (
        f"{head}{check}\n📊 Training Results:\n  • Loss: 0.0123\n  • Generation KL Error: 0.0004\n"
        f"  • Avg Reward: {reward:.4f}\n  • Mean Generation Length: 512.2500\n"
        "\n⏱️  Timing:\n  • Total step time: 10.5s\n  • logprobs: 1.0s (9.5%)\n"
    )


def test_nemo_steps_go_on_over_epochs(tmp_path):
    """The printed step begins anew in each epoch, the one that is read does not."""
    text = nemo(1, 1, 2, 0.25) + nemo(1, 2, 2, 0.5, 0.375) + nemo(2, 1, 2, 0.75)
    log = log_of(tmp_path, text)
    assert log.reader == "nemo-rl-console"
    steps = dict(values(log, "step"))
    assert [steps[row] for row, _ in values(log, "train/reward")] == [1.0, 2.0, 3.0]
    assert [value for _, value in values(log, "train/reward")] == [0.25, 0.5, 0.75]
    ((row, accuracy),) = values(log, "validation/accuracy")
    assert (steps[row], accuracy) == (2.0, 0.375)
    assert values(log, "train/loss")[0][1] == 0.0123


def test_torchtune_lines(tmp_path):
    """One line a step, with tensors among the values."""
    text = "Step 3 | rewards:0.41 successes:0.38 loss:tensor(0.002) clipfrac:0.0 \n"
    log = log_of(tmp_path, text, "log_1700000000.txt")
    assert (log.reader, log.framework) == ("torchtune-console", "torchtune")
    assert values(log, "step") == [(0, 3.0)]
    assert values(log, "rewards") == [(0, 0.41)]
    assert values(log, "loss") == [(0, 0.002)]


def test_the_first_validation_of_verl_without_a_row(tmp_path):
    """A validation before training that is only pretty-printed is read, once."""
    text = (
        "(TaskRunner pid=7) (\"Initial validation metrics: {'val-core/toy/acc/mean@1': \"\n"
        "(WorkerDict pid=8) something else\n"
        "(TaskRunner pid=7)  'np.float64(0.125)}')\n"
        "(TaskRunner pid=7) step:1 - critic/score/mean:0.5\n"
    )
    log = log_of(tmp_path / "a", text)
    assert values(log, "step") == [(0, 0.0), (1, 1.0)]
    assert values(log, "val-core/toy/acc/mean@1") == [(0, 0.125)]
    row = "(TaskRunner pid=7) step:0 - val-core/toy/acc/mean@1:0.25\n(TaskRunner pid=7) step:1"
    log = log_of(tmp_path / "b", text.replace("(TaskRunner pid=7) step:1", row))
    assert values(log, "val-core/toy/acc/mean@1") == [(0, 0.25)]


@pytest.mark.parametrize("label", ["[rank{}]: ", "{}: ", "[default{}]:"])
def test_rows_of_every_rank_are_one_row(tmp_path, label):
    """The same dictionary once a rank counts once; those that differ are told."""
    rows = []
    for step in (1, 2):
        for rank in (0, 1):
            reward = 0.5 if rank == 0 or step == 1 else 0.75
            rows.append(f"{label.format(rank)}Global step {step}: {{'reward': {reward}}}\n")
    log = log_of(tmp_path, "".join(rows))
    assert values(log, "reward") == [(0, 0.5), (1, 0.5)]
    told = noted(log, "rank_copies")
    assert told.count == 2
    assert "1 of them differ" in told.message


def test_equal_rows_without_a_label_are_one_row(tmp_path):
    """Ranks that print without their name are found by their equal rows."""
    log = log_of(tmp_path, "Global step 1: {'reward': 0.5}\n" * 4)
    assert log.rows.count == 1
    assert noted(log, "rank_copies").count == 3


def test_a_cut_dictionary_keeps_its_complete_keys(tmp_path):
    """What was cut off in the last row is left out, and told."""
    text = "Global step 1: {'reward': 0.512, 'kl': 0.25}\nGlobal step 2: {'reward': 0.625, 'kl': 0."
    log = log_of(tmp_path, text)
    assert values(log, "reward") == [(0, 0.512), (1, 0.625)]
    assert values(log, "kl") == [(0, 0.25)]
    assert noted(log, "cut_line").where.endswith("line 2")


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffGlobal step 1: {'reward': 0.5}\r\nGlobal step 2: {'reward': 0.6}\r\n",
        "10%|#  | 1/9\rGlobal step 1: {'reward': 0.5}\r20%|#  | 2/9\rGlobal step 2:"
        " {'reward': 0.6}\n",
        "\x1b]0;title\x07Global step 1: {'reward': 0.5}\n\x1b[1;31m\x1b[KGlobal step 2: {'reward': "
        "0.6}\x1b[0m\n",
        "12:00:01 | INFO | a.b:c:9 - Global step 1:"
        " {'reward': 0.5}\n\udcff Global step 2: {'reward':"
        " 0.6}\n",
        "(A pid=1, ip=10.0.0.7) Global step 1: {'reward': 0.5} [repeated 4x across cluster]\n"
        "\x1b[36m(A pid=1)\x1b[0m Global step 2: {'reward': 0.6}\n",
    ],
    ids=["bom-crlf", "bars", "escapes", "prefix-and-bad-bytes", "ray"],
)  # fmt: skip
def test_what_terminals_and_launchers_add_is_taken_off(tmp_path, text):
    """Escapes, bars, prefixes, line ends and bad bytes do not hide or change a value."""
    data = text.encode("utf-8", errors="surrogateescape")
    log = log_of(tmp_path, data)
    assert values(log, "global_step") == [(0, 1.0), (1, 2.0)]
    assert values(log, "reward") == [(0, 0.5), (1, 0.6)]


def test_utf_16_is_refused_with_the_remedy(tmp_path):
    """A console saved by PowerShell names what to do."""
    path = write(tmp_path, {"train.log": "Global step 1: {'reward': 0.5}\n".encode("utf-16")})
    with pytest.raises(NoUsableRuns, match="UTF-16; save it as UTF-8"):
        read_runs(path)


def test_a_row_behind_a_long_start_is_found(tmp_path):
    """Megabytes of other text before the first row do not hide it, without an ending either."""
    text = "loading weights of layer 12 from shard 3\n" * 100_000
    log = log_of(tmp_path, text + "Global step 1: {'reward': 0.5}\n", "nohup")
    assert noted_lines(log) == [100_001]


def noted_lines(log):
    """Return the line of each row."""
    return log.rows.lines.numbers(log.rows.count).tolist()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("+ python -m openrlhf.cli.train_ppo_ray --seed 1\nRuntimeError: x\n", "Global step N"),
        ("skyrl_train.entrypoints.main_base\nRuntimeError: x\n", "Step N"),
        ("(TaskRunner pid=7) {'actor_rollout_ref': {'actor': 1}}\n", "step:N - key:value"),
        ("python open_instruct/grpo_fast.py --beta 0.0\n", "give its wandb folder"),
    ],
)
def test_a_console_without_a_row_says_what_it_lacks(tmp_path, text, what):
    """A run that stopped before its first step is no run, and the reason names the row."""
    path = write(tmp_path, {"train.log": text}) / "train.log"
    with pytest.raises(SourceError, match="no metrics: ") as caught:
        read(path, ReadOptions())
    assert what in str(caught.value)
    assert find_dialect(Head(path, read_head(path))) is not None


def test_home_made_lines(tmp_path):
    """Pairs behind a step are read from three lines on; prose and fewer lines are not."""
    text = "".join(f"[step={s}] loss=0.{s}, val_acc=0.{s}5\n" for s in (1, 2, 3))
    log = log_of(tmp_path / "a", text)
    assert (log.reader, log.framework) == ("plain-console", None)
    assert values(log, "val_acc") == [(0, 0.15), (1, 0.25), (2, 0.35)]
    text = "".join(
        f"2026-01-02 03:04:05 INFO step {s} loss 0.{s} val_acc 0.{s}5\n" for s in (1, 2, 3)
    )
    assert values(log_of(tmp_path / "b", text), "loss") == [(0, 0.1), (1, 0.2), (2, 0.3)]
    two = "".join(f"step {s} loss 0.{s}\n" for s in (1, 2))
    path = write(tmp_path / "c", {"train.log": two}) / "train.log"
    assert find_dialect(Head(path, read_head(path))) is None
    prose = "step 1 of 3: mix\nstep 2 of 3: stir 20 minutes\nstep 3 of 3: bake\n"
    path = write(tmp_path / "d", {"train.log": prose}) / "train.log"
    assert find_dialect(Head(path, read_head(path))) is None


def test_a_console_is_read_through_the_door(tmp_path):
    """The rows of a console make a run like those of any sink."""
    rows = "".join(f"step {s} loss 0.{s} val_acc 0.{s}\n" for s in (1, 2, 3))
    files = {"a/train.log": rows, "b/gpu.log": "gpu 0: 35 C\n"}
    runs = read_runs(write(tmp_path, files), ReadOptions(batch_size=8))
    assert runs.evals["responses"].tolist() == [8, 16, 24]
    assert "no metrics" in reasons(runs)["gpu.log"]
    assert "rank_copies" not in codes(runs)


def test_copies_are_told_at_the_door(tmp_path):
    """The note about ranks reaches the reader of the runs."""
    rows = "".join(
        f"[rank{r}]: step:{s} - critic/score/mean:0.{s} - val-core/x/acc/mean@1:0.{s}\n"
        for s in (1, 2) for r in (0, 1, 2)
    )  # fmt: skip
    runs = read_runs(write(tmp_path, {"train.log": rows}), ReadOptions(batch_size=8))
    assert runs.evals["responses"].tolist() == [8, 16]
    assert note(runs, "rank_copies").count == 4
