"""The tables of runs: what was set, what each rollout, validation and event gave."""

from __future__ import annotations

from twoclock.schema.columns import Column, Table

LOG_FORMAT = "twoclock-run/1"
"""Value of the key ``format`` in `run.json`."""

PROVENANCE = ("config", "log", "derived", "user")
"""Where a `runs` value came from, in the column ``NAME_from``."""

CLIP_ACTIVE = ("yes", "no", "unknown")
ENDED = ("completed", "stopped", "crashed", "unknown")
CENSORING = ("exact", "interval", "left", "right", "before_start")
CLOCKS = ("learning", "failure")

RUNS = Table(
    "runs",
    ("run_id",),
    (
        Column("run_id", "str", "", "Unique name of the run, from its folder or file.", True),
        Column("framework", "str", "", "Framework that wrote the log (twoclock, trl, verl, ...)."),
        Column("source", "str", "", "Files that the run was read from, separated by '; '."),
        Column("model", "str", "", "Name of the base model."),
        Column("task", "str", "", "Name of the training task or data set."),
        Column("seed", "int", "1", "Seed of the run.", sourced=True),
        Column("prompts_per_rollout", "int", "prompts", "Prompts per rollout.", sourced=True),
        Column("group_size", "int", "responses/prompt", "Responses per prompt.", sourced=True),
        Column(
            "batch_size",
            "int",
            "responses",
            "Responses per rollout, B (never prompts).",
            sourced=True,
        ),
        Column("minibatches", "int", "1", "Minibatches per epoch over one rollout.", sourced=True),
        Column("epochs", "int", "1", "Passes over one rollout.", sourced=True),
        Column(
            "optimizer_steps_per_rollout", "int", "steps", "K = minibatches * epochs.", sourced=True
        ),
        Column("lr", "float", "1", "Peak learning rate of the run.", sourced=True),
        Column(
            "base_lr",
            "float",
            "1",
            "lr * (B/B0)**-gamma: the rate at the reference batch B0.",
            sourced=True,
        ),
        Column("lr_gamma", "float", "1", "Exponent gamma of the lr rule.", sourced=True),
        Column("lr_schedule", "str", "", "Name of the schedule after warm-up.", sourced=True),
        Column("warmup_responses", "float", "responses", "Length of the lr warm-up.", sourced=True),
        Column(
            "clip_low", "float", "1", "Lower clip epsilon; inf when there is none.", sourced=True
        ),
        Column(
            "clip_high", "float", "1", "Upper clip epsilon; inf when there is none.", sourced=True
        ),
        Column(
            "clip_dual",
            "float",
            "1",
            "Dual-clip or ratio-truncation bound; inf when there is none.",
            sourced=True,
        ),
        Column(
            "clip_active",
            "str",
            "",
            "Can clipping act in this run?",
            choices=CLIP_ACTIVE,
            sourced=True,
        ),
        Column(
            "kl_coef", "float", "1", "Coefficient of the KL penalty to the reference.", sourced=True
        ),
        Column("entropy_coef", "float", "1", "Weight of the entropy bonus.", sourced=True),
        Column("loss_mean", "str", "", "How tokens are averaged in the loss.", sourced=True),
        Column("advantage", "str", "", "How advantages follow from rewards.", sourced=True),
        Column("temperature", "float", "1", "Sampling temperature in training.", sourced=True),
        Column(
            "grad_clip", "float", "1", "Gradient-norm clip; inf when there is none.", sourced=True
        ),
        Column("optimizer", "str", "", "Name and settings of the optimizer.", sourced=True),
        Column("n_params", "int", "parameters", "Trained parameters.", sourced=True),
        Column(
            "eval_size",
            "int",
            "responses",
            "Problems times samples in one validation.",
            sourced=True,
        ),
        Column("ended", "str", "", "How the run ended.", choices=ENDED),
    ),
)

STEPS = Table(
    "steps",
    ("run_id", "rollout"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("rollout", "int", "rollouts", "Rollouts finished, 1-based.", True),
        Column("optimizer_step", "int", "steps", "Optimizer steps finished."),
        Column("responses", "int", "responses", "Cumulative responses generated.", True),
        Column("responses_trained", "int", "responses", "Cumulative responses trained on."),
        Column("tokens", "float", "tokens", "Cumulative response tokens generated."),
        Column("flops", "float", "FLOPs", "Cumulative training and sampling FLOPs."),
        Column("seconds", "float", "s", "Wall time since the start."),
        Column("rollout_seconds", "float", "s", "Sampling time of this rollout."),
        Column("update_seconds", "float", "s", "Update time of this rollout."),
        Column("reward", "float", "1", "Mean reward of this rollout."),
        Column("clip_fraction", "float", "1", "Share of tokens where the clip acts."),
        Column("kl_ref", "float", "nats/token", "KL to the reference policy."),
        Column("kl_old", "float", "nats/token", "KL to the sampling policy."),
        Column("entropy", "float", "nats/token", "Mean token entropy."),
        Column("grad_norm", "float", "1", "Gradient norm before clipping."),
        Column("ratio_mean", "float", "1", "Mean importance ratio."),
        Column("ratio_max", "float", "1", "Largest importance ratio."),
        Column("response_tokens", "float", "tokens/response", "Mean response length."),
        Column("loss", "float", "1", "Policy loss."),
        Column("lr", "float", "1", "Learning rate at the end of the row."),
        Column(
            "nonfinite",
            "str",
            "",
            "Names of the columns that were logged as NaN, inf or null in this row, joined by ','.",
        ),
    ),
)

EVALS = Table(
    "evals",
    ("run_id", "responses", "metric"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("responses", "int", "responses", "Responses generated before the validation.", True),
        Column("rollout", "int", "rollouts", "Rollouts finished before the validation."),
        Column("accuracy", "float", "1", "Validation accuracy 0..1 (or a score, see scale)."),
        Column("n", "int", "responses", "Problems times samples behind the value."),
        Column("metric", "str", "", "The source's key."),
        Column("scale", "str", "", "accuracy (0..1) or score.", choices=("accuracy", "score")),
        Column("eval_seconds", "float", "s", "Wall time of the validation."),
    ),
)

EVENTS = Table(
    "events",
    ("run_id", "clock", "target"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("clock", "str", "", "Which clock.", True, CLOCKS),
        Column("target", "float", "1", "Target accuracy; missing for failures."),
        Column("batch_size", "int", "responses", "Responses per rollout, B.", True),
        Column("seed", "int", "1", "Seed of the run."),
        Column("lower", "float", "responses", "The event is after this; 0 for left-censored."),
        Column(
            "upper", "float", "responses", "The event is not after this; inf if right-censored."
        ),
        Column("censoring", "str", "", "How the event is known.", True, CENSORING),
        Column("reason", "str", "", "Rule that decided."),
        Column("flags", "str", "", "Named remarks, joined by ','."),
        Column("clip_active", "str", "", "Can clipping act in this run?", choices=CLIP_ACTIVE),
    ),
)

STRATUM_COLUMNS = (
    "framework", "model", "task", "base_lr", "optimizer_steps_per_rollout", "group_size",
    "clip_low", "clip_high", "clip_dual", "kl_coef", "entropy_coef", "loss_mean", "advantage",
    "temperature", "optimizer", "lr_gamma", "lr_schedule", "warmup_responses",
)  # fmt: skip
"""Runs equal in all of these (missing equals missing) make one stratum."""
