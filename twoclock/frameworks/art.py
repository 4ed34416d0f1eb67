"""ART (Agent Reinforcement Trainer).

- A step is one version of the model. A training row stands at the version that it began from
  (2025) or led to (2026), a validation at the version that it measured.
- No setting counts responses; since 2026 each row does (`data/step_num_trajectories`).
- A validation at step s is measured with s updates done.

Read in the source of ART of June 2025 to August 2026. Its rows stand in `history.jsonl`, and its
metrics are rewards: which value is a right answer, only the user knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from twoclock.frameworks.base import Facts, Framework, Pair, Setting
from twoclock.frameworks.clocks import holding, trained_from_zero
from twoclock.frameworks.values import not_negative, positive, text

_TRAIN = ("train/*", "loss/*", "data/step_*")
_NEWEST = ("data/step_*",)


def arrange(columns: Mapping[str, Pair], rows: int, _facts: Facts) -> Mapping[str, Pair]:
    """Count the versions that training rows began from.

    Parameters
    ----------
    columns : mapping
        Columns of the log, each (row numbers, values).
    rows : int
        Rows of the log.

    Returns
    -------
    mapping
        ``step``: a training row at s makes version s + 1, a validation at s measures version s.

    Examples
    --------
    >>> import numpy as np
    >>> at = np.array([0, 1])
    >>> log = {"step": (at, np.array([0.0, 1.0])), "val/reward": (at[:1], np.array([0.2])),
    ...        "train/reward": (at[1:], np.array([0.3]))}
    >>> arrange(log, 2, {})["step"][1]
    array([0., 0.])
    """
    alone = holding(("val/*",), columns, rows) & ~holding(_TRAIN, columns, rows)
    keys = ("training_step", "step")
    step = trained_from_zero(columns, rows, keys, _NEWEST, measured=alone)
    return {} if step is None else {"step": step}


ART = Framework(
    name="art",
    writes=(
        ("train/reward_std_dev", "train/exception_rate"),
        ("val/reward_std_dev", "val/exception_rate"),
        ("data/step_num_trajectories",),
        ("data/step_num_groups_trainable",),
    ),
    steps={"step": 0},
    validates="before",
    synchronous=None,
    columns={
        "reward": ("train/reward",),
        "kl_ref": ("loss/kl_policy_ref", "loss/kl_div", "train/kl_div"),
        "entropy": ("loss/entropy", "train/entropy"),
        "grad_norm": ("loss/grad_norm", "train/grad_norm"),
        "loss": ("loss/train", "train/policy_loss", "train/loss"),
        "lr": ("loss/learning_rate", "train/learning_rate"),
        "rollout_seconds": ("time/step_actor_s",),
        "update_seconds": ("time/step_trainer_s",),
    },
    scores=(("val/reward",),),
    responses_each=("data/step_num_trajectories",),
    needs=("training_step",),
    settings=(
        Setting("lr", ("learning_rate",), positive),
        Setting("kl_coef", ("beta", "kl_penalty_coef"), not_negative),
        Setting("model", ("base_model",), text),
    ),
    arrange=arrange,
)  # fmt: skip
