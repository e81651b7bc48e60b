"""A federation: all clients with their data, as lists of rows in arrays that live once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

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
    everyone = dict(zip(division.everyone, clients(dataset, division, scale), strict=True))
    return Federation(
        {name: everyone[name] for name in division.clients},
        {name: everyone[name] for name in division.newcomers},
        len(dataset.classes),
        dataset.shape,
        dataset.name,
    )


def clients(dataset: Dataset, division: Division, scale: Scale) -> Iterator[ClientData]:
    """Everyone of the division with their data; all lists of rows lie in one piece of memory."""
    parts = [getattr(split, part) for split in division.everyone.values() for part in PARTS]
    ends = np.cumsum([len(part) for part in parts]).tolist()
    rows, starts = torch.from_numpy(np.concatenate(parts)), [0, *ends]
    examples = (
        Examples(dataset.inputs, dataset.labels, rows[start:end], len(dataset.classes), scale)
        for start, end in zip(starts, ends, strict=False)
    )
    for name in division.everyone:
        yield ClientData(name, name, next(examples), next(examples), next(examples))
