"""nway-kshot: each client has about n classes, and about k training samples of each.

Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022; the
numbers of classes and samples vary by s, which their code uses as the half-width of a uniform integer.

    client i   n_i ~ U{max(2, n - s) .. min(n_c - 1, n + s)},   k_i ~ U{k - s + 1 .. k + s}
               n_i distinct classes, uniformly
               train   of each, rows [i·reserve, i·reserve + k_i) of the official training set
               test    of each, rows [i·m, i·m + m) of the official test set

so no two clients share a row.  With s = 0 every client has k samples of n classes.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from ...errors import PartitionError, SettingError
from .partition import Pool, Rows, Source, Split, at_least, cut, largest, proposals


@dataclass(frozen=True)
class NWayKShot:
    """Each client has about n classes, about k training samples of each, and m test samples of each."""

    n: int = 3
    k: int = 100
    s: int = 2
    m: int = 40
    reserve: int = 110
    pools: ClassVar[tuple[Pool, ...]] = ("official",)

    def __post_init__(self) -> None:
        for setting, minimum in {"n": 2, "k": 1, "s": 0, "m": 1}.items():
            at_least(f"nway-kshot: {setting}", getattr(self, setting), minimum)
        if self.s > self.k:
            raise SettingError(
                f"nway-kshot: s is {self.s}, more than k={self.k}; it should be {self.k} or less"
            )
        if self.k + self.s > self.reserve:
            raise SettingError(
                f"nway-kshot: reserve is {self.reserve}, but a client may draw k + s = "
                f"{self.k + self.s} samples of a class; it should be that or more"
            )

    def splits(self, source: Source) -> list[Split]:
        self._check(source)
        train, test = official(source)
        return [self._client(source, i, train, test) for i in range(source.clients)]

    def _client(self, source: Source, i: int, train: list[Rows], test: list[Rows]) -> Split:
        classes, number = self.drawn(source, i)
        training = np.concatenate([train[c][i * self.reserve :][:number] for c in classes])
        share = cut(training, source.rng("split", i), num_test=0, val=source.val)
        return Split(
            share.train,
            share.val,
            np.sort(np.concatenate([test[c][i * self.m :][: self.m] for c in classes])),
        )

    def drawn(self, source: Source, i: int) -> tuple[Rows, int]:
        """The classes of client i, and how many training samples it has of each."""
        rng, (fewest, most) = source.rng("nway-kshot", i), self.ways(source)
        num_classes = rng.integers(fewest, most + 1)
        number = rng.integers(self.k - max(self.s - 1, 0), self.k + self.s + 1)
        return np.sort(rng.permutation(len(source.classes))[:num_classes]), int(number)

    def ways(self, source: Source) -> tuple[int, int]:
        """The fewest and the most classes a client may have."""
        fewest, most = max(2, self.n - self.s), min(len(source.classes) - 1, self.n + self.s)
        if fewest > most:
            raise PartitionError(
                f"{self.n} classes for each client, but {source.name} has {len(source.classes)} and no "
                f"client gets all of them" + proposals(n=most if most >= 2 else None)
            )
        return fewest, most

    def _check(self, source: Source) -> None:
        """An error if some client does not find its samples, with settings under which all do."""
        if source.official in (0, len(source.labels)):
            raise PartitionError(
                f"nway-kshot needs an official training set and a test set; {source.name} has one set\n"
                "    try iid, dirichlet or pathological, which make their own"
            )
        if missing := self.missing(source):
            clients = largest(lambda k: not self.missing(replace(source, wanted=k)), source.clients)
            m = largest(lambda m: not replace(self, m=m).missing(source), self.m)
            fits = not replace(self, reserve=self.k + self.s).missing(source)
            raise PartitionError(
                f"{missing}\n    nway-kshot, n={self.n}, k={self.k}, s={self.s}, m={self.m}, "
                f"reserve={self.reserve}, {source.clients} clients"
                + (
                    proposals(clients=clients, m=m, reserve=self.k + self.s if fits else None)
                    or "\n    try smaller k, m and reserve, all of them, or a larger dataset"
                )
            )

    def missing(self, source: Source) -> str:
        """Which samples the first client that goes short does not find; empty if none does."""
        train, test = (
            np.bincount(labels, minlength=len(source.classes))
            for labels in (source.labels[: source.official], source.labels[source.official :])
        )
        for i in range(source.clients):
            classes, number = self.drawn(source, i)
            blocks = [("training", i * self.reserve, number, train), ("test", i * self.m, self.m, test)]
            for k, (name, first, needed, sizes) in product(classes, blocks):
                if sizes[k] < first + needed:
                    return (
                        f"client {i} needs {needed} {name} samples of class '{source.classes[k]}' after the "
                        f"first {first}, but {source.name} has {sizes[k]}"
                    )
        return ""


def official(source: Source) -> tuple[list[Rows], list[Rows]]:
    """The rows of each class in the official training set and in the official test set, in file order."""
    rows = np.arange(len(source.labels))
    by_class = [rows[source.labels == k] for k in range(len(source.classes))]
    return [r[r < source.official] for r in by_class], [r[r >= source.official] for r in by_class]
