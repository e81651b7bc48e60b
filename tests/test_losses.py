"""Losses that several papers share, with numbers worked out."""

import math

import pytest
import torch
from torch.nn import functional as F

from pluribus.losses import (
    balanced_cross_entropy,
    kl,
    square_pull,
    supervised_contrastive,
    unlikelihood,
    vclub,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_pull_is_the_square_distance_to_namesakes() -> None:
    """(1 - 3)² + (2 - 2)² + (5 - 4)² = 5; its slope 2 (w - w')."""
    w = {"a": torch.tensor([1.0, 2.0], requires_grad=True), "b": torch.tensor([5.0], requires_grad=True)}

    pull = square_pull(w.items(), {"b": torch.tensor([4.0]), "a": torch.tensor([3.0, 2.0])})

    assert float(pull.detach()) == 5
    assert torch.autograd.grad(pull, w["a"])[0].tolist() == [-4.0, 0.0]


def test_kl_by_hand() -> None:
    """p = (1/2, 1/2), q = (1/4, 3/4):  ½ log 2 + ½ log 2/3 = ½ log 4/3."""
    target, logits = torch.zeros(1, 2), torch.tensor([[0.0, math.log(3)]])

    assert float(kl(target, logits)) == pytest.approx(math.log(4 / 3) / 2)


def test_kl_is_cross_entropy_less_entropy_and_never_negative() -> None:
    p, q = normal(5, 3), normal(5, 3, seed=1)

    cross = -(p.softmax(1) * q.log_softmax(1)).sum(1).mean()
    entropy = -(p.softmax(1) * p.log_softmax(1)).sum(1).mean()

    assert float(kl(p, q)) == pytest.approx(float(cross - entropy))
    assert kl(p, q) > 0


def test_kl_of_equals_is_nothing_and_pulls_nowhere() -> None:
    p = normal(5, 3).requires_grad_()

    loss = kl(p.detach(), p)

    assert float(loss.detach()) == pytest.approx(0, abs=1e-12)
    assert torch.allclose(torch.autograd.grad(loss, p)[0], torch.zeros_like(p))


def test_the_balanced_gradient_is_softmax_with_the_prior_less_one_hot() -> None:
    """C12-L1: and exactly 0 for a class that is absent."""
    logits, y, counts = normal(4, 3).requires_grad_(), torch.tensor([0, 1, 1, 0]), torch.tensor([9, 3, 0])

    (gradient,) = torch.autograd.grad(balanced_cross_entropy(logits, y, counts), logits)

    prior = torch.tensor([9.0, 3.0, 0.0], dtype=torch.float64)
    weighed = logits.detach().exp() * prior
    expected = (weighed / weighed.sum(1, keepdim=True) - F.one_hot(y, 3)) / 4
    assert torch.allclose(gradient, expected)
    assert torch.equal(gradient[:, 2], torch.zeros(4, dtype=torch.float64))


def test_balanced_with_equal_counts_or_gamma_zero_is_cross_entropy() -> None:
    logits, y = normal(4, 3), torch.tensor([0, 1, 2, 0])

    usual = float(F.cross_entropy(logits, y))

    assert float(balanced_cross_entropy(logits, y, torch.tensor([5, 5, 5]))) == pytest.approx(usual)
    assert float(balanced_cross_entropy(logits, y, torch.tensor([5, 1, 0]), gamma=0)) == usual


def test_of_one_class_alone_the_balanced_loss_is_exactly_nothing() -> None:
    """C12-L7."""
    logits = normal(4, 3).requires_grad_()

    loss = balanced_cross_entropy(logits, torch.tensor([1, 1, 1, 1]), torch.tensor([0, 4, 0]))

    assert float(loss.detach()) == 0
    assert torch.equal(torch.autograd.grad(loss, logits)[0], torch.zeros_like(logits))


def test_contrastive_of_equal_features_of_one_class_is_log_of_the_others() -> None:
    """3g.4: log(n - 1), to about 1e-6."""
    loss = supervised_contrastive(normal(1, 4).expand(5, 4), torch.zeros(5), tau=0.2)

    assert float(loss) == pytest.approx(math.log(4), abs=1e-5)


def test_contrastive_by_hand() -> None:
    """
    û = (1, 0), (0, 1), (-1, 0), classes 0 0 1, τ = 1.
    i = 0: s = (0, -1), P = {1}: 0 - log(e⁰ + e⁻¹);  i = 1: s = (0, 0), P = {0}: -log 2;  i = 2: no positive.
    """
    u = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]], dtype=torch.float64)

    loss = supervised_contrastive(u, torch.tensor([0, 0, 1]), tau=1.0)

    assert float(loss) == pytest.approx((math.log(1 + math.exp(-1)) + math.log(2)) / 3, abs=1e-5)


