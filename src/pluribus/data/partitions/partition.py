"""What a partition is, what it is given, and what it gives: one `Split` for each client.

A partition is a frozen dataclass; its fields are its own settings.  It draws from `source.rng` only.
Most partitions are a matrix, how many samples of each class each client gets: `source.dealt` does the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import PartitionError, SettingError
from ...seeds import numpy_generator

Rows = NDArray[np.int64]
Pool = Literal["mix", "train", "official"]
CLIENTS = 20  # where nobody says how many: the number most of the papers use


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one client: to train on, to choose a round by, and to be judged by."""

    train: Rows
    val: Rows
    test: Rows

    @property
    def rows(self) -> Rows:
        return np.concatenate([self.train, self.val, self.test])


@dataclass(frozen=True, eq=False)
class Source:
    """What a partition divides: the labels of a dataset, and the rows of it that take part."""

    name: str
    labels: Rows
    rows: Rows
    official: int
    classes: tuple[str, ...]
    groups: Mapping[str, Rows]
    wanted: int | None
    seed: int
    test: float
    val: float

    @property
    def clients(self) -> int:
        """How many clients there are to be; never more than there are samples."""
        clients = CLIENTS if self.wanted is None else self.wanted
        if clients > len(self.rows):
            raise PartitionError(
                f"{clients} clients, but {self.name} has {len(self.rows)} samples to divide\n"
                f"    try clients={len(self.rows)} or fewer"
            )
        return clients

    @cached_property
    def class_sizes(self) -> Rows:
        """How many of the rows belong to each class."""
        return np.bincount(self.labels[self.rows], minlength=len(self.classes))

    def rng(self, *purpose: object) -> np.random.Generator:
        return numpy_generator(self.seed, "partition", *purpose)

    def dealt(self, counts: Rows) -> list[Split]:
        """A split for each client, from how many samples (clients x classes) it gets of each class."""
        owners, rows = zip(*(self._dealt_class(k, counts[:, k]) for k in range(counts.shape[1])), strict=True)
        by_owner = np.argsort(np.concatenate(owners), kind="stable")
        ends = np.cumsum(counts.sum(axis=1))
        return self.split(np.split(np.concatenate(rows)[by_owner], ends)[:-1])

    def _dealt_class(self, k: int, counts: Rows) -> tuple[Rows, Rows]:
        """Owner and row of every sample of class k that is given away, in random order."""
        rows = self.rng("class", k).permutation(self.rows[self.labels[self.rows] == k])
        return np.repeat(np.arange(len(counts)), counts), rows[: counts.sum()]

    def split(self, shares: Sequence[Rows]) -> list[Split]:
        """Each client's share, split at random without regard to classes: floor((1 - test) n) train."""
        return [
            cut(
                share,
                self.rng("split", i),
                num_test=len(share) - portion(1 - self.test, len(share)),
                val=self.val,
            )
            for i, share in enumerate(shares)
        ]


class Partition(Protocol):
    """A way to divide a dataset. `pools` says which rows it can divide; the first is its usual one."""

    pools: ClassVar[tuple[Pool, ...]]

    def splits(self, source: Source) -> list[Split]: ...


def cut(
    share: Rows, rng: np.random.Generator, *, num_test: int, val: float, limit: int | None = None
) -> Split:
    """The share in random order, cut into train, val (that portion of what is not test) and test."""
    order = rng.permutation(share)
    training, test = order[: len(order) - num_test], order[len(order) - num_test :]
    end = len(training) - portion(val, len(training))
    return Split(np.sort(training[:end][:limit]), np.sort(training[end:]), np.sort(test))


def portion(fraction: float, number: int) -> int:
    """floor(fraction · number), undisturbed by what 1 - 0.9 is in binary."""
    return floor(round(fraction * number, 9))


def at_least(setting: str, value: int, minimum: int) -> None:
    """An error that names the setting where its value is too small."""
    if value < minimum:
        raise SettingError(f"{setting} is {value}; it should be {minimum} or more")


def positive(setting: str, value: float) -> None:
    """An error that names the setting where its value is zero, negative, infinite or no number."""
    if not 0 < value < float("inf"):
        raise SettingError(f"{setting} is {value}; it should be a number above 0")


def largest(works: Callable[[int], bool], below: int) -> int | None:
    """A number from 1 to below - 1 that works, the largest if all smaller ones work; None if 1 does not."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low or None


def proposals(**settings: object) -> str:
    """The last line of an error: `try alpha=0.5, or clients=12`; settings without a value are left out."""
    known = [f"{name}={value}" for name, value in settings.items() if value is not None]
    return "\n    try " + ", or ".join(known) if known else ""
