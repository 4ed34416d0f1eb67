"""What the trainer benchmark compares: crews, single runs, TRL in its own process, and sgemm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from twoclock.trainer.base import train_base
from twoclock.trainer.crew import Crew
from twoclock.trainer.settings import TrainSettings

WORKER = Path(__file__).with_name("trl_worker.py")


@dataclass(frozen=True)
class Spent:
    """Time of a piece of work.

    Parameters
    ----------
    wall, cpu : float
        Seconds on the clock, and of the processor.
    work : float
        Responses, or FLOPs.
    """

    wall: float
    cpu: float
    work: float

    @property
    def rate(self) -> float:
        """Work per processor second."""
        return self.work / self.cpu

    @property
    def wall_rate(self) -> float:
        """Work per second on the clock."""
        return self.work / self.wall


class Contestant(Protocol):
    """Something that trains on request."""

    def run(self, rollouts: int) -> Spent:
        """Train so many rollouts; the work is in responses."""


def timed(action: Callable[[], None], work: float) -> Spent:
    """Return what an action takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu, work)


class Together:
    """Members trained at once; one member is a single run.

    Parameters
    ----------
    settings : TrainSettings
        Of the first member; the others differ in their seed.
    members : int
        How many.
    base : Tensor
        The base policy.
    """

    def __init__(self, settings: TrainSettings, members: int, base: torch.Tensor) -> None:
        values = {f: getattr(settings, f) for f in settings.__dataclass_fields__}
        runs = [TrainSettings(**{**values, "seed": seed}) for seed in range(members)]
        self.crew = Crew(runs, base)
        self.each = members * settings.batch_size
        self.run(1)

    def run(self, rollouts: int) -> Spent:
        """Train so many rollouts of every member."""

        def advance() -> None:
            for _ in range(rollouts):
                self.crew.advance()

        return timed(advance, rollouts * self.each)


class TRL:
    """TRL's GRPOTrainer on a model of the same sizes, waiting in another process.

    Parameters
    ----------
    python : Path
        The interpreter of an environment with TRL.
    settings : TrainSettings
        Sizes, batch, group and minibatches.
    """

    def __init__(self, python: Path, settings: TrainSettings) -> None:
        s, shape = settings, settings.shape()
        asked = {
            "width": s.width, "layers": s.layers, "heads": s.heads, "prompt": shape.prompt,
            "answer": shape.answer, "batch_size": s.batch_size, "group_size": s.group_size,
            "minibatches": s.minibatches,
        }  # fmt: skip
        self.each = s.batch_size
        self.process = subprocess.Popen(
            [python, WORKER, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.n_params = int(self._answer()["n_params"])
        self.run(2)

    def run(self, rollouts: int) -> Spent:
        """Train so many rollouts."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rollouts}\n")
        self.process.stdin.flush()
        spent = self._answer()
        return Spent(spent["wall"], spent["cpu"], rollouts * self.each)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                return dict(json.loads(line[1:]))
        msg = f"the process with TRL ended; run it by hand: {WORKER.name}"
        raise RuntimeError(msg)


class Sgemm:
    """Single-precision products of two square matrices, the most that this core computes.

    Parameters
    ----------
    n : int
        Rows of the matrices; a product takes 2 n^3 FLOPs.
    """

    def __init__(self, n: int = 1024) -> None:
        self.a, self.b, self.out = (torch.rand(n, n) for _ in range(3))
        self.n = n
        self.run(2)

    def run(self, products: int) -> Spent:
        """Multiply so many times; the work is in FLOPs."""

        def multiply() -> None:
            for _ in range(products):
                torch.mm(self.a, self.b, out=self.out)

        return timed(multiply, 2.0 * self.n**3 * products)


def base_of(settings: TrainSettings) -> torch.Tensor:
    """Return a base policy, hardly trained: speed does not depend on what it knows."""
    values = {f: getattr(settings, f) for f in settings.__dataclass_fields__}
    return train_base(TrainSettings(**{**values, "base_steps": 20}))