def test_contrastive_without_positives_or_of_one_example_is_nothing() -> None:
    alone, apart = normal(1, 4).requires_grad_(), normal(3, 4).requires_grad_()

    for features, y in ((alone, torch.tensor([0])), (apart, torch.tensor([0, 1, 2]))):
        loss = supervised_contrastive(features, y, tau=0.2)
        assert float(loss.detach()) == 0
        assert torch.equal(torch.autograd.grad(loss, features)[0], torch.zeros_like(features))


def test_contrastive_knows_neither_lengths_nor_order() -> None:
    u, y = normal(6, 4), torch.tensor([0, 1, 0, 1, 2, 2])
    order = torch.tensor([3, 1, 5, 0, 2, 4])

    usual = supervised_contrastive(u, y, tau=0.2)

    assert torch.allclose(usual, supervised_contrastive(u * torch.arange(1, 7)[:, None], y, tau=0.2))
    assert torch.allclose(usual, supervised_contrastive(u[order], y[order], tau=0.2))


def test_contrastive_likes_classes_apart() -> None:
    """A small step lowers it; classes on orthogonal directions have less than random features."""
    u, y = normal(6, 4).requires_grad_(), torch.tensor([0, 1, 0, 1, 2, 2])
    loss = supervised_contrastive(u, y, tau=0.2)
    (gradient,) = torch.autograd.grad(loss, u)

    stepped = supervised_contrastive(u.detach() - 1e-3 * gradient, y, tau=0.2)
    collapsed = supervised_contrastive(torch.eye(4, dtype=torch.float64)[y], y, tau=0.2)

    assert collapsed < stepped < loss.detach()


def test_unlikelihood_by_hand() -> None:
    """(1 - 3)² / 2 + log 2 and (0 - 1)² / 1 + 0, summed: 3 + log 2."""
    mean, spread = torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(2), 0.0]])

    assert float(unlikelihood(mean, spread, torch.tensor([[3.0, 1.0]]))) == pytest.approx(3 + math.log(2))


def test_vclub_is_the_mean_over_all_pairs() -> None:
    m, v, t = normal(5, 3), normal(5, 3, seed=1), normal(5, 3, seed=2)

    pairs = (m[:, None] - t[None]).square().mean(1)
    expected = ((pairs - (m - t).square()) / (2 * v.exp())).sum(1).mean()

    assert torch.allclose(vclub(m, v, t), expected)


def test_vclub_is_nothing_where_nothing_can_be_told() -> None:
    """1g.4: one sample, equal targets, or q that ignores its input; to 1e-6 a dimension."""
    m, v, t = normal(5, 3), normal(5, 3, seed=1), normal(5, 3, seed=2)

    assert float(vclub(m[:1], v[:1], t[:1])) == pytest.approx(0, abs=3e-6)
    assert float(vclub(m, v, t[:1].expand(5, 3))) == pytest.approx(0, abs=3e-6)
    assert float(vclub(m[:1].expand(5, 3), v[:1].expand(5, 3), t)) == pytest.approx(0, abs=3e-6)
