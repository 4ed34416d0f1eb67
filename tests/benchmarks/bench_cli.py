"""How long the program takes to start and to fit the shipped sweeps, as ratios in one run."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

BARE = """
import typer
app = typer.Typer()

@app.command()
def one(path: str, count: int = 3) -> None:
    "Do one thing."

@app.command()
def two(path: str, name: str = "x") -> None:
    "Do another thing."

app()
"""
"""A typer program with two commands and nothing else: the least that a start can cost."""


def seconds(command, repeats):
    """Return the median wall time of a command."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        bare_file = Path(folder) / "bare.py"
        bare_file.write_text(BARE)
        bare = seconds([sys.executable, bare_file, "--help"], 9)
        start = seconds([sys.executable, "-m", "twoclock", "--help"], 9)
        sweeps = ["data/learning", "data/failure"]
        fit = seconds(
            [sys.executable, "-m", "twoclock", "fit", *sweeps, "--out", Path(folder) / "report"], 1
        )
        table = seconds([sys.executable, "-m", "twoclock", "fit", *sweeps], 1)
    print(f"typer app with two commands, --help   {bare:6.2f} s")
    print(f"twoclock --help                       {start:6.2f} s   {start / bare:.2f} times that")
    print(f"twoclock fit on the shipped sweeps    {table:6.2f} s")
    print(f"  with tables and figures             {fit:6.2f} s   {fit / bare:.0f} times that")


if __name__ == "__main__":
    main()
