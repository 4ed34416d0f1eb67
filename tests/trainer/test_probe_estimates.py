"""The estimators on a quadratic whose gradient, curvature and noise are known.

J(theta) = g0.theta - theta' H theta / 2 at theta = 0, so the gradient is g0 and the curvature is
H; the gradient of a group has covariance C, so Sigma = G * C.
"""

import math

import pytest
import torch
from scipy.stats import t as student

from twoclock.trainer.probes.estimates import Evidence, estimate, gram

SIZE, PARTS, GROUPS, GROUP, MINIBATCH = 40, 16, 8, 4, 32.0
DRAWS = 1500


class Quadratic:
    """A known objective, the noise of its gradient, and one update."""

    def __init__(self, seed=0, noise=1.0):
        g = torch.Generator().manual_seed(seed)
        self.generator = g
        self.slope = torch.randn(SIZE, generator=g, dtype=torch.double)
        root = torch.randn(SIZE, SIZE, generator=g, dtype=torch.double) / SIZE**0.5
        self.hessian = root @ root.T  # -H of the text: J curves down
        scale = 0.5 + torch.rand(SIZE, generator=g, dtype=torch.double)
        self.spread = noise * scale  # sd of a group's gradient, per direction
        self.sigma = GROUP * float((self.spread**2).sum())  # trace, per response
        self.update = 0.05 * self.slope + 0.05 * self.normal()

    def normal(self, *shape):
        """Return standard normal vectors."""
        return torch.randn(*shape, SIZE, generator=self.generator, dtype=torch.double)

    def gradients(self, draws):
        """Return the mean gradients (K, draws, n) of parts of GROUPS groups."""
        return self.slope + self.normal(PARTS, draws) * self.spread / GROUPS**0.5

    def see(self, draws, twins=None, update=None):
        """Return what `draws` independent probes see of an update for all or one each."""
        update = (self.update if update is None else update).expand(draws, -1)
        length = update.norm(dim=1)
        unit = update / length.unsqueeze(1)
        objective = self.gradients(draws)
        # a part's Hessian-vector product has noise of its own
        product = unit @ self.hessian + 0.3 * self.normal(PARTS, draws)
        gain = self.gain(update) + 0.02 * self.normal(PARTS, draws)[..., 0]
        twins = torch.zeros(draws, 0, SIZE, dtype=torch.double) if twins is None else twins
        return Evidence(
            gradients=gram(self.gradients(draws)),
            objective=gram(objective),
            slope=(objective * unit).sum(2).T,
            curvature=(product * unit).sum(2).T,
            twins=torch.einsum("kmn,mtn->mkt", product, twins),
            gain=gain.T,
            length=length,
            responses=GROUPS * GROUP,
            minibatch=MINIBATCH,
        )

    def gain(self, update):
        """Return how much an update gains, exactly."""
        return update @ self.slope - ((update @ self.hessian) * update).sum(-1) / 2

    def truth(self):
        """Return the true value of every column that needs no twins."""
        d, length = self.update, float(self.update.norm())
        square = float(self.slope @ self.slope)
        first, loss = float(self.slope @ d), float(d @ self.hessian @ d) / 2
        return {
            "gradient_square": square,
            "gradient_variance": self.sigma,
            "noise_batch_size": self.sigma / square,
            "alignment": 1 / math.sqrt(1 + self.sigma / square / MINIBATCH),
            "objective_square": square,
            "update_cosine": first / length / math.sqrt(square),
            "slope": first / length,
            "curvature": 2 * loss / length**2,
            "first_order_gain": first,
            "curvature_loss": loss,
            "curvature_share": loss / first,
            "predicted_gain": first - loss,
            "measured_gain": first - loss,
            "gain_residual": 0.0,
        }


@pytest.fixture(scope="module")
def seen():
    """Estimates of many independent probes of one quadratic."""
    quadratic = Quadratic()
    return estimate(quadratic.see(DRAWS)), quadratic.truth()


@pytest.mark.parametrize("name", Quadratic().truth())
def test_estimates_are_unbiased_and_their_intervals_cover(seen, name):
    """Each column's mean is the truth, and 95 % intervals (t, K-1) hold it about 95 % of times."""
    found, truth = seen[0][name], seen[1][name]
    error = float(found.value.std()) / DRAWS**0.5
    ratio = name in ("noise_batch_size", "alignment", "update_cosine", "curvature_share")
    slack = 0.01 * abs(truth) if ratio else 0.0  # ratios of unbiased estimates are biased a little
    assert abs(float(found.value.mean()) - truth) < 4 * error + slack
    reach = student.ppf(0.975, PARTS - 1) * found.se
    cover = float(((found.value - truth).abs() <= reach).double().mean())
    assert 0.92 < cover < 0.975


