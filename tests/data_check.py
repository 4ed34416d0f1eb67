"""Whether the shipped studies still come out as shipped: ``make data-check``.

For every ``study.toml`` below data/: each of its runs is there, finished, with just its settings;
and the beginning of one run of the cheapest cell is trained again, from the shipped base policy,
into a temporary folder. On the kind of machine that made the study every value is the same, wall
times apart; averages over the steps of a rollout may differ in their last digit, since the shipped
ones were added up in float32, in an order that depended on the crew. Elsewhere rounding differs in
the last bits, and a sampled token in a million with it, after which the two runs drift apart; so
there, what they measure has to agree:

- the validation at 0, of the same policy, problems and random numbers: within `AT_START`;
- mean reward: within four standard errors of the difference of two independent runs, counting
  prompts, not responses, since answers to one prompt are alike;
- mean entropy: within the share `ENTROPY`.

With other vector instructions on the processor that made it, a run of the learning study had the
shipped rewards for 93 of 128 rollouts, and then means within 0.2 %.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from twoclock.errors import TwoclockError
from twoclock.runlog import read_header, read_rows
from twoclock.trainer import TrainSettings, load_study, train
from twoclock.trainer.machine import read_machines, this_machine
from twoclock.trainer.records import settings_changes
from twoclock.trainer.study import Study

TIMES = frozenset(("seconds", "rollout_seconds", "update_seconds", "eval_seconds", "probe_seconds"))
AVERAGED = frozenset(("loss", "clip_fraction", "kl_old", "kl_ref", "ratio_mean", "grad_norm"))
"""Averages over the steps of a rollout, of which the shipped runs' were added up in float32."""

AVERAGE = (2e-5, 1e-7)
"""Largest difference of these, relative and absolute: one in the fifth digit that is logged."""

AT_START = 0.01
"""Largest difference of the validation at 0."""

ENTROPY = 0.05
"""Largest relative difference of the mean entropy."""

ROLLOUTS = 3
"""Least rollouts that are trained again."""


@dataclass(frozen=True)
class Verdict:
    """What came out for one study.

    Parameters
    ----------
    study : Path
        Its file.
    what : str
        What was compared.
    fault : str
        What differs; empty when nothing does.
    """

    study: Path
    what: str
    fault: str


def check_study(file: Path, responses: int) -> Verdict:
    """Check the runs that lie beside a study's file; train so many responses again."""
    out = file.parent
    try:
        study = load_study(file)
        fault = missing(study, out / "runs")
        if fault:
            return Verdict(file, "runs", fault)
        member = cheapest(study, responses)
        exact = read_machines(out) == [this_machine()]
        shipped = read_rows(out / "runs" / member.run_id)
        again = train_again(member, out)
    except TwoclockError as err:
        return Verdict(file, "runs", str(err))
    compare = differ_exactly if exact else differ_by_measure
    how = "exactly" if exact else "within tolerance (made on another kind of machine)"
    what = f"{member.run_id}, {member.rollouts} rollouts, {how}"
    return Verdict(file, what, compare(shipped, again, member))


def missing(study: Study, runs: Path) -> str:
    """Return which run of a study is not there, unfinished, or of other settings."""
    for member in study.members:
        folder = runs / member.run_id
        if not folder.exists():
            return f"{folder} is missing"
        header = read_header(folder)
        changes = settings_changes(header, member)
        if changes or header["ended"] == "unknown":
            return f"{folder}: {changes or 'has not ended'}"
    return ""


def cheapest(study: Study, responses: int) -> TrainSettings:
    """Return the first run of the cheapest cell, cut to so many responses."""
    first = min(study.members, key=lambda m: m.rollouts * m.batch_size * (1 + 3 * m.epochs))
    rollouts = min(first.rollouts, max(ROLLOUTS, responses // first.batch_size))
    return replace(first, responses=rollouts * first.batch_size)


def train_again(member: TrainSettings, out: Path) -> list[dict]:
    """Train a run into a temporary folder, from the base policy that lies in `out`."""
    with tempfile.TemporaryDirectory() as scratch:
        bases = Path(scratch) / "bases"
        if (out / "bases").exists():
            shutil.copytree(out / "bases", bases)
        (folder,) = train([member], Path(scratch) / "runs", cache=bases)
        return read_rows(folder)


def differ_exactly(shipped: list[dict], again: list[dict], member: TrainSettings) -> str:
    """Return the first difference of two runs; the shorter run's own last validation is no row."""
    theirs = {(row["kind"], row["rollout"]): row for row in shipped}
    for row in again:
        place = (row["kind"], row["rollout"])
        if row["kind"] == "eval" and row["rollout"] == member.rollouts and place not in theirs:
            continue
        if place not in theirs:
            return f"{row['kind']} row of rollout {row['rollout']} is not in the shipped run"
        for name in sorted((row.keys() | theirs[place].keys()) - TIMES):
            old, new = theirs[place].get(name), row.get(name)
            if not same(name, old, new):
                return f"{name} at rollout {row['rollout']} was {old}, is {new}"
    return ""


def same(name: str, old: object, new: object) -> bool:
    """Whether two logged values are equal, averages over steps but for how they were added up."""
    if name in AVERAGED and isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= AVERAGE[0] * abs(old) + AVERAGE[1]
    return old == new


def differ_by_measure(shipped: list[dict], again: list[dict], member: TrainSettings) -> str:
    """Return what two runs disagree on beyond rounding and what rounding leads to."""
    old, new = (at_start(rows) for rows in (shipped, again))
    if abs(old - new) > AT_START + 1e-12:
        return f"accuracy at 0 was {old}, is {new}; tolerance {AT_START}"
    faults = []
    for name in ("reward", "entropy"):
        old, new = (mean(rows, name, member.rollouts) for rows in (shipped, again))
        spread = max(old * (1 - old), 0.01) if name == "reward" else 0.0
        sample = (2 * spread / (member.prompts * member.rollouts)) ** 0.5
        tolerance = 4 * sample if name == "reward" else ENTROPY * abs(old)
        if abs(old - new) > tolerance:
            faults.append(f"mean {name} was {old:.4g}, is {new:.4g}; tolerance {tolerance:.2g}")
    return "; ".join(faults)


def at_start(rows: list[dict]) -> float:
    """Return the accuracy before training."""
    return next(r["accuracy"] for r in rows if r["kind"] == "eval" and r["rollout"] == 0)


def mean(rows: list[dict], name: str, rollouts: int) -> float:
    """Return the mean of a column over the first rollouts."""
    values = [r[name] for r in rows if r["kind"] == "train" and r["rollout"] <= rollouts]
    return sum(values) / len(values)


def main(arguments: list[str] | None = None) -> int:
    """Check every study below a folder; return the exit code."""
    parser = argparse.ArgumentParser(description="Train a cell of every study again and compare.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data"))
    parser.add_argument("--responses", type=int, default=8192, help="trained for each study")
    options = parser.parse_args(arguments)
    files = sorted(options.folder.rglob("study.toml"))
    verdicts = []
    for file in files:
        verdict = check_study(file, options.responses)
        verdicts.append(verdict)
        word = f"DIFFERS: {verdict.fault}" if verdict.fault else "same"
        print(f"{file}: {verdict.what}: {word}", flush=True)
    if not files:
        print(f"{options.folder}: no study.toml")
    return int(not files or any(verdict.fault for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
