"""What follows from the facts of a run: B, prompts, K, warm-up, and whether clipping can act.

Works on names and values only; it reads no files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from twoclock.clipping import bounds_are_wide, clip_active
from twoclock.errors import MissingFacts, SourceError
from twoclock.frameworks.base import Facts, Framework
from twoclock.notes import Note
from twoclock.runs.facts import SCHEDULE, TRL_FACTS
from twoclock.sources.base import Fact, Source


def derive(facts: Facts, where: str, known: Framework | None = None) -> list[Note]:
    """Add what follows from the facts: B, prompts, K, warm-up; return remarks on contradictions.

    Parameters
    ----------
    facts : dict of str to Fact
        Changed in place.
    where : str
        File, for messages.
    known : Framework, optional
        Says what the steps of the learning-rate schedule are.

    Examples
    --------
    >>> facts = {"prompts_per_rollout": Fact(64, "config"), "group_size": Fact(8, "config")}
    >>> notes = derive(facts, "run")
    >>> facts["batch_size"]
    Fact(value=512, source='config')
    """
    notes: list[Note] = []
    _derive_trl(facts, where, notes)
    if "steps_between_rewards" in facts:
        facts.setdefault("optimizer_steps_per_rollout", facts["steps_between_rewards"])
    _product(facts, "prompts_per_rollout", "prompts_per_process", "world_size")
    _derive_batch(facts, where, notes)
    _derive_minibatches(facts)
    _product(facts, "optimizer_steps_per_rollout", "minibatches", "epochs")
    for name in ("batch_size", "group_size", "prompts_per_rollout", "optimizer_steps_per_rollout"):
        if name in facts and facts[name].value < 1:
            msg = f"{name} is {facts[name].value}, must be 1 or more"
            raise SourceError(msg, where=where)
    _derive_warmup(facts, known)
    if "seed" in facts and facts["seed"].value < 0:  # the word of some frameworks for none
        message = f"the seed is {facts.pop('seed').value}, which is none"
        notes.append(Note("odd_setting", message, where=where))
    return notes


def _derive_minibatches(facts: Facts) -> None:
    """Count the optimizer steps of one pass over a rollout from the size of each."""
    for whole, part in (
        ("prompts_per_rollout", "minibatch_prompts"),
        ("batch_size", "minibatch_responses"),
    ):
        if whole in facts and part in facts and facts[part].value >= 1:
            steps = max(1, -(-facts[whole].value // facts[part].value))
            source = joint_source([facts[whole], facts[part]])
            facts.setdefault("minibatches", Fact(steps, source))


def _derive_warmup(facts: Facts, known: Framework | None) -> None:
    """Turn the warm-up into responses; a number of steps goes before a share of all steps."""
    size = facts.get("batch_size")
    if size is None or "warmup_responses" in facts:
        return
    in_optimizer_steps = known is not None and known.schedule_counts == "optimizer"
    per_rollout = facts.get("optimizer_steps_per_rollout") if in_optimizer_steps else Fact(1, "log")
    steps, share, total = (facts.get(name) for name in SCHEDULE)
    if steps is not None and 0 < steps.value < 1:  # a share under the other name
        steps, share = None, steps
    if share is not None and share.value > 0 and (steps is None or steps.value <= 0):
        if total is None:
            return
        planned = share.value * total.value
        steps = Fact(math.ceil(planned) if in_optimizer_steps else int(planned), share.source)
    steps = share if steps is None else steps
    if steps is None or (per_rollout is None and steps.value > 0):
        return
    per = 1 if per_rollout is None else per_rollout.value
    facts["warmup_responses"] = Fact(max(0.0, steps.value) * size.value / per, steps.source)


def _derive_trl(facts: Facts, where: str, notes: list[Note]) -> None:
    """Count responses as TRL does: `generation_batch_size` responses each rollout.

    `steps_per_generation` defaults to the gradient accumulation, and K is
    ``steps_per_generation * num_iterations / gradient_accumulation_steps``.
    """
    if not any(name in facts for name in TRL_FACTS):
        return
    for name in TRL_FACTS:
        if name in facts and facts[name].value < 1:
            msg = f"{name} is {facts[name].value}, must be 1 or more"
            raise SourceError(msg, where=where)
    accumulation = facts.get("gradient_accumulation_steps")
    per_generation = facts.get("steps_per_generation", accumulation)
    iterations = facts.get("num_iterations", Fact(1, "derived"))
    if "num_generations" in facts:
        facts.setdefault("group_size", facts["num_generations"])
    parts = (facts.get("per_device_train_batch_size"), facts.get("world_size"), per_generation)
    known = [part for part in parts if part is not None]
    whole_given = "batch_size" in facts
    if not whole_given:
        if "generation_batch_size" in facts:
            facts["batch_size"] = facts["generation_batch_size"]
        elif len(known) == len(parts):
            size = math.prod(part.value for part in known)
            facts["batch_size"] = Fact(size, joint_source(known))
            _check_groups(facts, size, where)
    if per_generation is None or accumulation is None:
        if "num_iterations" in facts:
            facts.setdefault("optimizer_steps_per_rollout", iterations)
        return
    steps = per_generation.value * iterations.value / accumulation.value
    source = joint_source([per_generation, iterations, accumulation])
    if steps < 1 and "batch_size" in facts and not whole_given:
        # several generations feed one optimizer step: together they are one rollout
        whole = facts["batch_size"].value / steps
        facts["batch_size"] = Fact(round(whole), facts["batch_size"].source)
    if steps > 1 and steps != round(steps) and "optimizer_steps_per_rollout" not in facts:
        message = f"a rollout lasts for {steps:g} optimizer steps, which count so; K is rounded"
        notes.append(Note("uneven_steps", message, where=where))
        facts["uneven_steps_per_rollout"] = Fact(steps, source)
    facts.setdefault("optimizer_steps_per_rollout", Fact(max(1, round(steps)), source))


def _check_groups(facts: Facts, size: int, where: str) -> None:
    group = facts.get("group_size")
    if group is not None and size % group.value:
        msg = (
            f"per-device batch x processes x accumulation is {size}, no multiple of the group "
            f"size {group.value} (old TRL counts prompts there); give --batch-size in responses"
        )
        raise MissingFacts(msg, where=where, facts=("batch_size",))


def _derive_batch(facts: Facts, where: str, notes: list[Note]) -> None:
    size, group = facts.get("batch_size"), facts.get("group_size")
    prompts = facts.get("prompts_per_rollout")
    if size is None:
        _product(facts, "batch_size", "prompts_per_rollout", "group_size")
        return
    if prompts is not None and group is not None and prompts.value * group.value != size.value:
        message = (
            f"batch size {size.value} ({size.source}) is not {prompts.value} prompts "
            f"x {group.value} responses; {size.value} is used"
        )
        notes.append(Note("batch_size_disagrees", message, where=where))
        del facts["prompts_per_rollout"]
        prompts = None
    if prompts is None and group is not None and size.value % group.value == 0:
        source = joint_source([size, group])
        facts["prompts_per_rollout"] = Fact(size.value // group.value, source)
    elif group is None and prompts is not None and size.value % prompts.value == 0:
        facts["group_size"] = Fact(size.value // prompts.value, joint_source([size, prompts]))


def _product(facts: Facts, name: str, *factors: str) -> None:
    known = [facts[factor] for factor in factors if factor in facts]
    if name not in facts and len(known) == len(factors):
        value = math.prod(fact.value for fact in known)
        facts[name] = Fact(value, joint_source(known))


def joint_source(facts: Iterable[Fact]) -> Source:
    """Return the source of a value computed from several facts: theirs if all agree.

    Examples
    --------
    >>> joint_source([Fact(1, "config"), Fact(2, "config")]), joint_source([Fact(1, "log")])
    ('config', 'log')
    """
    sources = {fact.source for fact in facts}
    if "user" in sources:
        return "user"
    return sources.pop() if len(sources) == 1 else "derived"


def clip_activity(facts: Facts, *, synchronous: bool | None) -> Fact:
    """Tell whether clipping can act in the run: yes, no or unknown (`twoclock.clipping`).

    Examples
    --------
    >>> loose = {n: Fact(float("inf"), "config") for n in ("clip_low", "clip_high", "clip_dual")}
    >>> clip_activity(loose, synchronous=None)
    Fact(value='no', source='config')
    """
    if "clip_active" in facts:
        return facts["clip_active"]
    known = [facts[n] for n in ("clip_low", "clip_high", "clip_dual") if n in facts]
    bounds = [fact.value for fact in known] + [None] * (3 - len(known))
    steps = facts.get("optimizer_steps_per_rollout")
    value = clip_active(bounds, None if steps is None else steps.value, synchronous=synchronous)
    return Fact(value, joint_source(known) if bounds_are_wide(bounds) else "derived")
