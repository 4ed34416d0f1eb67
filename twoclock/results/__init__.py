"""Frozen results: what a fit or a comparison found, never how.

Every class has ``to_dict()`` (the JSON contract: keys are added, never renamed; absent numbers are
None, never NaN). Nothing here fits, reads, draws or prints.
"""

from twoclock.results.clock_fit import ClockFit
from twoclock.results.comparisons import Difference, Equivalence, FitRef, SafeWindow
from twoclock.results.law_fit import LawFit, LawParameter
from twoclock.results.numbers import Floats, Pair, number, plain
from twoclock.results.parts import (
    Bound,
    Cell,
    Curvature,
    Exponent,
    Influence,
    LackOfFit,
    MethodInterval,
)
from twoclock.results.two_clocks import TwoClocks

__all__ = [
    "Bound",
    "Cell",
    "ClockFit",
    "Curvature",
    "Difference",
    "Equivalence",
    "Exponent",
    "FitRef",
    "Floats",
    "Influence",
    "LackOfFit",
    "LawFit",
    "LawParameter",
    "MethodInterval",
    "Pair",
    "SafeWindow",
    "TwoClocks",
    "number",
    "plain",
]
