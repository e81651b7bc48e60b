"""pathological: everybody has a few classes only.

After McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, in the form most libraries have it: classes are handed out in order, each to the first
ceil(K / n_c · c) clients that may still take one.  So clients come in groups that hold the same
classes: with 20 clients, 10 classes and c = 2, clients 0-3 share {0, 1}, clients 4-7 share {2, 3}.

How a class is shared: in equal parts if balanced; otherwise each taker but the last gets a uniform
integer in [max(n / 10, least / n_c), n), n the equal part, and the last gets the rest.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np

from ... import spelling
from ...errors import PartitionError
from .partition import Pool, Rows, Source, Split, at_least, largest, proposals


@dataclass(frozen=True)
class Pathological:
    """Each client has samples of a few classes; groups of clients have the same ones."""

    classes: int = 2
    balanced: bool = False
    least: int = 40
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        at_least("pathological: classes", self.classes, 1)
        at_least("pathological: least", self.least, 0)

    def splits(self, source: Source) -> list[Split]:
        self._check(source)
        counts = np.zeros((source.clients, len(source.classes)), dtype=np.int64)
        for k, takers in self.takers(source.clients, len(source.classes)).items():
            counts[takers, k] = self.parts(source, k, len(takers))
        return source.dealt(counts)

    def takers(self, clients: int, classes: int) -> dict[int, Rows]:
        """Which clients share each class; a class is missing if everybody has enough before its turn."""
        quota, takers = np.full(clients, self.classes), {}
        for k in range(classes):
            who = np.flatnonzero(quota)[: ceil(clients * self.classes / classes)]
            quota[who] -= 1
            if len(who):
                takers[k] = who
        return takers

    def parts(self, source: Source, k: int, takers: int) -> Rows:
        """How many samples of class k each of its takers gets."""
        size = int(source.class_sizes[k])
        low, high = self.bounds(source, size, takers)
        if self.balanced:
            first = np.full(takers - 1, size // takers)
        else:
            first = source.rng("pathological", k).integers(low, max(low + 1, high), takers - 1)
        return np.append(first, size - first.sum())

    def bounds(self, source: Source, size: int, takers: int) -> tuple[int, int]:
        """The smallest part of a class, and the number all random parts are below."""
        equal, least = size / takers, min(self.least, len(source.rows) // (2 * source.clients))
        return max(1, ceil(max(equal / 10, least / len(source.classes)))), ceil(equal)

    def _check(self, source: Source) -> None:
        if self.classes > len(source.classes):
            raise PartitionError(
                f"{self.classes} classes for each client, but {source.name} has {len(source.classes)}\n"
                f"    try classes={len(source.classes)} or fewer"
            )
        if too_small := self._too_small(source):
            works = largest(lambda k: not self._too_small(replace(source, wanted=k)), source.clients)
            raise PartitionError(
                f"{source.name} has too few samples of class '{source.classes[too_small[0]]}' to share them: "
                f"{source.class_sizes[too_small[0]]}\n    pathological, {source.clients} clients, "
                f"{self.classes} classes for each, balanced={spelling.as_text(self.balanced)}"
                + proposals(clients=works)
            )

    def _too_small(self, source: Source) -> list[int]:
        """The classes that cannot be cut into so many parts."""
        sizes, takers = source.class_sizes, self.takers(source.clients, len(source.classes))
        return [k for k, who in takers.items() if not self._can_cut(source, int(sizes[k]), len(who))]

    def _can_cut(self, source: Source, size: int, takers: int) -> bool:
        low, high = self.bounds(source, size, takers)
        return size >= takers and (self.balanced or takers == 1 or low < high)
