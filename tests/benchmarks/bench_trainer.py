"""Responses per second of 15 members trained at once against 15 runs one after the other.

Run as a script: ``python tests/benchmarks/bench_trainer.py``. Nothing is asserted: times depend on
the machine. Processor seconds of one thread are counted, so that other work on it matters little.
"""

from __future__ import annotations

import argparse
import time

from twoclock.trainer.base import train_base
from twoclock.trainer.crew import Crew
from twoclock.trainer.loop import numerics
from twoclock.trainer.settings import TrainSettings

MEMBERS = 15


def members(batch_size: int) -> list[TrainSettings]:
    """Return 15 runs of the default model: five seeds at three learning rates."""
    return [
        TrainSettings(
            seed=seed, batch_size=batch_size, base_lr=rate, responses=batch_size, base_steps=300
        )
        for rate in (1e-5, 3e-5, 1e-4)
        for seed in range(5)
    ]


@numerics()
def seconds(groups: list[list[TrainSettings]], rollouts: int) -> float:
    """Train each group for some rollouts, after one to warm up; return processor seconds in all."""
    total = 0.0
    base = train_base(groups[0][0])
    for group in groups:
        crew = Crew(group, base)
        crew.advance()
        start = time.process_time()
        for _ in range(rollouts):
            crew.advance()
        total += time.process_time() - start
    return total


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--responses", type=int, default=4096, help="per run")
    args = parser.parse_args()
    print(f"{'B':>6} {'together/s':>12} {'one by one/s':>13} {'ratio':>6}")
    for batch_size in args.batch_sizes:
        runs, rollouts = members(batch_size), max(2, args.responses // batch_size)
        work = MEMBERS * rollouts * batch_size
        together = work / seconds([runs], rollouts)
        single = work / seconds([[run] for run in runs], rollouts)
        print(f"{batch_size:>6} {together:>12.0f} {single:>13.0f} {together / single:>6.2f}")


if __name__ == "__main__":
    main()
