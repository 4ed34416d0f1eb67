"""The bundled trainer: GRPO on small models, many seeds and learning rates at once.

It makes real runs in the native log format within minutes on a CPU, to test the two clocks on.
It is not for large models, and imports nothing of the analysis.
"""

from twoclock.trainer.loop import Progress, train
from twoclock.trainer.plan import Plan
from twoclock.trainer.settings import TrainSettings, with_size
from twoclock.trainer.study import Grid, Study
from twoclock.trainer.study_file import load_study
from twoclock.trainer.sweep import SweepOptions, plan_sweep, run_sweep

__all__ = [
    "TINY", "Grid", "Plan", "Progress", "Study", "SweepOptions", "TrainSettings", "load_study",
    "plan_sweep", "run_sweep", "train", "with_size",
]  # fmt: skip

_TINY = Grid(
    batch_sizes=(64, 128, 256),
    base_lrs=(1e-3,),
    seeds=(0, 1, 2),
    responses=((4096,),) * 3,
    shared={
        "task": "sorting",
        "digits": 3,
        "noise": 0.3,
        "base_steps": 300,
        "width": 16,
        "layers": 1,
        "eval_every": 256,
    },
)
TINY = Study((_TINY,))
"""A study of nine runs that takes seconds on one core, for end-to-end tests."""
