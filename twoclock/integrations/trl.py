"""Log a run of TRL's GRPOTrainer in the native format, with its counts in responses.

>>> from twoclock.integrations.trl import TwoClockCallback  # doctest: +SKIP
>>> with TwoClockCallback("runs/b64-s0", task="sums") as callback:  # doctest: +SKIP
...     GRPOTrainer(..., callbacks=[callback]).train()

Nothing else imports this module; it needs transformers, which TRL brings. Verified with TRL 1.16.0
and transformers 5.24.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from transformers.trainer_pt_utils import get_model_param_count

from twoclock.errors import LogFormatError
from twoclock.integrations.trl_facts import Cycle, run_facts, sampling_cycle
from twoclock.integrations.trl_rollout import (
    OpenRollout,
    Validation,
    check_reward_name,
    find_validation,
)
from twoclock.runfacts import RunFacts
from twoclock.runlogger import RunLogger


class TwoClockCallback(TrainerCallback, ExportableState):
    """Write a run folder while a GRPOTrainer trains.

    One train row per rollout (one generation of responses and its K optimizer steps): `reward` and
    `response_tokens` of its responses, `lr` of its last step, `loss`, `grad_norm`, `entropy`,
    `kl_ref` and `clip_fraction` as the mean over the steps that were logged. The callback makes the
    trainer log at the end of each rollout, whatever `logging_steps`, so no value is averaged over
    two rollouts. Each evaluation is one validation per data set. As a context manager it records a
    crash; without, the run of an exception stays "unknown".

    Responses are those that were sampled. Where training is resumed from a checkpoint within a
    rollout, TRL samples that rollout anew: both count, and the first has a row with the steps it
    got. A rollout that `max_steps` cuts off counts in full.

    TRL averages evaluation rewards over batches, so a last batch of another size weighs too much.
    Set ``logging_nan_inf_filter=False``: else the trainer hides a loss that is NaN.

    Parameters
    ----------
    folder : str or Path
        The run's folder; its name is the run's id. An unfinished run in it is resumed where
        training is, and begun again where training begins.
    accuracy : str, optional
        The evaluation metric that is the accuracy, as TRL names it without ``eval_``
        (``"rewards/exact_match/mean"``). Default: the mean of the only reward function, which must
        then be 1 for a right answer and 0 for a wrong one.
    right_answer : float
        What that metric pays for a right answer; the accuracy is the metric over this.
    model : str, optional
        Name of the base model; default the one it was loaded by.
    task : str, optional
        Name of the task.
    facts : mapping, optional
        Other columns of `RunFacts`, or these with other values (``{"base_lr": 1e-6}``).

    Raises
    ------
    LogFormatError
        At the start of training: settings whose rollouts have no fixed size, or a checkpoint that
        knows nothing of this log. Later: an accuracy that is not there or not within 0..1.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        accuracy: str | None = None,
        right_answer: float = 1.0,
        model: str | None = None,
        task: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.accuracy, self.right_answer = accuracy, right_answer
        self.model, self.task, self.facts = model, task, dict(facts or {})
        self.logger: RunLogger | None = None
        self.saved: dict[str, Any] | None = None
        self._early: list[Validation] = []
        self._cycle: Cycle | None = None
        self._said: RunFacts = {}
        self._open = OpenRollout()
        self._micro_batches = self._sampled = self._logged_step = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.logger is not None and not self.logger.ended and kind is not None:
            self._settle()
            self.logger.__exit__(kind, error, trace)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has to keep, called by the trainer when it saves one."""
        self._settle()
        args = {
            "folder": str(self.folder),
            "accuracy": self.accuracy,
            "right_answer": self.right_answer,
            "model": self.model,
            "task": self.task,
            "facts": self.facts,
        }
        rollout = 0 if self.logger is None else self.logger.counts.rollout
        saved = {"rollout": rollout, "open": self._open.to_dict()}
        return {"args": args, "attributes": {"saved": saved}}

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Open the log: a new run, or an unfinished one at the checkpoint's rollout."""
        del control, kwargs
        self._cycle = sampling_cycle(args)
        self._open, self._micro_batches, self._sampled = OpenRollout(), 0, 0
        self._logged_step = state.global_step
        if not state.is_world_process_zero:
            return
        resume, cut = 0, OpenRollout()
        if state.global_step:
            resume, cut = _checkpoint(state, self.folder)
        if self.logger is not None and not self.logger.ended:
            self.logger.close()  # training had ended with an error
        self._said = self._facts(args, state, model)
        self.logger = RunLogger(self.folder, resume=resume, **self._said)
        if cut.steps:
            for validation in cut.validations:
                self.logger.validation(**validation.arguments())
            self.logger.rollout(**cut.row())
        for validation in () if state.global_step else self._early:
            self.logger.validation(**validation.arguments())
        self._early = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the rollout that the last step finished."""
        del args, state, control, kwargs
        self._settle()

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a micro-batch that ends no optimizer step."""
        del args, state, control, kwargs
        self._micro_batches += 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Count an optimizer step; have the last one of a rollout logged."""
        del args, state, kwargs
        cycle = self._counting()
        self._micro_batches += 1
        self._open.steps += 1
        self._open.responses = cycle.generated(self._micro_batches) - self._sampled
        self._open.trained = cycle.trained(self._micro_batches) - self._sampled
        if cycle.whole(self._micro_batches):
            self._open.whole = True
            control.should_log = True
        return control

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the values of a training log to the rollout they belong to."""
        del control, kwargs
        if logs is None or "loss" not in logs or self._cycle is None:
            return
        if args.eval_strategy != "no":
            check_reward_name(logs, self.accuracy, self.folder.name)
        steps = state.global_step - self._logged_step
        self._open.add(logs, steps=steps, masks=args.mask_truncated_completions)
        self._logged_step = state.global_step

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Mapping[str, Any] | None = None,
        eval_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Write a validation."""
        del control, kwargs
        if not state.is_world_process_zero or metrics is None:
            return
        self._settle()
        validation = find_validation(
            metrics,
            self.accuracy,
            right_answer=self.right_answer,
            n=_samples(args, eval_dataloader),
            unfinished=self._open.responses,
            where=self.folder.name,
        )
        if self.logger is None:
            self._early.append(validation)
        elif self.logger.ended:
            self._append(validation)
        else:
            self.logger.validation(**validation.arguments())
            if validation.unfinished:
                self._open.validations.append(validation)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the last rollout, cut off or not, and the end of the run."""
        del args, control, kwargs
        self._open.whole = self._open.steps > 0
        self._settle()
        if self.logger is not None:
            self.logger.finish("completed" if state.global_step >= state.max_steps else "stopped")

    def _facts(self, args: Any, state: Any, model: Any) -> RunFacts:
        facts = run_facts(args, max_steps=state.max_steps)
        name = self.model or getattr(getattr(model, "config", None), "_name_or_path", "")
        if name:
            facts["model"] = name
        if self.task:
            facts["task"] = self.task
        if model is not None:
            facts["n_params"] = get_model_param_count(model, trainable_only=True)
        facts.update(self.facts)  # type: ignore[typeddict-item] # checked by RunLogger
        return facts

    def _counting(self) -> Cycle:
        if self._cycle is None:
            msg = f"{self.folder.name}: the callback was added after training had begun"
            raise LogFormatError(msg)
        return self._cycle

    def _settle(self) -> None:
        """Write the open rollout if it is whole."""
        if not self._open.whole:
            return
        if self.logger is not None:
            self.logger.rollout(**self._open.row())
        self._sampled += self._open.responses
        self._open = OpenRollout()

    def _append(self, validation: Validation) -> None:
        """Write a validation after the end of training."""
        if self.logger is None or not self.logger.counts.rollout:
            return
        ended, rollout = self.logger.ended, self.logger.counts.rollout
        self.logger = RunLogger(self.folder, resume=rollout, **self._said)
        self.logger.validation(**validation.arguments())
        self.logger.finish(ended)


def _checkpoint(state: Any, folder: Path) -> tuple[int, OpenRollout]:
    """Return the rollouts finished at a checkpoint, and the one that it had cut off."""
    kept = (state.stateful_callbacks or {}).get(TwoClockCallback.__name__)
    if not isinstance(kept, Mapping):
        msg = (
            f"{folder.name}: the checkpoint of step {state.global_step} was saved without this "
            "callback, so the responses before it are not known; train from the start or without it"
        )
        raise LogFormatError(msg)
    saved = kept["attributes"]["saved"]
    return saved["rollout"], OpenRollout.from_dict(saved["open"])


def _samples(args: Any, dataloader: Any) -> int | None:
    """Return problems times samples of an evaluation, where the data set has a length."""
    samples = int(getattr(args, "num_generations_eval", None) or args.num_generations)
    try:
        return samples * len(dataloader.dataset)
    except (AttributeError, TypeError):
        return None
