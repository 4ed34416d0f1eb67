import torch

from twoclock.trainer.adam import Adam, clip_gradient


def test_adam_equals_torch_for_each_member_at_its_own_rate():
    """Ten steps of the batched Adam are those of torch.optim.Adam, member by member."""
    g = torch.Generator().manual_seed(0)
    start, grads = torch.randn(3, 7, generator=g), torch.randn(10, 3, 7, generator=g)
    rates = torch.tensor([1e-3, 1e-2, 1e-1])
    theta = start.clone()
    adam = Adam(torch.zeros(3, 7), torch.zeros(3, 7), 0, 0.9, 0.99, 1e-8)
    for grad in grads:
        adam.step(theta, grad, rates)
    for m in range(3):
        leaf = start[m].clone().requires_grad_()
        plain = torch.optim.Adam([leaf], lr=float(rates[m]), betas=(0.9, 0.99), eps=1e-8)
        for grad in grads:
            leaf.grad = grad[m].clone()
            plain.step()
        torch.testing.assert_close(theta[m], leaf.detach(), rtol=1e-5, atol=1e-6)


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
