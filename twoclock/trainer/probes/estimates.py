"""From what the parts of a held-out rollout show to estimates with standard errors.

Nothing here knows of policies: the same code estimates on an analytic function whose gradient,
curvature and noise are known, which is how it is tested.

Prompts are the independent units (the responses of a group share their prompt and their baseline),
so a part is a number of whole groups, and all errors come from the delete-one-part jackknife (Efron
and Stein 1981). "Per response" then means: a group's share of its G responses. With Sigma = G times
the covariance of a group's gradient, the mean gradient over b responses (b/G groups) has covariance
Sigma / b, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Evidence:
    """What K parts of a held-out rollout show of an update D (u = D / |D|), per member, float64.

    Parameters
    ----------
    gradients : Tensor
        Products of the parts' training gradients, (M, K, K).
    objective : Tensor
        Products of the parts' gradients of the expected reward, (M, K, K).
    slope : Tensor
        Gradient of the expected reward along u, (M, K).
    curvature : Tensor
        ``-u' H u``, H the Hessian of the expected reward, (M, K).
    twins : Tensor
        ``-u' H T_j`` for each twin's update T_j, (M, K, T).
    gain : Tensor
        Mean reward after minus before the update, (M, K).
    length : Tensor
        ``|D|``, (M,).
    responses : int
        Responses of a part.
    minibatch : float
        Responses of a minibatch, b.
    """

    gradients: Tensor
    objective: Tensor
    slope: Tensor
    curvature: Tensor
    twins: Tensor
    gain: Tensor
    length: Tensor
    responses: int
    minibatch: float

    def finite(self) -> Tensor:
        """Tell which members have finite numbers only (M,)."""
        tensors = [v for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)]
        checks = [t.reshape(len(t), -1).isfinite().all(1) for t in tensors]
        return torch.stack(checks).all(0)


@dataclass(frozen=True)
class Estimate:
    """An estimate and its standard error, per member (M,); NaN where it is not identified."""

    value: Tensor
    se: Tensor


def gram(parts: Tensor) -> Tensor:
    """Return the products (M, K, K) of vectors (K, M, n), in float64.

    Examples
    --------
    >>> gram(torch.tensor([[[1.0, 2.0]], [[3.0, 0.0]]])).tolist()
    [[[5.0, 3.0], [3.0, 9.0]]]
    """
    members = [part.double() @ part.double().T for part in parts.unbind(1)]
    return torch.stack(members)


def estimate(evidence: Evidence) -> dict[str, Estimate]:
    """Return every estimate of `twoclock.schema.PROBES` that has a standard error.

    With G_i the mean of a quantity over part i and m responses in a part:

    - ``|G|^2``: mean of ``G_i . G_j`` over pairs of different parts, unbiased; the same for the
      expected reward's gradient (`objective_square`);
    - ``tr(Sigma) = m * (mean |G_i|^2 - |G|^2)``, unbiased;
    - ``b_n = tr(Sigma) / |G|^2``, the simple noise scale (McCandlish et al. 2018,
      arXiv:1812.06162, equation 2.9; estimated as in appendix A.1, but from many parts), in
      responses;
    - ``rho(b) = |G| / sqrt(|G|^2 + tr(Sigma) / b) = 1 / sqrt(1 + b_n / b)``: the root mean square
      length of a minibatch gradient is the denominator.

    The losses that need twins get the spread over the twins added to the variance; with T twins it
    has T - 1 degrees of freedom. Ratios whose denominator is not above 0, in the whole and with
    any part left out, are not identified.

    Parameters
    ----------
    evidence : Evidence
        Of K >= 3 parts of equal size.

    Returns
    -------
    dict of str to Estimate
        By column; without the shares of coherence and noise where there are no twins.

    Examples
    --------
    >>> flat, one = torch.zeros(1, 4, dtype=torch.double), torch.ones(1, 4, 4, dtype=torch.double)
    >>> seen = Evidence(one, one, flat + 2, flat + 1, flat[..., None], flat, flat[:, 0] + 0.5, 8, 4)
    >>> found = estimate(seen)
    >>> [round(found[name].value.item(), 3) for name in ("noise_batch_size", "predicted_gain")]
    [0.0, 0.875]
    """
    parts = evidence.slope.shape[1]
    weights = _delete_one(parts).to(evidence.slope)  # (K+1, K)
    statistics = _statistics(evidence, weights)
    spread = _twin_spread(evidence, statistics["first_order_gain"][0])
    return {name: _jackknife(values, spread.get(name)) for name, values in statistics.items()}


def _delete_one(parts: int) -> Tensor:
    """Return weights of the parts: all of them, then each one left out (K+1, K)."""
    return torch.cat([torch.ones(1, parts), 1 - torch.eye(parts)])


def _statistics(e: Evidence, weights: Tensor) -> dict[str, Tensor]:
    """Return each statistic under each row of weights, (R, M)."""

    def mean(values: Tensor) -> Tensor:  # of (M, K)
        return weights @ values.T / weights.sum(1, keepdim=True)

    square, own = _square(e.gradients, weights), mean(_diagonal(e.gradients))
    variance = e.responses * (own - square)
    noise = _ratio(variance, square)
    steepness = _square(e.objective, weights)
    slope, curvature, gain = mean(e.slope), mean(e.curvature), mean(e.gain)
    first, loss = slope * e.length, curvature * e.length**2 / 2
    out = {
        "gradient_square": square,
        "gradient_variance": variance,
        "noise_batch_size": noise,
        "alignment": 1 / (1 + noise / e.minibatch).sqrt(),
        "objective_square": steepness,
        "update_cosine": _ratio(slope, steepness.clamp(min=0).sqrt()),
        "slope": slope,
        "curvature": curvature,
        "first_order_gain": first,
        "curvature_loss": loss,
        "curvature_share": _ratio(loss, first),
        "predicted_gain": first - loss,
        "measured_gain": gain,
        "gain_residual": gain - (first - loss),
    }
    if e.twins.shape[2]:
        coherent = mean(e.twins.mean(2)) * e.length / 2
        out["coherent_loss"], out["noise_loss"] = coherent, loss - coherent
        out["coherent_share"] = _ratio(coherent, first)
        out["noise_share"] = _ratio(loss - coherent, first)
    return out


def _square(products: Tensor, weights: Tensor) -> Tensor:
    """Return the mean product of different parts (R, M) from all products (M, K, K)."""
    sums = torch.einsum("ri,mij,rj->rm", weights, products, weights)
    own = weights @ _diagonal(products).T
    n = weights.sum(1, keepdim=True)
    return (sums - own) / (n * (n - 1))


def _diagonal(products: Tensor) -> Tensor:
    return products.diagonal(dim1=1, dim2=2)  # (M, K)


def _ratio(top: Tensor, bottom: Tensor) -> Tensor:
    """Return top / bottom (R, M), NaN for members whose bottom is not above 0 in every row."""
    return torch.where((bottom > 0).all(0), top / bottom, torch.nan)


def _twin_spread(e: Evidence, first: Tensor) -> dict[str, Tensor]:
    """Return the variance (M,) that the choice of twins adds to what is estimated from them."""
    twins = e.twins.shape[2]
    if not twins:
        return {}
    each = e.twins.mean(1) * e.length.unsqueeze(1) / 2  # (M, T)
    spread = each.var(1) / twins if twins > 1 else torch.full_like(first, torch.nan)  # (M,)
    share = spread / first**2
    return {
        "coherent_loss": spread,
        "noise_loss": spread,
        "coherent_share": share,
        "noise_share": share,
    }


def _jackknife(values: Tensor, extra: Tensor | None) -> Estimate:
    """Return the estimate from all parts and its error from leaving each out, of (K+1, M)."""
    whole, left = values[0], values[1:]
    parts = len(left)
    variance = (parts - 1) * left.var(0, correction=0)
    return Estimate(whole, (variance if extra is None else variance + extra).sqrt())
