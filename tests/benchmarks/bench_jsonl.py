"""How quickly JSON lines are read, beside orjson's own speed and beside pandas, in one process."""

import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import pandas as pd

from twoclock.reading import ReadOptions
from twoclock.sources.json_rows import read_lines
from twoclock.sources.json_values import parse

ROWS = 50_000
MANY_ROWS = 2_000_000
REPEATS = 5
KEYS = (
    "actor/entropy", "actor/kl_loss", "actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl",
    "actor/grad_norm", "actor/lr", "critic/score/mean", "critic/score/max", "critic/score/min",
    "critic/rewards/mean", "critic/advantages/mean", "critic/advantages/max",
    "critic/advantages/min", "response_length/mean", "response_length/max",
    "response_length/clip_ratio", "prompt_length/mean", "timing_s/gen", "timing_s/update_actor",
    "timing_s/step", "perf/throughput", "perf/mfu/actor", "global_seqlen/mean",
)  # fmt: skip
"""What a verl step logs; about half of it is wanted."""

TOKENS = (b"-Infinity", b"Infinity", b"NaN")


def log_lines(rows, share):
    """Yield the lines of a log; a share of them has one NaN and one infinity."""
    rng = random.Random(0)
    for step in range(rows):
        row = {"step": step, **{key: rng.random() for key in KEYS}}
        if step % 20 == 0:
            row["val-core/x/acc/mean@1"] = rng.random()
        if rng.random() < share:
            row["actor/grad_norm"] = math.nan
            row["actor/pg_loss"] = math.inf if step % 2 else -math.inf
        yield json.dumps(row).encode() + b"\n"


def seconds(work):
    """Return the processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(work, peer):
    """Return the median of the ratio work / peer, each measured in turn."""
    return statistics.median(seconds(work) / seconds(peer) for _ in range(REPEATS))


def each(function, lines):
    """Call a function with every line."""
    for line in lines:
        function(line)


def compare(path, lines):
    """Return how decoding compares with orjson, and reading with pandas."""
    path.write_bytes(b"".join(lines))
    strict = lines
    for token in TOKENS:
        strict = [line.replace(token, b"null") for line in strict]
    exact = all(repr(parse(line)) == repr(json.loads(line)) for line in lines[:2000])
    return (
        ratio(lambda: each(parse, lines), lambda: each(orjson.loads, strict)),
        1 / ratio(
            lambda: read_lines(path, ReadOptions()),
            lambda: pd.read_json(path, lines=True, precise_float=True),
        ),
        exact,
    )  # fmt: skip


READ_ALL = """
import sys, time
from tests.peak_memory import peak_mb
from twoclock.reading import ReadOptions
from twoclock.runs import read_runs
start = time.perf_counter()
runs = read_runs(sys.argv[1], ReadOptions(batch_size=64))
print(len(runs.evals), time.perf_counter() - start, round(peak_mb()))
"""


def many_rows(path):
    """Return validations, seconds and peak memory in MB of reading a log of `MANY_ROWS` rows."""
    dense = ("reward", "kl", "entropy", "grad_norm", "loss")
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, MANY_ROWS + 1):
            row = ",".join(f'"{key}":0.{step:07d}' for key in dense)
            row += f',"val/acc":{step / MANY_ROWS}' if step % 1000 == 0 else ""
            file.write(f'{{"step":{step},{row},"host":"x"}}\n')
    command = [sys.executable, "-c", READ_ALL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main():
    """Print the table."""
    print(f"{ROWS:,} rows of {len(KEYS) + 1} keys, processor time, median of {REPEATS}")
    print(f"{'lines with NaN, infinity':30} {'decode / orjson':>16} {'pandas / read':>14}  exact")
    with tempfile.TemporaryDirectory() as folder:
        for name, share in (("none", 0), ("4 %", 0.04), ("all", 1)):
            path = Path(folder) / "log.jsonl"
            decode, read, exact = compare(path, list(log_lines(ROWS, share)))
            print(f"{name:30} {decode:16.2f} {read:14.2f}  {'yes' if exact else 'NO'}")
        validations, wall, memory = many_rows(Path(folder) / "long.jsonl")
    print(f"{MANY_ROWS:,} rows: {float(wall):.1f} s, {memory} MB peak, {validations} validations")


if __name__ == "__main__":
    main()
