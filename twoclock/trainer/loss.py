"""The loss of GRPO and its options: advantages, token weights, clipping, KL and entropy terms."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

LOSS_MEANS = ("token", "sequence", "constant")


@dataclass(frozen=True)
class LossRule:
    """How the loss of a minibatch is put together.

    Parameters
    ----------
    clip_low, clip_high : float or None
        The ratio is clipped to [1 - clip_low, 1 + clip_high]; None: that side is free.
    loss_mean : {"token", "sequence", "constant"}
        See `token_weights`.
    kl_coef : float
        Weight of the KL penalty to the base policy.
    entropy_coef : float
        Weight of the entropy bonus.
    """

    clip_low: float | None
    clip_high: float | None
    loss_mean: str = "token"
    kl_coef: float = 0.0
    entropy_coef: float = 0.0


@dataclass(frozen=True)
class StepStats:
    """What one optimizer step saw, per member (M,); token averages are over counted tokens.

    Parameters
    ----------
    loss : Tensor
        The whole loss.
    clip_fraction : Tensor
        Share of tokens whose gradient the clip removed.
    kl_old : Tensor
        Mean of ``(r - 1) - log r``, an estimate of the KL to the sampling policy, nats per token
        (Schulman 2020, "Approximating KL divergence", k3).
    ratio_mean, ratio_max : Tensor
        Importance ratios.
    kl_ref : Tensor or None
        KL to the base policy, nats per token; None when it is not part of the loss.
    """

    loss: Tensor
    clip_fraction: Tensor
    kl_old: Tensor
    ratio_mean: Tensor
    ratio_max: Tensor
    kl_ref: Tensor | None = None


def advantages(rewards: Tensor, *, normalize_std: bool) -> Tensor:
    """Return group-relative advantages along the last axis.

    ``(r - mean) / std`` (GRPO: Shao et al. 2024, arXiv:2402.03300, section 4.1.2), or ``r - mean``
    (Liu et al. 2025, arXiv:2503.20783, "Dr. GRPO": dividing by the standard deviation weights
    problems by their difficulty).

    Parameters
    ----------
    rewards : Tensor
        (..., G).
    normalize_std : bool
        Divide by the group's population standard deviation; groups without spread stay 0.

    Returns
    -------
    Tensor
        (..., G).

    Examples
    --------
    >>> advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), normalize_std=True).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    centred = rewards - rewards.mean(-1, keepdim=True)
    if not normalize_std:
        return centred
    std = rewards.std(-1, correction=0, keepdim=True)
    return torch.where(std > 0, centred / std.clamp(min=1e-6), 0.0)


def token_weights(counted: Tensor, loss_mean: str) -> Tensor:
    """Return the weight of each token in the loss, 0 for tokens that do not count.

    - ``token``: every token of the minibatch alike, ``1 / sum of lengths`` (DAPO: Yu et al. 2025,
      arXiv:2503.14476, equation 8);
    - ``sequence``: every response alike, ``1 / (responses * its length)`` (GRPO: Shao et al. 2024,
      arXiv:2402.03300, equation 3), so tokens of long responses weigh less;
    - ``constant``: ``1 / (responses * A)`` whatever the lengths (Dr. GRPO: Liu et al. 2025,
      arXiv:2503.20783, section 3.1).

    With answers of one length all three are the same.

    Parameters
    ----------
    counted : Tensor
        1 for tokens that count, (M, P, A, G).
    loss_mean : {"token", "sequence", "constant"}
        Which.

    Returns
    -------
    Tensor
        (M, P, A, G).

    Examples
    --------
    >>> two = torch.tensor([[1.0, 1.0], [1.0, 0.0]]).view(1, 1, 2, 2)  # of 2 tokens and of 1
    >>> for name in LOSS_MEANS:
    ...     print(name, [round(w, 2) for w in token_weights(two, name).flatten().tolist()])
    token [0.33, 0.33, 0.33, 0.0]
    sequence [0.25, 0.5, 0.25, 0.0]
    constant [0.25, 0.25, 0.25, 0.0]
    """
    _, n_prompts, length, group = counted.shape
    if loss_mean == "token":
        return counted / counted.sum((1, 2, 3), keepdim=True)
    if loss_mean == "sequence":
        return counted / (counted.sum(2, keepdim=True) * (n_prompts * group))
    return counted / (n_prompts * group * length)


