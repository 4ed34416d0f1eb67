"""The base policy: supervised training on answers with deliberate token noise.

A policy that has learnt such data samples each token right with probability about
``1 - noise * (1 - 1/symbols)``, so its accuracy starts low and GRPO has something to sharpen. The
end token of an answer is never replaced.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from twoclock.errors import TrainingError
from twoclock.trainer.optimizers import Adam
from twoclock.trainer.policy import initial, logits
from twoclock.trainer.settings import TrainSettings
from twoclock.trainer.tasks import Task, counted, held_out, skip_held_out

BASE_BATCH = 256  # problems per supervised step
BASE_LR = 3e-3  # falls linearly to a tenth


def base_policy(settings: TrainSettings, cache: Path | None = None) -> Tensor:
    """Return the base policy's parameters (1, n_stored), read from or written to `cache`.

    Parameters
    ----------
    settings : TrainSettings
        Only the fields in `TrainSettings.base_key` matter.
    cache : Path, optional
        Folder of ``base-KEY.npz`` files, read without pickle.

    Raises
    ------
    TrainingError
        The cached file is damaged or of another size.
    """
    if cache is None:
        return train_base(settings)
    path = cache / f"base-{settings.base_key()}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            np.savez(file, theta=train_base(settings).numpy())
        temporary.replace(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            theta = torch.from_numpy(file["theta"].astype(np.float32))
    except (OSError, ValueError, KeyError, EOFError) as err:
        msg = f"{path}: not a base policy ({err}); delete the file"
        raise TrainingError(msg) from err
    if theta.shape != (1, settings.shape().n_stored):
        msg = f"{path}: base policy of another size; delete the file"
        raise TrainingError(msg)
    return theta


def train_base(settings: TrainSettings) -> Tensor:
    """Train the base policy on noisy answers; return its parameters (1, n_stored)."""
    task, shape = settings.make_task(), settings.shape()
    held = held_out(task, settings.eval_size, settings.eval_seed)
    generator = torch.Generator().manual_seed(settings.base_seed)
    theta = initial(shape, settings.base_seed)
    adam = Adam(theta, 0.9, 0.99, 1e-8)
    for step in range(settings.base_steps):
        ranks = torch.randint(task.count - len(held), (1, BASE_BATCH), generator=generator)
        prompts, answers = task.problems(skip_held_out(ranks, held))  # (1, P, L), (1, P, A)
        mask = counted(answers, ends=task.ends)  # (1, P, A)
        noisy = _add_noise(answers, task, settings.noise, generator).unsqueeze(-1)  # (1, P, A, 1)
        leaf = theta.detach().requires_grad_()
        out = logits(leaf, shape, prompts, noisy)  # (1, P, A, 1, V)
        losses = F.cross_entropy(out.flatten(0, -2), noisy.flatten(), reduction="none")
        ((losses * mask.flatten()).sum() / mask.sum()).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        fall = 1 - 0.9 * step / settings.base_steps
        adam.step(theta, leaf.grad, torch.tensor([BASE_LR * fall]))
    return theta


def _add_noise(answers: Tensor, task: Task, noise: float, generator: torch.Generator) -> Tensor:
    """Replace a share `noise` of the tokens, but no end token, by random symbols."""
    random = torch.randint(task.tokens, answers.shape, generator=generator)
    hit = torch.rand(answers.shape, generator=generator) < noise
    return torch.where(hit & (answers < task.tokens), random, answers)
