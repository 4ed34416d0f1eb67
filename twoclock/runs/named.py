"""A log with its place and what the user said about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twoclock.reading import ReadOptions
from twoclock.runs.finding import Found
from twoclock.runs.identify import HOME_MADE, OWN_FORMATS
from twoclock.runs.naming import place
from twoclock.sources.base import Log


@dataclass(frozen=True)
class NamedLog:
    """A log with what the user said about it.

    Parameters
    ----------
    file : Found
        The file that it was read from.
    log : Log
        What the file says.
    facts : mapping
        Facts from options and `runs.yaml`.
    options : ReadOptions
        Options with the aliases and factors of `runs.yaml`.
    settings : tuple of Path
        The `runs.yaml` files behind them.
    """

    file: Found
    log: Log
    facts: Mapping[str, Any]
    options: ReadOptions
    settings: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Name of its run: the log's own, else from where it lies."""
        return self.log.name or place(self.log.path, self.file.root)

    @property
    def framework(self) -> str | None:
        """The framework that the user names."""
        given = self.facts.get("framework")
        return None if given is None else str(given)

    def with_told(self, others: Iterable[NamedLog]) -> NamedLog:
        """Return the same with what the user said of other logs of the run; its own goes first."""
        every = (*others, self)
        options = replace(
            self.options,
            map={k: v for item in every for k, v in item.options.map.items()},
            scale={k: v for item in every for k, v in item.options.scale.items()},
        )
        facts = {k: v for item in every for k, v in item.facts.items()}
        settings = tuple(dict.fromkeys(path for item in every for path in item.settings))
        return replace(self, facts=facts, options=options, settings=settings)

    def with_log(self, log: Log) -> NamedLog:
        """Return the same for a changed log; aliases mean its keys under their new names, too."""
        if not self.options.map or log.reader in OWN_FORMATS:
            return replace(self, log=log)
        plain = (log.known or HOME_MADE).plain
        aliases = {
            name: tuple(dict.fromkeys(k for key in keys for k in (key, plain(key))))
            for name, keys in self.options.map.items()
        }
        return replace(self, log=log, options=replace(self.options, map=aliases))