def k3(logp: Tensor, other: Tensor) -> Tensor:
    """Return ``exp(other - logp) - (other - logp) - 1`` per token, nats.

    Its mean over samples of the policy of `logp` is the KL to the policy of `other` (Schulman
    2020, k3; GRPO: Shao et al. 2024, arXiv:2402.03300, equation 4).

    Examples
    --------
    >>> round(k3(torch.tensor(-1.0), torch.tensor(-2.0)).item(), 4)
    0.3679
    """
    gap = other - logp
    return gap.exp() - gap - 1


def policy_loss(
    logp: Tensor,
    old: Tensor,
    advantage: Tensor,
    weights: Tensor,
    shares: Tensor,
    rule: LossRule,
    *,
    reference: Tensor | None = None,
    entropy: Tensor | None = None,
) -> tuple[Tensor, StepStats]:
    """Return the loss of part of a minibatch per member, and its statistics.

    ``-sum w * min(r*A, clip(r, 1-low, 1+high)*A)``, w of `token_weights` and ``r = exp(logp-old)``
    (clip: Schulman et al. 2017, arXiv:1707.06347, equation 7; two bounds: Yu et al. 2025,
    arXiv:2503.14476, equation 10), plus ``kl_coef * sum w * k3(logp, reference)`` minus
    ``entropy_coef * sum w * entropy`` (Williams and Peng 1991; Mnih et al. 2016, arXiv:1602.01783,
    section 4). Parts of a minibatch add up, for weights and shares are those of the whole.

    Parameters
    ----------
    logp, old : Tensor
        Log-probabilities under the updated and the sampling policy (M, P, A, G), nats.
    advantage : Tensor
        (M, P, G).
    weights, shares : Tensor
        Weight of each token in the loss and in the statistics, (M, P, A, G).
    rule : LossRule
        Clips and coefficients.
    reference : Tensor, optional
        Log-probabilities under the base policy; needed with a KL penalty.
    entropy : Tensor, optional
        Entropy of each token's distribution, nats; needed with an entropy bonus.

    Returns
    -------
    loss : Tensor
        (M,).
    stats : StepStats
        Detached.

    Examples
    --------
    >>> one, half = torch.zeros(1, 1, 1, 2), torch.full((1, 1, 1, 2), 0.5)
    >>> signs = torch.tensor([[[1.0, -1.0]]])
    >>> policy_loss(one + 0.5, one, signs, half, half, LossRule(0.2, 0.2))[1].clip_fraction
    tensor([0.5000])
    """
    log_ratio = logp - old  # (M, P, A, G)
    ratio = log_ratio.exp()
    signed = advantage.unsqueeze(2)  # (M, P, 1, G)
    free = ratio * signed
    low = None if rule.clip_low is None else 1 - rule.clip_low
    high = None if rule.clip_high is None else 1 + rule.clip_high
    kept = free
    if low is not None or high is not None:
        kept = torch.minimum(free, ratio.clamp(low, high) * signed)
    loss, kl_ref = -_total(kept, weights), None
    if reference is not None:
        penalty = k3(logp, reference)
        loss = loss + rule.kl_coef * _total(penalty, weights)
        kl_ref = _total(penalty.detach(), shares)
    if entropy is not None:
        loss = loss - rule.entropy_coef * _total(entropy, weights)
    with torch.no_grad():
        stats = StepStats(
            loss.detach(),
            _total((kept < free).float(), shares),
            _total(ratio - 1 - log_ratio, shares),
            _total(ratio, shares),
            torch.where(shares > 0, ratio, 0.0).flatten(1).amax(1),
            kl_ref,
        )
    return loss, stats


def _total(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum per member (M,); tokens that do not count cannot spoil it."""
    return torch.where(weights > 0, values * weights, 0.0).flatten(1).sum(1)


def add_up(values: list[Tensor]) -> Tensor:
    """Return the sum of tensors (M,), added up in float64.

    In which order a sum over a table is taken depends on its width, so in float32 a member's log
    would depend, in its last digit, on the size of its crew.

    Examples
    --------
    >>> add_up([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]).tolist()
    [4.0, 6.0]
    """
    return torch.stack(values).double().sum(0).to(values[0].dtype)


def merge(stats: list[StepStats], *, mean: bool) -> StepStats:
    """Add up statistics of parts, or average those of steps (the largest ratio: the maximum)."""
    out: dict[str, Tensor | None] = {}
    for item in fields(StepStats):
        values = [value for s in stats if (value := getattr(s, item.name)) is not None]
        if not values:
            out[item.name] = None
        elif item.name == "ratio_max":
            out[item.name] = torch.stack(values).amax(0)
        else:
            out[item.name] = add_up(values) / (len(stats) if mean else 1)
    return StepStats(**out)  # type: ignore[arg-type]
