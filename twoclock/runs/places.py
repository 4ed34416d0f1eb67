"""Where given paths can be read on this machine, and how results speak of them again.

Copies of what lies at an address are read under names of their own, which no message shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from twoclock.errors import NoUsableRuns, SettingsError, SourceError, TwoclockError
from twoclock.notes import Refusal
from twoclock.runs.tables import Runs
from twoclock.sources.events_table import EventsTable

Result = TypeVar("Result", Runs, EventsTable)


@dataclass(frozen=True)
class Place:
    """Where the given paths can be read on this machine.

    Parameters
    ----------
    given : tuple of str
        Paths and addresses as the user gave them.
    paths : list of Path
        The same on this machine; an address that could not be copied is absent.
    refused : list of Refusal
        What could not be copied, and why.
    addresses : dict of str to str
        Address of each folder that is a copy.
    """

    given: tuple[str, ...]
    paths: list[Path] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """Return a text with addresses in place of the copies."""
        for local in sorted(self.addresses, key=len, reverse=True):
            text = text.replace(local, self.addresses[local])
        return text

    def named(self, result: Result) -> Result:
        """Return what was read with addresses in place of the copies."""
        if not self.addresses:
            return result
        common: dict[str, Any] = {
            "notes": tuple(
                replace(n, message=self.text(n.message), where=self.text(n.where),
                        runs=tuple(map(self.text, n.runs)))
                for n in result.notes
            ),
            "refused": tuple(self.refusal(item) for item in result.refused),
            "files": tuple(
                replace(f, path=self.text(f.path), run_ids=tuple(map(self.text, f.run_ids)))
                for f in result.files
            ),
        }  # fmt: skip
        if isinstance(result, Runs):
            tables = {name: getattr(result, name) for name in ("runs", "steps", "evals", "probes")}
            common |= {name: self._frame(table) for name, table in tables.items()}
        else:
            common["events"] = self._frame(result.events)
        return replace(result, **common)

    def _frame(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table with addresses in the columns that hold paths."""
        changed: dict[str, Any] = {}
        for name in ("run_id", "source"):
            if name in table.columns:
                texts = [str(text) for text in table[name].dropna().unique()]
                new = {text: self.text(text) for text in texts if self.text(text) != text}
                if new:
                    changed[name] = table[name].replace(new)
        return table.assign(**changed) if changed else table

    def refusal(self, item: Refusal) -> Refusal:
        """Return a refusal with addresses in place of the copies."""
        return replace(item, path=self.text(item.path), reason=self.text(item.reason))

    def error(self, err: TwoclockError) -> TwoclockError:
        """Return an error with addresses in place of the copies."""
        if isinstance(err, NoUsableRuns):
            pairs = tuple((self.text(path), self.text(reason)) for path, reason in err.refused)
            details = tuple(self.refusal(item) for item in err.details)
            return NoUsableRuns(self.text(str(err)), refused=pairs, details=details)
        if isinstance(err, SourceError):
            return SourceError(self.text(err.reason), where=self.text(err.where))
        return SettingsError(self.text(str(err))) if isinstance(err, SettingsError) else err
