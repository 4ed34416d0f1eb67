"""How the time of reading grows with the number of runs: native folders and plain JSON lines."""

import json
import random
import tempfile
import time
from pathlib import Path

from twoclock.runs import read_runs
from twoclock.runs.store import write_store

COUNTS = (250, 500, 1000, 2000)
ROWS = 500
STEP_KEYS = ("reward", "kl_ref", "entropy", "grad_norm", "loss", "clip_fraction")


def rows(seed):
    """Yield (step, training values, accuracy or None) of a run."""
    rng = random.Random(seed)
    for step in range(1, ROWS + 1):
        values = {key: rng.random() for key in STEP_KEYS}
        yield step, values, rng.random() if step % 10 == 0 else None


def write_native(folder, index):
    """Write one native run folder."""
    folder.mkdir(parents=True)
    size = 64 * 2 ** (index % 4)
    run = {
        "format": "twoclock-run/1", "run_id": folder.name, "framework": "twoclock",
        "batch_size": size, "lr": 1e-3, "seed": index,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    with (folder / "metrics.jsonl").open("w") as file:
        for step, values, accuracy in rows(index):
            place = {"rollout": step, "responses": step * size}
            file.write(json.dumps({"kind": "train", **place, **values}) + "\n")
            if accuracy is not None:
                row = {"kind": "eval", **place, "accuracy": accuracy, "metric": "val", "n": 100}
                file.write(json.dumps(row) + "\n")


def write_lines(folder, index):
    """Write one folder with a plain log."""
    folder.mkdir(parents=True)
    with (folder / "metrics.jsonl").open("w") as file:
        for step, values, accuracy in rows(index):
            row = {"step": step, **values}
            if accuracy is not None:
                row["val/acc"] = accuracy
            file.write(json.dumps(row) + "\n")


def write(root, kind, count):
    """Write `count` runs below a folder."""
    for index in range(count):
        make = write_native if kind == "native" else write_lines
        make(root / f"b{64 * 2 ** (index % 4)}" / f"run{index}", index)
    if kind == "lines":
        entries = "".join(
            f'- {{path: "b{size}/*", batch_size: {size}, lr: 1.0e-6}}\n'
            for size in (64, 128, 256, 512)
        )
        (root / "runs.yaml").write_text(entries)


def main():
    """Print the table."""
    print(f"runs of {ROWS} rows: wall time, processor time, processor time a run")
    for kind in ("native", "lines"):
        for count in COUNTS:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), kind, count)
                start, busy = time.perf_counter(), time.process_time()
                runs = read_runs(folder)
                wall, busy = time.perf_counter() - start, time.process_time() - busy
            assert len(runs.runs) == count
            each = 1000 * busy / count
            print(f"{kind:8} {count:6} runs {wall:7.2f} s {busy:7.2f} s {each:7.2f} ms", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        write_store(runs, Path(folder))
        written = time.perf_counter() - start
        start = time.perf_counter()
        read_runs(folder)
        again = time.perf_counter() - start
    told = f"{wall / again:.0f} times faster than the logs; written in {written:.2f} s"
    print(f"tables   {count:6} runs {again:7.2f} s   {told}")


if __name__ == "__main__":
    main()
