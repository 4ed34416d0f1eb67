"""Progress on stderr for calls that last: shown only to people, and only after two seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0
"""Seconds before a bar appears."""


class Bar:
    """A progress bar with time left; call it as ``bar(done, total, text)``.

    Nothing is drawn when stderr is not a terminal, with `quiet`, or before two seconds have passed.

    Parameters
    ----------
    quiet : bool
        Never draw.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._off = quiet or not sys.stderr.isatty()
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, done: int, total: int, text: str) -> None:
        """Tell that `done` of `total` units are finished, and what is being worked on."""
        if self._off or time.monotonic() - self._start < PATIENCE:
            return
        if self._progress is None:
            self._open()
        assert self._progress is not None
        assert self._task is not None
        self._progress.update(self._task, completed=done, total=total, description=text)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("", total=None)
