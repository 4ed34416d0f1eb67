"""Log a training loop of your own: facts once, then a line per rollout and per validation.

`RunLogger` keeps the cumulative counts that the two clocks need and writes the native format with
`twoclock.runlog`. It needs no torch; in a distributed job only one process may log.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from twoclock.errors import LogFormatError
from twoclock.runfacts import (
    RunFacts,
    check_name,
    complete_facts,
    plain,
    real_number,
    whole_number,
)
from twoclock.runlog import RunLog, create_run, read_header, read_rows, resume_run
from twoclock.schema import STEPS

_COUNTED = (
    "rollout", "optimizer_step", "responses", "responses_trained", "tokens", "flops", "seconds",
)  # fmt: skip
MEASURED = frozenset(STEPS.names) - {"run_id", "nonfinite", *_COUNTED}
"""Columns of a train row that a trainer measures; the others are counted here."""


@dataclass(frozen=True)
class Counts:
    """What a run has used up; None for what is not known of every rollout.

    Parameters
    ----------
    rollout : int
        Rollouts finished.
    optimizer_step : int or None
        Optimizer steps finished.
    responses, responses_trained : int, int or None
        Responses generated, and those trained on.
    tokens : float or None
        Response tokens generated.
    flops : float or None
        FLOPs.
    seconds : float
        Wall time since the start, interruptions left out.
    """

    rollout: int = 0
    optimizer_step: int | None = 0
    responses: int = 0
    responses_trained: int | None = 0
    tokens: float | None = 0
    flops: float | None = 0
    seconds: float = 0.0

    def after(self, *, seconds: float, **added: Any) -> Counts:
        """Return the counts after one more rollout; a sum with an unknown part is not known."""
        sums: dict[str, Any] = {}
        for name, more in added.items():
            so_far = getattr(self, name)
            known = so_far is not None and more is not None
            sums[name] = so_far + plain(more) if known else None
        return Counts(rollout=self.rollout + 1, seconds=seconds, **sums)

    def row(self) -> dict[str, Any]:
        """Return the columns of a train row."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {**known, "seconds": round(self.seconds, 3)}


