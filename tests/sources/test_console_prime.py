"""Consoles of prime-rl, made up from its print statements."""

from tests.reading import read as read_all
from tests.reading import write
from twoclock.reading import ReadOptions
from twoclock.sources.console import read


def orchestrator(step, of=64):
    """Return what the orchestrator prints for a step."""
    return (
        f"01:0{step}:00    INFO Starting orchestrator step {step}\n"
        f"Generating rollouts (train):   0%|          | 0/{of} [00:00<?, ?it/s]\r"
        f"Generating rollouts (train): 100%|#####| {of}/{of} [01:00<00:00,  1.00it/s]\n"
        f"01:0{step}:59 SUCCESS Step {step} | Time: 59.10s | Reward: 0.{step}250 | Throughput: "
        "240.9 tokens/s | Seq. Length: 99.5 tokens/sample | Async Level: 1 | "
        "Max. Off-Policy Level: 0\n"
    )


def test_the_orchestrator_prints_reward_and_batch(tmp_path):
    """Rows carry reward and length; the bar is the batch, so a step has its responses."""
    runs = read_all(tmp_path, {"orchestrator.log": "".join(map(orchestrator, range(3)))})
    assert runs.runs["framework"].tolist() == ["prime-rl"]
    assert runs.steps["responses"].tolist() == [64, 128, 192]
    assert runs.steps["reward"].tolist() == [0.025, 0.125, 0.225]


def test_batches_that_differ_are_no_fact(tmp_path):
    """A batch counts as known only when every row had the same one."""
    path = write(tmp_path, {"a.log": orchestrator(0) + orchestrator(1, of=32)}) / "a.log"
    (log,) = read(path, ReadOptions())
    assert "batch_size" not in log.facts


def test_the_trainer_prints_the_loss(tmp_path):
    """The last value of a cut line is left out; the trainer of supervised runs is none of these."""
    text = (
        "01:00:00 SUCCESS Step 0 | Time: 9.10s | Loss: 0.0100 | Entropy: 0.3000 | Mismatch KL: "
        "0.0010 | Grad. Norm: 0.2500 | LR: 1.00e-06 | MFU: 3.1% | Peak Mem.: 7.0 GiB\n"
        "01:01:00 SUCCESS Step 1 | Time: 9.10s | Loss: nan | Entropy: 0.2000 | Mismatch KL: 0.00"
    )
    path = write(tmp_path, {"rl.log": text}) / "rl.log"
    (log,) = read(path, ReadOptions())
    assert log.reader == "prime-rl-console"
    assert log.rows.values["optim/lr"].value.tolist() == [1e-06]
    assert log.rows.values["entropy/mean"].value.tolist() == [0.3, 0.2]
    assert log.rows.values["mismatch_kl/mean"].value.tolist() == [0.001]
