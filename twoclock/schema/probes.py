"""The table of probes: the local theory's quantities, measured around the updates of a rollout.

Words of the formulas: D is the parameters after the rollout's K updates minus those before, u is
D / |D|, J(theta) the expected reward, G the expected training gradient at the parameters before,
B the rollout batch size, M the minibatches. All expectations are taken over a large held-out
rollout that was sampled from the policy before the updates.
"""

from __future__ import annotations

from twoclock.schema.columns import Column, Table


def _measured(name: str, unit: str, meaning: str) -> tuple[Column, Column]:
    """Return a column and that of its standard error."""
    return (
        Column(name, "float", unit, meaning),
        Column(f"{name}_se", "float", unit, f"Standard error of {name}."),
    )


PROBES = Table(
    "probes",
    ("run_id", "rollout"),
    (
        Column("run_id", "str", "", "Run.", True),
        Column("rollout", "int", "rollouts", "Rollout whose updates were measured.", True),
        Column("responses", "int", "responses", "Cumulative responses, this rollout's too.", True),
        Column("heldout_responses", "int", "responses", "Size of the held-out rollout."),
        Column("parts", "int", "1", "Disjoint parts of it, the units of the standard errors."),
        Column("twins", "int", "1", "Repetitions of the updates on fresh rollouts of size B."),
        *_measured("gradient_square", "1", "|G|^2, from products of different parts (unbiased)."),
        *_measured(
            "gradient_variance",
            "responses",
            "tr(Sigma): trace of the covariance of a gradient over b responses, times b.",
        ),
        *_measured("noise_batch_size", "responses", "b_n = gradient_variance / gradient_square."),
        *_measured(
            "alignment",
            "1",
            "rho(b) = 1/sqrt(1 + b_n/b) at b = B/M: a minibatch gradient's cosine with G.",
        ),
        *_measured("objective_square", "1", "|grad J|^2, from products of different parts."),
        *_measured(
            "update_cosine", "1", "Cosine of D with grad J: slope / sqrt(objective_square)."
        ),
        *_measured("slope", "reward/length", "g = u . grad J."),
        *_measured("curvature", "reward/length^2", "kappa = -u' H u with H the Hessian of J."),
        *_measured("first_order_gain", "reward", "D . grad J = g |D|."),
        *_measured("curvature_loss", "reward", "-D' H D / 2 = kappa |D|^2 / 2."),
        *_measured("coherent_loss", "reward", "-D' H T / 2 with T the mean of the twins' updates."),
        *_measured("noise_loss", "reward", "curvature_loss - coherent_loss = -D' H (D - T) / 2."),
        *_measured("curvature_share", "1", "curvature_loss / first_order_gain."),
        *_measured("coherent_share", "1", "s = coherent_loss / first_order_gain."),
        *_measured("noise_share", "1", "n = noise_loss / first_order_gain."),
        *_measured("predicted_gain", "reward", "first_order_gain - curvature_loss."),
        *_measured(
            "measured_gain",
            "reward",
            "Mean reward after minus before, on the held-out prompts with the same uniforms.",
        ),
        *_measured("gain_residual", "reward", "measured_gain - predicted_gain."),
        Column("update_length", "float", "length", "|D|."),
        Column("path_ratio", "float", "1", "|D| over the sum of the K steps' lengths."),
        Column("path_square", "float", "length^2", "Sum of all steps' squared lengths so far."),
        Column("lr_square", "float", "1", "Sum of all steps' squared learning rates so far."),
        Column("distance", "float", "length", "Length of the way from the base to after."),
        Column("probe_seconds", "float", "s", "Wall time of this probe, all runs together."),
        Column("nonfinite", "str", "", "Names of the columns that were not finite, joined by ','."),
    ),
)
