"""dirichlet-client: label skew, client by client, everybody with the same number of samples.

Hsu, Qi & Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019.

    client by client   q ~ Dir(β·1) over the classes
                       floor(N / K) samples, one at a time without replacement, class ~ q
                       where a class is exhausted its entry becomes 0, the others renormalised

The last clients take what is left, whatever their q says: that belongs to this partition.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .partition import Pool, Rows, Source, Split, positive
from .shares import Reals, cumulative_shares, log_gammas


@dataclass(frozen=True)
class DirichletClient:
    """Each client draws its own class distribution; all clients have the same size."""

    alpha: float = 0.1
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        positive("dirichlet-client: alpha", self.alpha)

    def splits(self, source: Source) -> list[Split]:
        left, each = source.class_sizes, len(source.rows) // source.clients
        counts = np.zeros((source.clients, len(left)), dtype=np.int64)
        for i in range(source.clients):
            rng = source.rng("dirichlet-client", i)
            counts[i] = drawn(rng, log_gammas(rng, self.alpha, left.shape), left, each)
            left = left - counts[i]
        return source.dealt(counts)


def drawn(rng: np.random.Generator, logs: Reals, left: Rows, number: int) -> Rows:
    """How many of each class come out when so many samples are drawn, one at a time, from what is left."""
    counts = np.zeros_like(left)
    while missing := number - int(counts.sum()):
        sums = cumulative_shares(logs, left > counts)
        draws = np.searchsorted(sums, rng.random(missing), side="right")
        counts += np.bincount(until_exhausted(draws, left - counts), minlength=len(left))
    return counts


def until_exhausted(draws: Rows, left: Rows) -> Rows:
    """The draws up to and including the one that takes the last sample of some class."""
    ends = [
        positions[left[k] - 1]
        for k in np.unique(draws)
        if len(positions := np.flatnonzero(draws == k)) >= left[k]
    ]
    return draws[: min(ends) + 1] if ends else draws
