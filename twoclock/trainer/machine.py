"""What kind of machine trained: runs repeat bit for bit on one kind, elsewhere rounding differs."""

from __future__ import annotations

import json
import platform
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from twoclock.errors import TrainingError

NAME = "machine.toml"
"""File beside the folder of runs; a kind of machine is added, never replaced."""


@dataclass(frozen=True)
class Machine:
    """What decides the rounding of a run, and with it every bit that follows.

    Parameters
    ----------
    processor : str
        Model of the processor.
    instructions : str
        Vector instructions that torch uses.
    system : str
        Operating system and machine type.
    torch, twoclock : str
        Versions.
    threads : int
        Threads of one crew.

    Examples
    --------
    >>> this_machine().threads
    1
    """

    processor: str
    instructions: str
    system: str
    torch: str
    twoclock: str
    threads: int


def this_machine() -> Machine:
    """Return the kind of this machine."""
    return Machine(
        processor=_processor(),
        instructions=torch.backends.cpu.get_cpu_capability(),
        system=f"{platform.system()} {platform.machine()}",
        torch=torch.__version__,
        twoclock=version("twoclock"),
        threads=1,  # numerics() sees to it
    )


def read_machines(out: Path) -> list[Machine]:
    """Return the kinds of machine that trained the runs of a sweep's folder, none when not told.

    Raises
    ------
    TrainingError
        The file is damaged.
    """
    path = out / NAME
    if not path.exists():
        return []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["machine"]
        return [Machine(**table) for table in tables]
    except (OSError, ValueError, KeyError, TypeError) as err:
        msg = f"{path}: cannot be read ({err})"
        raise TrainingError(msg) from err


def add_machines(out: Path, machines: Iterable[Machine]) -> None:
    """Write down the kinds of machine that trained runs of a sweep's folder."""
    known = read_machines(out)
    every = list(dict.fromkeys([*known, *machines]))
    if every != known:
        text = "# Runs repeat bit for bit on the same kind of machine.\n"
        for machine in every:
            lines = (f"{name} = {json.dumps(value)}" for name, value in asdict(machine).items())
            text += "\n".join(["", "[[machine]]", *lines, ""])
        temporary = out / f".{NAME}.new"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(out / NAME)


def _processor() -> str:
    """Return the processor's model; the field in /proc/cpuinfo is the only place on Linux."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
