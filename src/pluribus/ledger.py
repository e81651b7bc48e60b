"""What is known of each client, as a value: a new one shares all that did not change with the old."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .state import Tensors

SHELVES = 1024


@dataclass(frozen=True)
class Held:
    """What a client keeps, since which exchange, the stages it owes, and its last trained model if read."""

    kept: Tensors = field(default_factory=dict)
    since: int = 0
    owes: tuple[int, ...] = ()
    trained: Tensors = field(default_factory=dict)


class Ledger(Mapping[str, Held]):
    """An immutable map. `with_` costs as much as the clients it changes, not as all there are."""

    def __init__(self, shelves: tuple[dict[str, Held], ...] = ({},) * SHELVES, size: int = 0):
        self._shelves, self._size = shelves, size

    def __getitem__(self, client: str) -> Held:
        return self._shelves[shelf(client)][client]

    def __iter__(self) -> Iterator[str]:
        return (client for one in self._shelves for client in one)

    def __len__(self) -> int:
        return self._size

    def of(self, client: str) -> Held:
        """What is held of this client; nothing yet, if it was never heard."""
        return self.get(client, NOTHING)

    def with_(self, changes: Mapping[str, Held]) -> Ledger:
        """The ledger with these entries new."""
        if not changes:
            return self
        shelves = list(self._shelves)
        for number in {shelf(client) for client in changes}:
            shelves[number] = dict(shelves[number])
        added = sum(client not in self for client in changes)
        for client, held in changes.items():
            shelves[shelf(client)][client] = held
        return Ledger(tuple(shelves), self._size + added)


NOTHING = Held()


def shelf(client: str) -> int:
    return zlib.crc32(client.encode()) % SHELVES
