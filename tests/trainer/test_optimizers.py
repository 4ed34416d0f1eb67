import pytest
import torch

from twoclock.trainer.optimizers import SGD, Adam, clip_gradient


def test_adam_equals_torch_for_each_member_at_its_own_rate():
    """Ten steps of the batched Adam are those of torch.optim.Adam, member by member."""
    g = torch.Generator().manual_seed(0)
    start, grads = torch.randn(3, 7, generator=g), torch.randn(10, 3, 7, generator=g)
    rates = torch.tensor([1e-3, 1e-2, 1e-1])
    theta = start.clone()
    adam = Adam(theta, 0.9, 0.99, 1e-8)
    for grad in grads:
        adam.step(theta, grad, rates)
    for m in range(3):
        leaf = start[m].clone().requires_grad_()
        plain = torch.optim.Adam([leaf], lr=float(rates[m]), betas=(0.9, 0.99), eps=1e-8)
        for grad in grads:
            leaf.grad = grad[m].clone()
            plain.step()
        torch.testing.assert_close(theta[m], leaf.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_equals_torch_for_each_member_at_its_own_rate(momentum):
    """Ten steps of the batched SGD are those of torch.optim.SGD, member by member."""
    g = torch.Generator().manual_seed(0)
    start, grads = torch.randn(3, 7, generator=g), torch.randn(10, 3, 7, generator=g)
    rates = torch.tensor([1e-3, 1e-2, 1e-1])
    theta = start.clone()
    sgd = SGD(theta, momentum)
    for grad in grads:
        sgd.step(theta, grad, rates)
    for m in range(3):
        leaf = start[m].clone().requires_grad_()
        plain = torch.optim.SGD([leaf], lr=float(rates[m]), momentum=momentum)
        for grad in grads:
            leaf.grad = grad[m].clone()
            plain.step()
        torch.testing.assert_close(theta[m], leaf.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_restored_optimizers_go_on_bit_for_bit(kind):
    """Saved and restored for some members, an optimizer takes the very same steps."""
    g = torch.Generator().manual_seed(0)
    theta, grads = torch.randn(3, 7, generator=g), torch.randn(6, 3, 7, generator=g)

    def fresh(start):
        return Adam(start, 0.9, 0.99, 1e-8) if kind == "adam" else SGD(start, 0.9)

    rates = torch.full((3,), 0.01)
    whole, optimizer = theta.clone(), fresh(theta)
    for i, grad in enumerate(grads):
        if i == 3:
            part, other = whole[[2, 0]].clone(), fresh(theta[:2])
            other.restore(optimizer.state(), [2, 0])
        optimizer.step(whole, grad, rates)
        if i >= 3:
            other.step(part, grad[[2, 0]], rates[:2])
    assert torch.equal(part, whole[[2, 0]])
    assert other.steps == optimizer.steps == 6


def test_gradients_are_clipped_per_member():
    """Only the member whose norm is over the limit is scaled, and norms before are returned."""
    grad = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    assert clip_gradient(grad, 1.0).tolist() == [5.0, 0.5]
    torch.testing.assert_close(grad, torch.tensor([[0.6, 0.8], [0.3, 0.4]]))


def test_no_limit_leaves_gradients_alone():
    """Without a limit nothing is scaled."""
    grad = torch.tensor([[3.0, 4.0]])
    clip_gradient(grad, None)
    assert grad.tolist() == [[3.0, 4.0]]
