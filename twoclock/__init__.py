"""Measure what a larger GRPO rollout batch costs, and what it risks.

Two clocks, both counted in sampled responses: the *learning clock* (responses until validation
accuracy reaches a target) and the *failure clock* (responses until training collapses, on runs
without clipping). Reads run logs, fits ``R = c * B**alpha`` to each, and compares them.

>>> import twoclock
>>> runs = twoclock.read_runs("data/learning")  # doctest: +SKIP
>>> twoclock.analyse(runs).summary()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twoclock.analysis import analyse, analyse_events
    from twoclock.compare import difference, equivalence, safe_window
    from twoclock.events.failure import Failure
    from twoclock.events.find import find_failures, find_targets
    from twoclock.events.target import Target
    from twoclock.fit import FitSettings, fit_clock
    from twoclock.reading import ReadOptions
    from twoclock.results import ClockFit, TwoClocks
    from twoclock.runlogger import RunLogger
    from twoclock.runs import Runs, read_events, read_runs
    from twoclock.runs.store import write_store
    from twoclock.settings import Settings

_HOMES = {
    "ClockFit": "results",
    "Failure": "events.failure",
    "FitSettings": "fit",
    "ReadOptions": "reading",
    "RunLogger": "runlogger",
    "Runs": "runs",
    "Settings": "settings",
    "Target": "events.target",
    "TwoClocks": "results",
    "analyse": "analysis",
    "analyse_events": "analysis",
    "difference": "compare",
    "equivalence": "compare",
    "find_failures": "events.find",
    "find_targets": "events.find",
    "fit_clock": "fit",
    "read_events": "runs",
    "read_runs": "runs",
    "safe_window": "compare",
    "write_store": "runs.store",
}
"""Where each public name lives; loaded on first use, so that the command line starts at once."""

__all__ = [
    "ClockFit",
    "Failure",
    "FitSettings",
    "ReadOptions",
    "RunLogger",
    "Runs",
    "Settings",
    "Target",
    "TwoClocks",
    "analyse",
    "analyse_events",
    "difference",
    "equivalence",
    "find_failures",
    "find_targets",
    "fit_clock",
    "read_events",
    "read_runs",
    "safe_window",
    "write_store",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use; ``__version__`` comes from the installed package."""
    if name == "__version__":
        from importlib.metadata import version

        return version("twoclock")
    if name in _HOMES:
        return getattr(import_module(f"twoclock.{_HOMES[name]}"), name)
    msg = f"module 'twoclock' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
