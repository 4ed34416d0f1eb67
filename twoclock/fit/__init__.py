"""The estimator: events of one clock in, a frozen `ClockFit` out.

`clock` is the entry point. `likelihood` evaluates and `newton` maximises it, for all resamples at
once; `identify` decides whether there is a maximum at all, `bounds` and `explain` say what is known
when there is none; `resample` draws seeds, `intervals` and `headline` make intervals of them;
`cells` chooses the runs, `checks` doubts the result.
"""

from twoclock.fit.clock import fit_clock, point_exponent
from twoclock.fit.settings import FitSettings

__all__ = ["FitSettings", "fit_clock", "point_exponent"]
