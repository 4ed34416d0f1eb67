import pytest
import torch

from tests.trainer.conftest import tiny
from twoclock.errors import TrainingError
from twoclock.trainer.crew import Crew


def advanced(members, base, rollouts=4):
    """Return a crew after some rollouts, and its last report."""
    crew = Crew(members, base)
    for _ in range(rollouts):
        report = crew.advance()
    return crew, report


@pytest.mark.parametrize("others", [1, 6])
def test_a_member_does_not_depend_on_the_others(base, others):
    """Alone or in any place of a crew, a member's parameters are the same bits."""
    alone, _ = advanced([tiny(seed=3)], base)
    rest = [tiny(seed=10 + i, base_lr=3e-4) for i in range(others)]
    for place in (0, others):
        crew, _ = advanced([*rest[:place], tiny(seed=3), *rest[place:]], base)
        assert torch.equal(crew.theta[place], alone.theta[0])


def test_a_member_does_not_notice_others_leaving(base):
    """When members leave half-way, those who stay go on as if alone."""
    alone, _ = advanced([tiny(seed=1)], base)
    crew, _ = advanced([tiny(seed=0), tiny(seed=1), tiny(seed=2)], base, rollouts=2)
    crew.keep([1])
    crew.advance()
    crew.advance()
    assert torch.equal(crew.theta[0], alone.theta[0])


def test_same_seed_same_bits_other_seed_differs(base):
    """Two crews with equal seeds agree bit by bit; another seed leads elsewhere."""
    first, again, other = (advanced([tiny(seed=s)], base)[0] for s in (5, 5, 6))
    assert torch.equal(first.theta, again.theta)
    assert not torch.equal(first.theta, other.theta)


def test_a_rollout_takes_k_optimizer_steps(base):
    """K = minibatches * epochs steps per rollout."""
    crew, _ = advanced([tiny(minibatches=4, epochs=3)], base, rollouts=2)
    assert crew.optimizer.steps == 2 * 12
    assert crew.responses == 64


def test_each_member_learns_at_its_own_rate(base):
    """Adam's first step moves a member by its learning rate, sqrt rule and all."""
    members = [tiny(seed=0, base_lr=lr, minibatches=1, epochs=1) for lr in (1e-4, 1e-3)]
    crew, report = advanced(members, base, rollouts=1)
    moved = (crew.theta - base).abs().amax(1)
    torch.testing.assert_close(moved, torch.tensor([m.lr for m in members]), rtol=0.02, atol=0)
    torch.testing.assert_close(report.lr, torch.tensor([m.lr for m in members]))


def test_warm_up_is_counted_in_responses(base):
    """The rate after a rollout is the share of the warm-up that its responses make."""
    _, report = advanced([tiny(warmup_responses=128)], base, rollouts=2)
    torch.testing.assert_close(report.lr[0], torch.tensor(tiny().lr * 64 / 128))


def test_clip_acts_only_when_it_is_set(base):
    """A tight clip removes gradients within a rollout; without one nothing is clipped."""
    _, tight = advanced([tiny(clip_low=1e-3, clip_high=1e-3)], base, rollouts=1)
    _, free = advanced([tiny(clip_low=None, clip_high=None)], base, rollouts=1)
    assert float(tight.stats.clip_fraction[0]) > 0.1
    assert float(free.stats.clip_fraction[0]) == 0.0
    assert float(free.stats.ratio_max[0]) > 1.0


def test_validation_leaves_training_alone_and_repeats_itself(base):
    """Validating draws nothing from the members' generators and gives equal answers twice."""
    plain, _ = advanced([tiny()], base)
    crew = Crew([tiny()], base)
    for _ in range(4):
        assert crew.validate()[0] == crew.validate()[0]
        crew.advance()
    assert torch.equal(crew.theta, plain.theta)


def test_a_broken_member_is_counted_and_harms_nobody(base):
    """A member with NaN parameters counts its bad rollouts; its neighbour is untouched."""
    alone, _ = advanced([tiny(seed=1)], base)
    crew = Crew([tiny(seed=0), tiny(seed=1)], base)
    crew.theta[0] = torch.nan
    for _ in range(4):
        crew.advance()
    assert crew.bad_rollouts == [4, 0]
    assert torch.equal(crew.theta[1], alone.theta[0])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "no members"),
        ([tiny(), tiny(seed=1, epochs=1)], "must share epochs"),
        ([tiny(), tiny()], "same run"),
    ],
)
def test_impossible_crews_are_refused(base, members, message):
    """Members must exist, share their settings, and be different runs."""
    with pytest.raises(TrainingError, match=message):
        Crew(members, base)
