"""iid: everybody gets the same number of samples, drawn from everything."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .partition import Pool, Source, Split


@dataclass(frozen=True)
class Iid:
    """A random permutation cut into equal parts; sizes differ by one where they must."""

    pools: ClassVar[tuple[Pool, ...]] = ("mix", "train")

    def splits(self, source: Source) -> list[Split]:
        return source.split(np.array_split(source.rng("iid").permutation(source.rows), source.clients))
