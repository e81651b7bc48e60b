"""A federation: all clients with their data, as lists of rows in arrays that live once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import PartitionError
from ..examples import Examples, Scale
from .dataset import Dataset
from .division import PARTS, Division


@dataclass(frozen=True, eq=False)
class ClientData:
    """One client's data. `key` names its randomness and stays when the client is renamed."""

    id: str
    key: str
    train: Examples = field(repr=False)
    val: Examples = field(repr=False)
    test: Examples = field(repr=False)


class Clients(Mapping[str, ClientData]):
    """Clients by name, each made when it is first asked for; only what they are made of goes to a worker."""

    def __init__(self, examples: Examples, ends: Sequence[int], names: Mapping[str, int]):
        self.examples = examples  # of all, client by client and part by part
        self.ends = ends  # of each part of each client
        self.names = names  # and which of them it is
        self.made: dict[str, ClientData] = {}

    def __getitem__(self, client_id: str) -> ClientData:
        if client_id not in self.made:
            self.made[client_id] = self.make(client_id)
        return self.made[client_id]

    def __contains__(self, client_id: object) -> bool:
        return client_id in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"made": {}}

    def make(self, client_id: str) -> ClientData:
        first = len(PARTS) * self.names[client_id]
        bounds = self.ends[first : first + len(PARTS) + 1]
        parts = (
            replace(self.examples, index=self.examples.index[start:end]) for start, end in pairwise(bounds)
        )
        return ClientData(client_id, client_id, *parts)


@dataclass(frozen=True, eq=False)
class Federation(Mapping[str, ClientData]):
    """The clients that train, by name and in order; newcomers stand beside them."""

    clients: Mapping[str, ClientData] = field(repr=False)
    newcomers: Mapping[str, ClientData] = field(repr=False)
    classes: int
    shape: tuple[int, ...]
    name: str

    def __getitem__(self, client_id: str) -> ClientData:
        return self.clients[client_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)


def federate(dataset: Dataset, division: Division, scale: Scale) -> Federation:
    """The division applied to its dataset. Nothing is copied but the lists of rows."""
    recipe = division.recipe
    if recipe.digest != dataset.digest:
        raise PartitionError(
            f"this division was made for {recipe.data} ({recipe.digest[:12]}...), "
            f"not for {dataset.name} ({dataset.digest[:12]}...)\n"
            "    use the dataset it was made for, or divide this one"
        )
    rows, ends = rows_of(division)
    everybody = Examples(dataset.inputs, dataset.labels, rows, len(dataset.classes), scale)
    places = {name: place for place, name in enumerate(division.everyone)}
    return Federation(
        Clients(everybody, ends, {name: places[name] for name in division.clients}),
        Clients(everybody, ends, {name: places[name] for name in division.newcomers}),
        len(dataset.classes),
        dataset.shape,
        dataset.name,
    )


def rows_of(division: Division) -> tuple[Tensor, list[int]]:
    """Everyone's rows in one piece of memory, part by part, and where each part ends; the first at 0."""
    parts = [getattr(split, part) for split in division.everyone.values() for part in PARTS]
    ends = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    return torch.from_numpy(np.concatenate(parts)), ends
