"""dirichlet: label skew, class by class, the most used one.

Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", ICML 2019; in the form
most libraries have it, which stops a client from growing far beyond the average.

    for each class   p ~ Dir(α·1) over the clients
                     p_i <- 0 where client i holds N / K samples already, the others renormalised
                     the class, shuffled, is cut at floor(cumsum(p) · N_k)

and all of it again until the smallest client has min(least, N / 2K) samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...errors import PartitionError
from .partition import Pool, Rows, Source, Split, at_least, largest, positive, proposals
from .shares import cumulative_shares, log_gammas

ATTEMPTS = 10_000
QUICK = 20  # attempts in which a setting that is proposed must succeed
AT_ONCE = 10_000  # shares drawn together, for speed; another number is another stream of attempts
DRAWS = 50_000_000  # shares drawn at most: a few seconds, however many clients there are
LARGER = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Dirichlet:
    """Each class is cut by shares drawn from a Dirichlet distribution; a small alpha makes clients differ."""

    alpha: float = 0.1
    least: int = 40
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        positive("dirichlet: alpha", self.alpha)
        at_least("dirichlet: least", self.least, 0)

    def splits(self, source: Source) -> list[Split]:
        smallest = -1
        for counts in self.attempts(source, ATTEMPTS):
            smallest = max(smallest, smallest_of(counts))
            if smallest >= self.minimum(source):
                return source.dealt(counts)
        raise self._impossible(source, smallest)

    def minimum(self, source: Source) -> int:
        """How many samples the smallest client must have."""
        return min(self.least, len(source.rows) // (2 * source.clients))

    def attempts(self, source: Source, most: int) -> Iterator[Rows]:
        """One matrix of counts (clients x classes) after the other."""
        rng, sizes, clients = source.rng("dirichlet"), source.class_sizes, source.clients
        at_once = max(1, AT_ONCE // (clients * len(sizes)))
        for _ in range(0, min(most, max(1, DRAWS // (clients * len(sizes)))), at_once):
            yield from drawn(rng, sizes, (at_once, clients), self.alpha)

    def _impossible(self, source: Source, smallest: int) -> PartitionError:
        clients = largest(lambda k: self.works(replace(source, wanted=k)), source.clients)
        alpha = next((a for a in LARGER if a > self.alpha and replace(self, alpha=a).works(source)), None)
        return PartitionError(
            f"no division gives every client {self.minimum(source)} samples; at best, one gets {smallest}\n"
            f"    dirichlet, alpha={self.alpha}, {source.clients} clients, seed {source.seed}, "
            f"{len(source.rows)} samples of {source.name}"
            + proposals(alpha=alpha, clients=clients, least=smallest)
        )

    def works(self, source: Source) -> bool:
        """Whether this finds a division soon."""
        return any(smallest_of(counts) >= self.minimum(source) for counts in self.attempts(source, QUICK))


def drawn(rng: np.random.Generator, sizes: Rows, shape: tuple[int, int], alpha: float) -> Rows:
    """How many samples of each class (of these sizes) each client gets: (attempts x clients x classes)."""
    counts, held = np.zeros((*shape, len(sizes)), dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for k in np.flatnonzero(sizes):
        open_ = held * shape[1] < sizes.sum()
        ends = np.floor(cumulative_shares(log_gammas(rng, alpha, shape), open_) * sizes[k])
        counts[..., k] = np.diff(ends.astype(np.int64), prepend=0)
        held += counts[..., k]
    return counts


def smallest_of(counts: Rows) -> int:
    return int(counts.sum(axis=1).min())
