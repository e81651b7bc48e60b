"""A step without gradients of large linear layers: the same step, and only where it can be done."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pluribus import descent
from pluribus.descent import descend, products_of
from pluribus.errors import MethodError

X, Y = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)), torch.arange(7) % 3


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(descent, "LARGE", 1)


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def usual(net):
    return F.cross_entropy(net(X), Y)


def pulled(net):
    return usual(net) + 0.1 * net[0].weight.square().sum()


def twice(net):
    return usual(net) + net[2](net[0](2 * X)).square().mean()


def scaled(net):
    return F.cross_entropy(torch.addmm(net[2].bias, net[1](net[0](X)), net[2].weight.t(), alpha=2), Y)


def after_steps(monkeypatch, loss, large, steps=3, clip=None, **settings):
    """The parameters after some steps, with large matrices from this size on."""
    monkeypatch.setattr(descent, "LARGE", large)
    net = network()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3, **settings)
    for _ in range(steps):
        descend(optimiser, loss(net), clip)
    return [p.detach() for p in net.parameters()]


def test_one_step_by_hand():
    """w = (1, 2), x = (3, 4), y = w·x; the gradient of y² / 2 is y x = 11 (3, 4).

    η = 0.1, λ = 0.5: w ← (1 - 0.05) (1, 2) - 0.1 (33, 44) = (-2.35, -2.5)
    """
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0]]))
        layer.bias.zero_()
    optimiser = torch.optim.SGD([layer.weight], lr=0.1, weight_decay=0.5)

    descend(optimiser, layer(torch.tensor([[3.0, 4.0]])).square().sum() / 2)

    assert layer.weight.tolist() == [[pytest.approx(-2.35), pytest.approx(-2.5)]]
    assert layer.weight.grad is None


@pytest.mark.parametrize("loss", [usual, pulled, twice, scaled])
@pytest.mark.parametrize(
    "settings", [{}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"maximize": True}, {"clip": 0.01}], ids=str
)
def test_steps_are_those_of_the_optimiser(monkeypatch, loss, settings):
    fused = after_steps(monkeypatch, loss, 1, **settings)
    plain = after_steps(monkeypatch, loss, 10**9, **settings)

    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(fused, plain, strict=True))


@pytest.mark.parametrize(("loss", "found"), [(usual, [0, 2]), (pulled, [2]), (twice, []), (scaled, [0])])
def test_products_are_found_where_they_are_a_weights_only_use(loss, found):
    net = network()
    weights = [net[0].weight, net[2].weight]

    products = products_of(loss(net), weights)

    assert [any(w is net[i].weight for w in products) for i in (0, 2)] == [i in found for i in (0, 2)]


def test_a_frozen_weight_and_one_in_half_precision_are_left_alone():
    net = network()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert products_of(usual(net), [net[0].weight]) == {}
    net[0].requires_grad_(False)

    descend(torch.optim.SGD(net[2].parameters(), lr=0.1), usual(net))

    assert torch.equal(net[0].weight, network()[0].weight)
    assert not torch.equal(net[2].weight, network()[2].weight)


def test_small_matrices_get_their_gradient(monkeypatch):
    monkeypatch.setattr(descent, "LARGE", 16)
    net = network()

    descend(torch.optim.SGD(net.parameters(), lr=0.1), usual(net))

    assert net[0].weight.grad is None  # 5 x 4
    assert net[2].weight.grad is not None  # 4 x 3


def test_other_optimisers_and_groups_step_as_ever():
    one, other = network(), network()
    for net, step in ((one, descend), (other, lambda o, loss: (o.zero_grad(), loss.backward(), o.step()))):
        groups = [{"params": net[0].parameters(), "lr": 0.5}, {"params": net[2].parameters()}]
        step(torch.optim.SGD(groups, lr=0.1), usual(net))
        step(torch.optim.Adam(net.parameters(), lr=0.1), usual(net))

    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)


def test_a_weight_that_the_loss_does_not_use_is_an_error():
    net, stranger = network(), nn.Linear(5, 4)
    optimiser = torch.optim.SGD([*net.parameters(), *stranger.parameters()], lr=0.1)

    with pytest.raises(MethodError, match="the loss does not depend on it"):
        descend(optimiser, usual(net))


def test_the_same_twice_is_the_same_to_the_bit(monkeypatch):
    one, two = (after_steps(monkeypatch, usual, 1) for _ in range(2))

    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert deepcopy(one[0]).shape == (4, 5)
