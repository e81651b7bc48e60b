"""Dirichlet shares that survive a tiny alpha.

A draw from Dir(α·1) is a vector of Gamma(α) variables over its sum.  At α = 0.001 most of them are
below the smallest float, and what is left after some entries were set to zero cannot be normalised.
Their logarithms have no such trouble: if g ~ Gamma(α + 1) and u is uniform, then ln g + ln(u) / α is
the logarithm of a Gamma(α) variable.
"""

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def log_gammas(rng: np.random.Generator, alpha: float, shape: tuple[int, ...]) -> Reals:
    """Logarithms of independent Gamma(alpha) variables."""
    gammas, uniforms = rng.standard_gamma(alpha + 1, shape), 1 - rng.random(shape)
    return np.asarray(np.log(gammas) + np.log(uniforms) / alpha)


def cumulative_shares(logs: Reals, open_: NDArray[np.bool_]) -> Reals:
    """Running sums of the Dirichlet shares, where those not open are 0; the last sum is 1."""
    masked = np.where(open_, logs, -np.inf)
    sums = np.cumsum(np.exp(masked - masked.max(axis=-1, keepdims=True)), axis=-1)
    return np.asarray(sums / sums[..., -1:])