def test_every_estimate_is_a_column_of_the_schema():
    """The names are those of `schema.PROBES`, all that have a standard error."""
    from twoclock.schema import PROBES

    quadratic = Quadratic()
    found = estimate(quadratic.see(2, quadratic.normal(2, 3)))
    assert {f"{name}_se" for name in found} == {n for n in PROBES.names if n.endswith("_se")}


def test_coherent_and_noise_losses_are_those_of_the_theory():
    """K steps of SGD on noisy gradients lose K^2 eta^2 g'Hg/2 coherently and K eta^2 tr(HS)/2.

    This is section 5's second-order term, with S the covariance of a minibatch gradient.
    """
    quadratic, steps, eta, draws = Quadratic(noise=2.0), 4, 0.01, 4000
    sd = quadratic.spread * math.sqrt(GROUP / MINIBATCH)

    def updates(*shape):
        noise = quadratic.normal(*shape, steps) * sd
        return eta * (quadratic.slope + noise).sum(-2)

    found = estimate(quadratic.see(draws, updates(draws, 2), updates(draws)))
    h, g = quadratic.hessian, quadratic.slope
    want = {
        "coherent_loss": (eta * steps) ** 2 * float(g @ h @ g) / 2,
        "noise_loss": eta**2 * steps * float((h.diagonal() * sd**2).sum()) / 2,
    }
    for name, value in want.items():
        got = found[name].value
        error = float(got.std()) / draws**0.5
        assert abs(float(got.mean()) - value) < 4 * error
        assert 4 * error < 0.1 * value  # the check is a sharp one


def test_twins_add_their_spread_to_the_errors():
    """Intervals of coherent and noise losses cover over draws of twins and held-out rollout."""
    quadratic, twins = Quadratic(), 30
    mean = 0.05 * quadratic.slope
    drawn = mean + 0.05 * quadratic.normal(DRAWS, twins)
    found = estimate(quadratic.see(DRAWS, drawn))
    d, h = quadratic.update, quadratic.hessian
    first = float(quadratic.slope @ d)
    truth = {
        "coherent_loss": float(d @ h @ mean) / 2,
        "noise_loss": float(d @ h @ (d - mean)) / 2,
    }
    truth["coherent_share"] = truth["coherent_loss"] / first
    truth["noise_share"] = truth["noise_loss"] / first
    for name, value in truth.items():
        reach = student.ppf(0.975, PARTS - 1) * found[name].se
        cover = float(((found[name].value - value).abs() <= reach).double().mean())
        assert 0.92 < cover < 0.985, name
    total = found["coherent_share"].value + found["noise_share"].value
    torch.testing.assert_close(total, found["curvature_share"].value)


def test_one_twin_gives_no_error():
    """What one twin cannot tell is not made up: the error is not identified."""
    quadratic = Quadratic()
    found = estimate(quadratic.see(3, quadratic.normal(3, 1)))
    assert found["coherent_loss"].value.isfinite().all()
    assert found["coherent_loss"].se.isnan().all()


def test_a_gradient_that_cannot_be_told_from_noise_gives_no_noise_scale():
    """Where |G|^2 may be 0 its ratios are not identified, and |G|^2 itself is still unbiased."""
    quadratic = Quadratic(noise=2.0)
    quadratic.slope = quadratic.slope * 1e-3
    found = estimate(quadratic.see(400))
    assert 0.3 < float(found["noise_batch_size"].value.isnan().double().mean()) < 0.9
    square = found["gradient_square"].value
    assert abs(float(square.mean())) < 4 * float(square.std()) / 20


def test_members_do_not_mix():
    """A member's estimates are the same alone and among others."""
    quadratic = Quadratic()
    seen = quadratic.see(5, quadratic.normal(5, 2))
    fields = {
        name: value[3:4] if isinstance(value, torch.Tensor) else value
        for name, value in vars(seen).items()
    }
    alone, among = estimate(Evidence(**fields)), estimate(seen)
    for name, item in alone.items():
        torch.testing.assert_close(item.value[0], among[name].value[3])
        torch.testing.assert_close(item.se[0], among[name].se[3])


def test_broken_members_are_told(seen):
    """`finite` names the members with a NaN anywhere in what was seen."""
    evidence = Quadratic().see(3)
    evidence.curvature[1, 4] = math.nan
    assert evidence.finite().tolist() == [True, False, True]
