"""Losses that several papers share: each stands once, and methods and tests call the same.

Logits are (n, C), features (n, d), labels (n,).  What a method alone has stays in the method's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F


def square_pull(parameters: Iterable[tuple[str, Tensor]], towards: Mapping[str, Tensor]) -> Tensor:
    """‖w - w'‖², over all parameters, each with its namesake."""
    return torch.stack([((p - towards[n]) ** 2).sum() for n, p in parameters]).sum()


def kl(target: Tensor, logits: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ_c p_c (log p_c - log q_c), mean over the batch; p = softmax(target), q of the logits."""
    p, q = target.log_softmax(1), logits.log_softmax(1)
    return (p.exp() * (p - q)).sum(1).mean()


def balanced_cross_entropy(logits: Tensor, y: Tensor, counts: Tensor, gamma: float = 1.0) -> Tensor:
    """CE(o + γ log n, y): balanced softmax, n the number of examples of each class.

    A class without examples is left out of the softmax.
    """
    if gamma == 0:
        return F.cross_entropy(logits, y)  # log 0 · 0 is no number
    return F.cross_entropy(logits + gamma * counts.to(logits).log(), y)


def supervised_contrastive(features: Tensor, y: Tensor, tau: float) -> Tensor:
    """-(1/|P(i)|) Σ_{j in P(i)} [ s_ij - log Σ_{a≠i} exp(s_ia) ],   s_ij = û_i · û_j / τ,   mean over all i.

    P(i) are the others of the same class; who has none counts 0.
    """
    u = F.normalize(features, dim=1)
    itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
    positive = (y[:, None] == y) & ~itself
    s = (u @ u.T / tau).masked_fill(itself, -torch.inf)
    log_p = s - s.logsumexp(1, keepdim=True)
    each = torch.where(positive, log_p, 0).sum(1) / (positive.sum(1) + 1e-6)
    return -each.mean()


def unlikelihood(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Σ_d [ (m - t)² / e^v + v ], mean over the batch: -2 log q(t | ·) of a Gaussian, but for a constant."""
    return ((mean - target).square() / log_variance.exp() + log_variance).sum(1).mean()


def vclub(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Σ_d [ mean_j (m_i - t_j)² - (m_i - t_i)² ] / (2 e^{v_i}), mean over i: how much m tells of its own t.

    Cheng et al., "CLUB: A Contrastive Log-ratio Upper Bound of Mutual Information", ICML 2020.
    """
    others = (mean - target.mean(0)).square() + target.var(0, correction=0)  # the mean over j of (m_i - t_j)²
    gap = (others - (mean - target).square()) / (2 * log_variance.exp())
    return gap.sum(1).mean()


def prototype_distance(features: Tensor, targets: Tensor, there: Tensor) -> Tensor:
    """(f - C_y)², mean over the batch and over features; an example whose class has no C counts 0."""
    return ((features - targets).square() * there[:, None]).mean()
