"""Kill a small sweep, again and again; run as a script by `test_kill`, in a process of its own.

The script forks a child for each try, which has torch loaded already and is killed for real: at a
random moment by SIGKILL, or just before a chosen file operation by leaving without clean-up.
Nothing is trained in the script itself, because torch cannot train after a fork if it did before.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.trainer.conftest import TINY
from twoclock.trainer import Grid, Study, SweepOptions, plan, run_sweep
from twoclock.trainer.cost import Cost, kind

OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}

STUDY = Study(
    (
        Grid(
            batch_sizes=(32, 64),
            base_lrs=(1e-3, 3e-4),
            seeds=(0, 1, 2),
            responses=((256, 192), (320, 256)),
            shared={**TINY, "eval_every": 96, "base_steps": 20},
        ),
        Grid(
            batch_sizes=(32,),
            base_lrs=(1e-2,),
            seeds=(0, 1),
            responses=((192,),),
            shared={**TINY, "base_steps": 20, "optimizer": "sgd", "momentum": 0.9,
                    "probe_every": 64, "probe_prompts": 16, "variant": "probes"},
        ),
    )
)  # fmt: skip
"""Fourteen runs, of which some end before their crewmates and two have probes."""

PAIR = Study(
    (
        Grid(
            batch_sizes=(32,),
            base_lrs=(1e-3, 3e-4),
            seeds=(0,),
            responses=((128, 96),),
            shared={**TINY, "base_steps": 20},
        ),
    )
)
"""Two runs."""


def options(crew_size: int) -> SweepOptions:
    """Return options with a checkpoint at every second rollout or so."""
    return SweepOptions(jobs=1, crew_size=crew_size, checkpoint_every=64)


def train_in_child(study: Study, out: Path, crew_size: int, limit: int = 0) -> int:
    """Fork a child that trains `study`; it leaves before file operation `limit`, if not 0."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if limit:
            leave_before(limit, out)
        run_sweep(study, out, options=options(crew_size))
        code = 0
    finally:
        os._exit(code)


def leave_before(limit: int, out: Path) -> None:
    """End this process just before its file operation number `limit` below `out`."""
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event not in OPERATIONS or str(out) not in str(arguments[0]):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        seen += 1
        if seen == limit:
            os._exit(9)

    sys.addaudithook(hook)


def code_of(pid: int) -> int:
    """Wait for a child; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def at_moments(out: Path, seed: int) -> None:
    """Kill a sweep ten times, each time with another crew size, then let it end."""
    rng = random.Random(seed)
    start = time.monotonic()
    whole = out.with_name("whole")
    assert code_of(train_in_child(STUDY, whole, 16)) == 0
    length = time.monotonic() - start
    killed = 0
    while killed < 10:
        pid = train_in_child(STUDY, out, rng.choice([1, 2, 4, 16]))
        time.sleep(rng.uniform(0.1, 0.5) * length)
        os.kill(pid, signal.SIGKILL)
        code = code_of(pid)
        if code == 0:  # it was faster: begin again, so that every kill meets a sweep at work
            shutil.rmtree(out)
            continue
        assert code == -signal.SIGKILL, code
        killed += 1
    assert code_of(train_in_child(STUDY, out, 16)) == 0


def at_operations(out: Path) -> None:
    """Kill a sweep before each of its file operations, and let another one end its work."""
    base = out / "base"
    assert code_of(train_in_child(PAIR, base, 16)) == 0
    number, code = 0, 9
    while code == 9:
        number += 1
        own = out / f"{number:03d}"
        shutil.copytree(base / "bases", own / "bases")
        code = code_of(train_in_child(PAIR, own, 16, limit=number))
        again = code_of(train_in_child(PAIR, own, 1 + number % 2))
        assert again == 0, (number, again)
    assert code == 0, code


if __name__ == "__main__":
    plan.measure = lambda members: {kind(m): Cost(1e-3, 1e-4, 1e-3) for m in members}
    plan.base_seconds = lambda member: 1.0  # a hundred plans need no measured times
    if sys.argv[1] == "moments":
        at_moments(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        at_operations(Path(sys.argv[2]))
