"""What the catalogue knows of a dataset: what it is, in which forms users have it, and who delivers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import SettingError, UnknownName
from ..examples import Scale


@dataclass(frozen=True)
class Look:
    """How image files become arrays. `once` crops and flips each training image at random, for good."""

    size: int
    channels: int = 3
    crop: Literal["none", "once"] = "none"
    broken: Literal["refuse", "skip"] = "refuse"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 4096:
            raise SettingError(f"size is {self.size}; it should be a number of pixels from 1 to 4096")
        if self.channels not in (1, 3):
            raise SettingError(f"channels is {self.channels}; it should be 1 (grey) or 3 (colour)")
        for name, known in {"crop": ("none", "once"), "broken": ("refuse", "skip")}.items():
            if getattr(self, name) not in known:
                raise UnknownName(name, getattr(self, name), known)

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.channels, self.size, self.size)


@dataclass(frozen=True)
class Developed:
    """Images as they were decoded; `rows` are those that could be, if some were skipped."""

    inputs: NDArray[np.uint8]
    statistics: Scale
    rows: NDArray[np.int64] | None = None


class Undeveloped(Protocol):
    """Images that are still in their files. There may be more of them than fit into memory."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def developed(self, room: Path | None) -> Developed:
        """The images, in `inputs.npy` in this folder; in memory, if there is none."""


@dataclass(frozen=True)
class Arrays:
    """What a reader makes of the files; the first `official` rows are the official training set."""

    inputs: NDArray[np.uint8] | Undeveloped
    labels: NDArray[np.int64]
    official: int
    groups: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


Reader = Callable[[Sequence[Path]], Arrays]


@dataclass(frozen=True)
class File:
    """One of a dataset's files. The checksum is of what is inside, if the file may be gzipped.

    It is empty where none was ever published: then only the form of the file is checked.
    """

    name: str
    md5: str
    also: tuple[str, ...] = ()
    archive: bool = False  # read as it is: its compression belongs to the format

    @property
    def names(self) -> tuple[str, ...]:
        """The names it goes by."""
        plain = (self.name, *self.also)
        return plain if self.archive else (*plain, *(f"{name}.gz" for name in plain))


@dataclass(frozen=True)
class Form:
    """A set of files that holds the whole dataset, the folders it may lie in, and who reads it."""

    files: tuple[File, ...]
    folders: tuple[str, ...]
    read: Reader
    package: str = ""  # the folders are inside this installed package


@dataclass(frozen=True)
class Tree:
    """Many files that are told by their names: `find` gives the folders and archives that hold them all."""

    find: Callable[[Path], tuple[Path, ...]]  # under this root; empty if the whole is not there
    read: Reader


@dataclass(frozen=True)
class Union:
    """Several datasets as one; those that are optional are left out where they are not."""

    parts: tuple[Entry, ...]
    join: Callable[[Mapping[str, Arrays]], Arrays]  # by the names of the parts
    optional: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[Entry, ...]:
        """The parts without which it is nothing."""
        return tuple(part for part in self.parts if part.name not in self.optional)


@dataclass(frozen=True)
class Parcel:
    """One file as its sources send it."""

    name: str
    size: int
    md5: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Delivery:
    """Parcels that together bring the dataset, and the folder in which a reader expects them."""

    folder: str
    parcels: tuple[Parcel, ...]

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(parcel.size for parcel in self.parcels)


@dataclass(frozen=True)
class Entry:
    """One dataset. The first delivery is tried first, the others if it fails."""

    name: str
    title: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: tuple[str, ...]
    licence: str
    homepage: str
    citation: str
    forms: tuple[Form | Tree | Union, ...]
    deliveries: tuple[Delivery, ...] = ()
    wanted: str = ""  # what to put into a folder, where nobody delivers it
    varies: bool = False  # copies differ in how many images they have: train and test are the whole's
    by_domain: int | None = None  # images that train in each domain in the papers, which test on a fifth
    look: Look | None = None  # how its image files are taken
    looked: Callable[[Look], Entry] | None = None  # the same dataset, taken otherwise

    @property
    def size(self) -> int:
        """Bytes to download; 0 if nobody delivers it."""
        own = self.deliveries[0].size if self.deliveries else 0
        unions = (form for form in self.forms if isinstance(form, Union))
        return own + sum(part.size for union in unions for part in union.needed)

    @property
    def plain(self) -> str:
        """The name without how it is taken."""
        return self.name.partition(":")[0]
