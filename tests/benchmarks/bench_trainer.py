"""Responses per second of the trainer: crews against single runs, TRL and the machine's sgemm.

``python -m tests.benchmarks.bench_trainer --help`` lists the options. All work is on one thread.
Contestants take turns, several rounds of about a second each; medians over the rounds are
shown: ratios of processor seconds, which other work on the machine disturbs least, beside rates
per second on the clock. TRL runs in its own environment (`make test-trl` installs it).

Model FLOPs per response are ``2 N (L/G + A - 1) (1 + 3 E)`` (`flops_per_response`): N all
parameters, a prompt of L tokens read once per group of G, A answer tokens, E epochs; 2 N a token
forward, 4 N backward. Attention scores, softmax, Adam and sampling take time and are left out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.contestants import TRL, Contestant, Sgemm, Spent, Together, base_of
from twoclock.trainer.loop import numerics
from twoclock.trainer.records import flops_per_response
from twoclock.trainer.settings import SIZES, TrainSettings

ROOT = Path(__file__).parents[2]
TRL_PYTHON = ROOT / ".venv-trl" / "bin" / "python"
MEMBERS = 15
ROUND_SECONDS = 1.0


def settings(batch_size: int, model: Mapping[str, int]) -> TrainSettings:
    """Return a run of the default task: group 8, K = 8 steps of one epoch, clip 0.2."""
    return TrainSettings(
        seed=0, batch_size=batch_size, base_lr=1e-5, responses=10**9, minibatches=8, epochs=1,
        group_size=8, **model,
    )  # fmt: skip


def take_turns(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, list[Spent]]:
    """Let the contestants work in turn, each about as long; return the times of every round."""
    turns = {}
    for name, contestant in contestants.items():
        once = contestant.run(1)
        turns[name] = max(1, round(ROUND_SECONDS / once.cpu))
    spent: dict[str, list[Spent]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            spent[name].append(contestant.run(turns[name]))
    return spent


def rate(spent: Sequence[Spent]) -> float:
    """Return the median work per processor second."""
    return statistics.median(s.rate for s in spent)


def wall_rate(spent: Sequence[Spent]) -> float:
    """Return the median work per second on the clock."""
    return statistics.median(s.wall_rate for s in spent)


def ratio(some: Sequence[Spent], others: Sequence[Spent]) -> float:
    """Return the median over the rounds of the ratio of two rates."""
    return statistics.median(a.rate / b.rate for a, b in zip(some, others, strict=True))


def compare(
    batch_sizes: Sequence[int], model: Mapping[str, int], python: Path, rounds: int
) -> None:
    """Print the table of crews, single runs and TRL."""
    gemm = Sgemm()
    print(f"{MEMBERS} members, model of {settings(64, model).shape().n_params:,} parameters")
    print("responses per processor second (on the clock); x: ratio to the crew")
    print(f"{'B':>6} {'crew':>16} {'single':>16} {'x':>6} {'TRL':>14} {'x':>6} {'of sgemm':>9}")
    for batch_size in batch_sizes:
        s = settings(batch_size, model)
        base = base_of(s)
        field: dict[str, Contestant] = {
            "crew": Together(s, MEMBERS, base),
            "single": Together(s, 1, base),
            "sgemm": gemm,
        }
        if python.exists():
            field["trl"] = TRL(python, s)
        spent = take_turns(field, rounds)
        crew = spent["crew"]
        row = f"{batch_size:>6} {shown(crew):>16} {shown(spent['single']):>16}"
        row += f" {ratio(crew, spent['single']):>6.2f}"
        if "trl" in field:
            row += f" {shown(spent['trl']):>14} {ratio(crew, spent['trl']):>6.1f}"
            field["trl"].close()  # type: ignore[attr-defined]
        else:
            row += f" {'skipped':>14} {'':>6}"
        share = flops_per_response(s) * ratio(crew, spent["sgemm"])
        print(f"{row} {100 * share:>8.1f}%", flush=True)
    print(f"sgemm on one thread: {rate([gemm.run(20) for _ in range(5)]) / 1e9:.1f} GFLOP/s")
    if not python.exists():
        print(f"TRL is skipped: no {python}; `make test-trl` installs it")


def shown(spent: Sequence[Spent]) -> str:
    """Return both rates."""
    return f"{rate(spent):,.0f} ({wall_rate(spent):,.0f})"


def by_members(
    batch_size: int, model: Mapping[str, int], counts: Sequence[int], rounds: int
) -> None:
    """Print the processor time of a response for different numbers of members."""
    s = settings(batch_size, model)
    base = base_of(s)
    field = {str(n): Together(s, n, base) for n in counts}
    spent = take_turns(field, rounds)
    print(f"\nprocessor microseconds per response at B = {batch_size}; to one member")
    for name, times in spent.items():
        cost = 1e6 / rate(times)
        print(f"{name:>4} members {cost:>8.1f} {ratio(spent[str(counts[0])], times):>6.2f}")


def memory(batch_size: int, model: Mapping[str, int], members: int) -> None:
    """Train one rollout and validate, and print the most memory that this process has held."""
    s = settings(batch_size, model)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    together = Together(s, members, base_of(s))
    together.crew.validate()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    verdict = "under" if peak < 2 else "NOT under"
    print(
        f"\npeak memory of {members} members at B = {batch_size}: {peak:.2f} GiB "
        f"({before:.2f} before training), {verdict} 2 GiB"
    )


def main(argv: Sequence[str] = ()) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[64, 512, 4096])
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--width", type=int, help="instead of the size's")
    parser.add_argument("--layers", type=int, help="instead of the size's")
    parser.add_argument("--heads", type=int, help="instead of the size's")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, nargs="*", default=[1, 2, 5, 10, 30])
    parser.add_argument("--members-batch", type=int, nargs="*", default=[64, 512])
    parser.add_argument("--memory-members", type=int, default=30, help="0: leave it out")
    parser.add_argument("--memory-batch", type=int, default=4096)
    parser.add_argument("--memory-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--trl-python", type=Path, default=TRL_PYTHON)
    args = parser.parse_args(argv)
    given = {name: getattr(args, name) for name in ("width", "layers", "heads")}
    model = {**SIZES[args.size], **{k: v for k, v in given.items() if v is not None}}
    with numerics():
        if args.memory_only:
            memory(args.memory_batch, model, args.memory_members)
            return
        if args.batch_sizes:
            compare(args.batch_sizes, model, args.trl_python, args.rounds)
        for batch_size in args.members_batch if args.members else ():
            by_members(batch_size, model, args.members, args.rounds)
    if args.memory_members:  # in a process of its own: the most memory is that of a whole life
        command = [sys.executable, "-m", "tests.benchmarks.bench_trainer", "--memory-only"]
        sizes = [f"--{name}={value}" for name, value in model.items()]
        rest = [f"--memory-{n}={getattr(args, f'memory_{n}')}" for n in ("members", "batch")]
        subprocess.run([*command, *sizes, *rest], check=True, cwd=ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