class RunLogger:
    """Write one run in the native log format; a context manager that records how the run ended.

    Leaving the ``with`` block normally sets ``ended`` to completed, an exception to crashed
    (KeyboardInterrupt and SystemExit to stopped); the exception goes on. A killed run stays
    "unknown" and can be resumed.

    Parameters
    ----------
    folder : str or Path
        The run's folder; its name is the run's id.
    resume : int, optional
        Go on after so many rollouts, those of the checkpoint: later rows and torn lines are dropped
        and the counts restored. 0 also starts a run that does not exist yet, and an unfinished one
        from its beginning. Without it the folder must not exist.
    synchronous : bool
        Whether each rollout is sampled by the policy that its first step updates; where it is not,
        clipping can act even with one optimizer step.
    extra : mapping, optional
        Other texts and numbers to keep in `run.json`.
    clock : callable
        Seconds that only grow.
    **facts
        Columns of `RunFacts`. `batch_size` is needed and counts responses; a clip of None says "no
        such clip", a fact left out is not known.

    Raises
    ------
    LogFormatError
        An impossible or contradictory fact, an existing folder, or a resumed run with other facts.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> with RunLogger(
    ...     root / "b64-s0", batch_size=64, group_size=8, minibatches=8, epochs=1, lr=1e-6, seed=0,
    ...     clip_low=None, clip_high=None, clip_dual=None, model="tiny", task="sums",
    ... ) as logger:
    ...     logger.validation(accuracy=0.23, n=500)
    ...     for reward in (0.25, 0.31):
    ...         logger.rollout(reward=reward, loss=0.01)
    ...     logger.validation(accuracy=0.33, n=500)
    >>> from twoclock import read_runs
    >>> runs = read_runs(root)
    >>> runs.evals[["responses", "accuracy"]].to_dict("list")
    {'responses': [0, 128], 'accuracy': [0.23, 0.33]}
    >>> row = runs.runs.iloc[0]
    >>> int(row.optimizer_steps_per_rollout), str(row.clip_active), str(row.ended)
    (8, 'no', 'completed')
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        resume: int | None = None,
        synchronous: bool = True,
        extra: Mapping[str, str | int | float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **facts: Unpack[RunFacts],
    ) -> None:
        self.folder = Path(folder)
        run = complete_facts(facts, synchronous=synchronous, where=self.folder.name)
        self._steps: int | None = run.get("optimizer_steps_per_rollout")
        self._batch_size: int = run["batch_size"]
        run = {"framework": "custom", **run, **(extra or {})}
        fresh = resume is None or (resume == 0 and not self.folder.exists())
        self.counts = Counts() if fresh else _restored(self.folder, resume or 0)
        self._log = create_run(self.folder, run) if fresh else _open(self.folder, run, resume or 0)
        self._clock, self._start = clock, clock() - self.counts.seconds
        self.ended = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.ended:
            return
        if kind is None:
            self.finish("completed")
        else:
            self.finish("crashed" if issubclass(kind, Exception) else "stopped")

    def rollout(
        self,
        *,
        responses: int | None = None,
        trained: int | None = None,
        optimizer_steps: int | None = None,
        tokens: float | None = None,
        flops: float | None = None,
        **measured: Any,
    ) -> None:
        """Log a rollout whose updates are done. Counts are of this rollout alone, not so far.

        Parameters
        ----------
        responses : int, optional
            Responses generated, those that filtering threw away included; default `batch_size`.
        trained : int, optional
            Responses trained on; default `responses`.
        optimizer_steps : int, optional
            Default: the run's optimizer steps per rollout.
        tokens : float, optional
            Response tokens generated; default ``response_tokens * responses`` where that is given.
        flops : float, optional
            FLOPs of sampling and updates.
        **measured
            Columns of `MEASURED` (reward, loss, grad_norm, entropy, lr, ...); None is not logged,
            NaN and inf are, by name.

        Raises
        ------
        LogFormatError
            An unknown column, an impossible count, or a finished run.
        """
        where = self._check_open()
        size = self._batch_size if responses is None else responses
        size = whole_number("responses", size, where, of=" of this rollout alone")
        used = size if trained is None else whole_number("trained", trained, where, least=0)
        if used > size:
            msg = f"{where}: trained == {used}, must be at most responses == {size}"
            raise LogFormatError(msg)
        values = _measured(measured, where)
        if tokens is None and "response_tokens" in values:
            tokens = values["response_tokens"] * size
        elif tokens is not None:
            values.setdefault("response_tokens", real_number("tokens", tokens, where) / size)
        self.counts = self.counts.after(
            seconds=self._clock() - self._start,
            responses=size,
            responses_trained=used,
            optimizer_step=self._steps if optimizer_steps is None else optimizer_steps,
            tokens=tokens,
            flops=flops,
        )
        self._log.train({**self.counts.row(), **values})
        self._log.flush()

    def validation(
        self,
        accuracy: float,
        *,
        n: int | None = None,
        metric: str | None = None,
        scale: str | None = None,
        unfinished: int = 0,
        eval_seconds: float | None = None,
    ) -> None:
        """Log a validation of the policy as it is after the rollouts logged so far.

        Parameters
        ----------
        accuracy : float
            0..1, or any number with ``scale="score"``.
        n : int, optional
            Problems times samples behind it.
        metric : str, optional
            Its name, where a run has several.
        scale : {"accuracy", "score"}, optional
            Default accuracy.
        unfinished : int
            Responses of a rollout that is sampled, but whose updates are not finished: they count.
        eval_seconds : float, optional
            Wall time of the validation.

        Raises
        ------
        LogFormatError
            A value outside its range, or a finished run.
        """
        where = self._check_open()
        value = real_number("accuracy", accuracy, where)
        bounded = scale != "score"
        if not math.isfinite(value) or (bounded and not 0 <= value <= 1):
            rule = "within 0..1 (or give scale='score')" if bounded else "a finite number"
            msg = f"{where}: accuracy == {value}, must be {rule}"
            raise LogFormatError(msg)
        unfinished = whole_number("unfinished", unfinished, where, least=0)
        row = {
            "rollout": self.counts.rollout + (unfinished > 0),
            "responses": self.counts.responses + unfinished,
            "accuracy": value,
            "n": None if n is None else whole_number("n", n, where),
            "metric": metric,
            "scale": scale,
            "eval_seconds": eval_seconds,
        }
        self._log.eval({name: value for name, value in row.items() if value is not None})
        self._log.flush()

    def finish(self, ended: str = "completed", *, compress: bool = False) -> None:
        """Close the log and record how the run ended (see `RunLog.finish`).

        Parameters
        ----------
        ended : {"completed", "stopped", "crashed", "unknown"}
            How.
        compress : bool
            Replace `metrics.jsonl` by `metrics.jsonl.gz`.
        """
        self._check_open()
        self._log.finish(ended, compress=compress)
        self.ended = ended

    def close(self) -> None:
        """Close the file and leave the run unfinished, to be resumed."""
        self._log.close()
        self.ended = "unknown"

    def _check_open(self) -> str:
        """Return the run's name for messages, or raise when its log is closed."""
        if self.ended:
            msg = f"{self.folder.name}: the log is closed; resume the run to log more"
            raise LogFormatError(msg)
        return self.folder.name


def _measured(values: Mapping[str, Any], where: str) -> dict[str, float]:
    for name in values:
        check_name(name, MEASURED, where)
    return {k: real_number(k, v, where) for k, v in values.items() if v is not None}


def _open(folder: Path, run: Mapping[str, Any], resume: int) -> RunLog:
    """Open the existing run of a folder after checking that it is this one."""
    header = read_header(folder)
    if resume == 0 and header.get("ended") == "completed":
        msg = f"{folder}: holds a completed run; choose another folder"
        raise LogFormatError(msg)
    said = {k: v for k, v in header.items() if k not in ("format", "run_id", "ended")}
    missing = object()
    for name in (*run, *said):
        pair = run.get(name, missing), said.get(name, missing)
        if pair[0] != pair[1]:
            now, was = ("not given" if v is missing else repr(v) for v in pair)
            msg = f"{folder.name}: {name} is {now}, was {was}; a run resumes with the same facts"
            raise LogFormatError(msg)
    return resume_run(folder, rollout=resume, reopen=True)


def _restored(folder: Path, rollout: int) -> Counts:
    """Return the counts of the train row of `rollout`."""
    if rollout == 0:
        return Counts()
    rows = read_rows(folder)
    for row in rows:
        if row.get("kind") == "train" and row.get("rollout") == rollout:
            counts: dict[str, Any] = {name: row.get(name) for name in Counts.__dataclass_fields__}
            return Counts(**counts)
    last = max((row["rollout"] for row in rows), default=0)
    msg = f"{folder}: no rollout {rollout} to resume after; the log ends at rollout {last}"
    raise LogFormatError(msg)
