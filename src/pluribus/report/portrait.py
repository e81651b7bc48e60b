"""A partition of a dataset, drawn: a picture in a file, and the same in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import data
from ..data import picture
from ..data.division import Division
from ..settings import Settings
from ..study import divided_by

BLOCKS = " ░▒▓█"
WIDTH = 100  # clients that are shown in text


@dataclass(frozen=True)
class Portrait:
    """Who has what: a matrix of counts (everyone x classes), and where it is drawn."""

    division: Division
    classes: tuple[str, ...]
    counts: NDArray[np.int64]
    path: Path

    @property
    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        recipe = self.division.recipe
        return {
            "partition": recipe.partition,
            "data": recipe.data,
            "seed": recipe.seed,
            "hash": self.division.hash,
            "newcomers": list(self.division.newcomers),
            "classes": list(self.classes),
            "picture": str(self.path),
            "counts": dict(zip(self.division.everyone, self.counts.tolist(), strict=True)),
        }


def portrait(
    partition: str, dataset: str, *, path: Path | None = None, data_dir: Path | None = None, **how: Any
) -> Portrait:
    """The dataset divided as a run with these settings would, drawn at the path."""
    found = data.load(dataset, data_dir)
    division = divided_by(Settings(data=dataset, partition=partition, **how).resolved(), found)
    path = path or Path(f"{division.recipe.partition.replace(':', '-').replace(',', '-')}-{found.name}.svg")
    counts = picture.draw(division, found.labels, found.classes, path)
    return Portrait(division, found.classes, counts, path)


def as_text(portrait: Portrait) -> str:
    """A line for each class, a column for each client; the darker, the more samples."""
    names = list(portrait.division.everyone)
    shown = portrait.counts[:WIDTH]
    width = max(map(len, portrait.classes))
    lines = [
        f"{name:>{width}} {' '.join(shades(shown[:, k], shown.max()))}"
        for k, name in reversed(list(enumerate(portrait.classes)))
    ]
    held = [" " if name not in portrait.division.newcomers else "n" for name in names[:WIDTH]]
    below = [f"{'':>{width}} {' '.join(held)}  n: newcomer"] if portrait.division.newcomers else []
    return "\n".join([*lines, *below, "", summary(portrait.counts, names)])


def shades(counts: NDArray[np.int64], most: int) -> list[str]:
    """A block for each count, by the square root of its part of the largest: what is small stays visible."""
    steps = np.ceil(np.sqrt(counts / max(1, most)) * (len(BLOCKS) - 1)).astype(int)
    return [BLOCKS[step] for step in steps]


def summary(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    sizes, classes = counts.sum(axis=1), (counts > 0).sum(axis=1)
    shown = f"; the first {WIDTH} are shown" if len(names) > WIDTH else ""
    return (
        f"{len(names)} clients{shown}\n"
        f"samples of a client: {sizes.min():,} to {sizes.max():,}, median {int(np.median(sizes)):,}\n"
        f"classes of a client: {classes.min()} to {classes.max()}, median {np.median(classes):g}"
    )
