"""One class per kind of mistake; every message says what, where, got, rule and remedy in one line.

Nothing here prints: only `twoclock.cli` turns an error into a line on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TwoclockError(Exception):
    """Base of every error that a user can cause and mend; shown without a traceback."""


class SourceError(TwoclockError):
    """A file cannot be read as a run log: unknown format, damaged, forbidden or too large.

    Parameters
    ----------
    message : str
        What is wrong, the rule and the remedy.
    where : str, optional
        The file, with a line where one is known (``logs/a.jsonl line 3``).

    Examples
    --------
    >>> str(SourceError("no rows", where="a/metrics.csv"))
    'a/metrics.csv: no rows'
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        self.where = where
        self.reason = message
        super().__init__(f"{where}: {message}" if where else message)


class MissingFacts(SourceError):
    """The log is readable but does not tell a fact that counting needs (batch size, key, unit).

    Parameters
    ----------
    message : str
        What is missing and which option or `runs.yaml` field gives it.
    where : str, optional
        The file.
    facts : tuple of str, optional
        Names of the missing `runs` columns (``("batch_size",)``).
    candidates : mapping of str to tuple of str, optional
        For a missing fact, the keys of the log that may hold it (``{"accuracy": ("a", "b")}``).
    known : mapping, optional
        `runs` columns that the log does tell.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        facts: tuple[str, ...] = (),
        candidates: Mapping[str, tuple[str, ...]] | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        self.facts = facts
        self.candidates = dict(candidates or {})
        self.known = dict(known or {})
        super().__init__(message, where=where)


class NoUsableRuns(TwoclockError):
    """Nothing that was given can be analysed; carries what was refused, so that nothing is lost.

    Parameters
    ----------
    message : str
        One line.
    refused : tuple of (str, str), optional
        Path and reason of everything refused.
    details : tuple, optional
        The same as `twoclock.notes.Refusal`, with what each lacks.
    """

    def __init__(
        self,
        message: str,
        *,
        refused: tuple[tuple[str, str], ...] = (),
        details: tuple[Any, ...] = (),
    ) -> None:
        self.refused = refused
        self.details = details
        super().__init__(message)


class TableError(TwoclockError):
    """A table breaks the schema: a missing column, a wrong type, an impossible value."""


class SettingsError(TwoclockError, ValueError):
    """An option or settings file has an unknown name or a value outside its range."""


class TargetError(TwoclockError):
    """A target cannot be used: off the scale, met by the base policy, or never validated."""


class TargetAtBase(TargetError):
    """A target cannot be told from the accuracy before training."""


class FitError(TwoclockError):
    """A fit was asked for that cannot be set up (not the same as *not identified*, a result)."""


class LogFormatError(TwoclockError):
    """The run-log writer was asked to write something the log format does not allow."""


class TrainingError(TwoclockError):
    """The bundled trainer was asked for an impossible run or found a damaged checkpoint."""
