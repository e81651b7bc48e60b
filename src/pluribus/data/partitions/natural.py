"""natural: one client for each group the data came in, for instance each writer.

Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018.  Asked for fewer clients than there
are groups, it takes that many at random.  Each client's rows are shuffled; floor(test · n) are its test
set, and of the others the first `limit` train.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...errors import PartitionError
from .partition import Pool, Rows, Source, Split, at_least, cut, portion


@dataclass(frozen=True)
class Natural:
    """Each client is a group of the dataset, such as a writer; a limit bounds what it trains on."""

    by: str = "writer"
    limit: int | None = None
    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def __post_init__(self) -> None:
        if self.limit is not None:
            at_least("natural: limit", self.limit, 1)

    def splits(self, source: Source) -> list[Split]:
        return by_group(source, self.by, self.limit)


def by_group(source: Source, by: str, limit: int | None) -> list[Split]:
    """A split for each group of this name, in the order of the groups."""
    if by not in source.groups:
        raise PartitionError(
            f"{source.name} has no groups named '{by}'; it has: {', '.join(source.groups) or 'none'}\n"
            "    try iid, dirichlet or pathological, which need none"
        )
    groups = source.groups[by][source.rows]
    return [
        cut(
            source.rows[groups == group],
            source.rng("split", int(group)),
            val=source.val,
            limit=limit,
            num_test=portion(source.test, int((groups == group).sum())),
        )
        for group in chosen(source, groups, by)
    ]


def chosen(source: Source, groups: Rows, by: str) -> Rows:
    """The groups that become clients, in order: all of them, or as many as were asked for."""
    values = np.unique(groups)
    if source.wanted is None:
        return values
    if source.wanted > len(values):
        raise PartitionError(
            f"{source.wanted} clients, but {source.name} has {len(values)} groups named '{by}'\n"
            f"    try clients={len(values)} or fewer, or leave the number of clients out"
        )
    return np.sort(source.rng("natural").permutation(values)[: source.wanted])
