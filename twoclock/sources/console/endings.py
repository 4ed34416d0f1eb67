"""How a run ended, where its console says so.

A traceback that ends the process after the last row is a crash. Out of memory, a lost node, the
time limit and a cancelled job are no failures of the training: the run was stopped.
"""

from __future__ import annotations

import re

from twoclock.sources.console.blocks import Watch
from twoclock.sources.console.lines import Line

MARKS = (
    b"Traceback (most", b"CANCELLED", b"TIME LIMIT", b"PREEMPT", b"ut of memory", b"OutOfMemory",
    b"oom-kill", b"oom_kill", b"Training failed at step", b"Killed",
)  # fmt: skip
"""A line about an end holds one of these."""

_TRACEBACK = "Traceback (most recent call last)"
_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*")
_STOPPED = re.compile(
    r"DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|\*\*\* (?:JOB|STEP) \S+ .*CANCELLED"
    r"|OutOfMemory|[Oo]ut of memory|Out Of Memory|oom[-_]kill|KeyboardInterrupt|SystemExit"
    r"|ActorDiedError|ActorUnavailableError|NodeDied|WorkerCrashedError|^\s*Killed\s*$"
)
_FAILED = re.compile(r"Training failed at step \d+(?: with (\w+))?")
_TRACEBACK_LINES = 2000
_TAIL = 1000
"""A traceback so many lines before the end of the file was no end of the process."""


class Ending:
    """What the console says about the end so far."""

    def __init__(self) -> None:
        self.ended: str | None = None
        self._line = 0
        self._tracing = False

    def row(self) -> None:
        """Take note of a row: whatever was said before it was no end."""
        self.ended = None
        self._tracing = False

    def complete(self) -> None:
        """Take note that the console itself says that the training is over."""
        self.ended, self._line = "completed", 0

    def see(self, line: Line, watch: Watch) -> None:
        """Look at a line."""
        text = line.text
        if self._tracing:
            self._trace(line)
            return
        if "Traceback" in text:
            if not line.worker and text.startswith(_TRACEBACK):
                self._tracing = True
                watch.everything = max(watch.everything, _TRACEBACK_LINES)
        elif self.ended != "completed" and len(text) < 2000:
            failed = _FAILED.search(text)
            if failed:
                memory = failed[1] is not None and "OutOfMemory" in failed[1]
                self._end("stopped" if memory else "crashed", line, certain=True)
            elif not line.worker and _STOPPED.search(text):
                self._end("stopped", line)

    def _trace(self, line: Line) -> None:
        if line.worker or not line.text or line.text[0].isspace():
            return
        if _ERROR.fullmatch(line.text):
            self._tracing = False
            self._end("stopped" if _STOPPED.search(line.text) else "crashed", line)

    def _end(self, how: str, line: Line, *, certain: bool = False) -> None:
        if self.ended == "stopped" and how == "crashed" and not certain:
            return  # the first cause counts: what follows is its consequence
        if self.ended != "completed":
            self.ended, self._line = how, 0 if certain else line.number

    def result(self, last: int) -> str | None:
        """Return how the run ended, when the file's last line is `last`; None: not told."""
        if self._line and last - self._line > _TAIL:
            return None
        return self.ended
