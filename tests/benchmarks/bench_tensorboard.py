"""How long 200,000 TensorBoard scalars take, beside TensorBoard's own reader, in one run.

Both read the same file, written here with the framing alone: 4 tags of 50,000 steps. TensorBoard's
reader keeps all points (its sampling is off); where it is not installed that line is left out.
Seconds are those of the processor, so that a busy machine changes the ratio little.
"""

import tempfile
import time
from pathlib import Path

from tests.event_bytes import record, scalar
from tests.peak_memory import peak_mb
from twoclock.reading import ReadOptions
from twoclock.sources.tensorboard import read_event_folder

TAGS = ("train/reward", "train/loss", "train/grad_norm", "train/entropy")
STEPS = 50_000
LONG = 500_000
"""Steps of the long file: 2,000,000 scalars."""


def write(folder, steps):
    """Write an event file with a value of every tag at every step."""
    path = Path(folder) / "events.out.tfevents.1700000000.host"
    tags = [tag.encode() for tag in TAGS]
    with path.open("wb") as file:
        file.write(record(b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"))
        for step in range(steps):
            file.write(b"".join(scalar(t, step, step / 7 + i) for i, t in enumerate(tags)))
    return path


def own(path):
    """Return the seconds that reading takes, and how many points were read."""
    start = time.process_time()
    (log,) = read_event_folder(path, ReadOptions())
    seconds = time.process_time() - start
    return seconds, sum(len(log.rows.values[tag].at) for tag in TAGS)


def peer(path):
    """Return the same of TensorBoard's reader, None where it is not installed."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return None
    start = time.process_time()
    events = EventAccumulator(str(path.parent), size_guidance={"scalars": 0})
    events.Reload()
    points = sum(len(events.Scalars(tag)) for tag in TAGS)
    return time.process_time() - start, points


def main():
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, STEPS)
        seconds, points = min(own(path) for _ in range(3))
        print(f"twoclock          {points:9,} scalars {seconds:7.2f} s")
        other = peer(path)
        if other is None:
            print("TensorBoard's reader is not installed; left out (pip install tensorboard)")
        else:
            print(f"EventAccumulator  {other[1]:9,} scalars {other[0]:7.2f} s   "
                  f"{other[0] / seconds:.1f} times that")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, LONG)
        seconds, points = own(path)
        print(
            f"twoclock          {points:9,} scalars {seconds:7.2f} s   {peak_mb():.0f} MB at most"
        )


if __name__ == "__main__":
    main()
