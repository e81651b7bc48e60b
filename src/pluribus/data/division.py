"""A division: which rows of a dataset each client has, as a value that can be hashed, saved and loaded."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors
import safetensors.numpy
from torch import Tensor

from .. import spelling
from ..errors import DataDamaged, DataError, DataNotFound, PartitionError, SettingError, UnknownName
from ..seeds import numpy_generator
from .dataset import Dataset
from .partitions import PARTITIONS, Partition, Pool, Rows, Source, Split

PARTS = ("train", "val", "test")
FORMAT = "pluribus division 1"


@dataclass(frozen=True)
class Recipe:
    """What a division was made from."""

    partition: str
    seed: int
    pool: Pool
    test: float | None  # None: the official test set
    val: float
    data: str
    digest: str
    samples: int


@dataclass(frozen=True, eq=False)
class Division:
    """The rows of every client; no row belongs to two.  Newcomers never take part in training."""

    clients: Mapping[str, Split]
    newcomers: Mapping[str, Split]
    recipe: Recipe

    def __post_init__(self) -> None:
        check(self)
        for split in self.everyone.values():
            for part in PARTS:
                getattr(split, part).setflags(write=False)

    @cached_property
    def everyone(self) -> dict[str, Split]:
        """Clients and newcomers, in the order of their names."""
        return dict(sorted({**self.clients, **self.newcomers}.items()))

    @property
    def empty(self) -> list[str]:
        """Those without anything to train on."""
        return [name for name, split in self.everyone.items() if not len(split.train)]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of who has which rows for what; where a division came from does not matter."""
        h = hashlib.sha256(f"{FORMAT}\n".encode())
        for name, split in self.everyone.items():
            role = "newcomer" if name in self.newcomers else "client"
            for part in PARTS:
                rows: Rows = getattr(split, part)
                h.update(f"{role} {name!r} {part} {len(rows)}\n".encode() + rows.astype("<i8").tobytes())
        return h.hexdigest()

    def counts(self, labels: Rows | Tensor, classes: int) -> Rows:
        """How many samples of each class everyone has (everyone x classes)."""
        splits = list(self.everyone.values())
        owners = np.repeat(np.arange(len(splits)), [len(split.rows) for split in splits])
        cells = owners * classes + np.asarray(labels)[np.concatenate([split.rows for split in splits])]
        return np.bincount(cells, minlength=len(splits) * classes).reshape(len(splits), classes)

    def save(self, path: str | Path) -> None:
        """A file from which `load` gives this division back."""
        splits = list(self.everyone.values())
        tensors = {
            "rows": np.concatenate([split.rows for split in splits]),
            "sizes": np.array([[len(getattr(split, part)) for part in PARTS] for split in splits]),
        }
        header = Header(FORMAT, self.hash, list(self.everyone), list(self.newcomers), self.recipe)
        write_beside(Path(path), safetensors.numpy.save(tensors, metadata={"division": sealed(header)}))


def divide(
    dataset: Dataset,
    partition: Partition | str,
    *,
    clients: int | None = None,
    seed: int = 0,
    pool: Pool | None = None,
    test: float = 0.25,
    val: float = 0.0,
    newcomers: int = 0,
) -> Division:
    """The dataset divided between clients.

    Without a number of clients there are as many as groups for a natural partition, and 20 for the others.
    `pool` says which rows take part: official training and test set mixed (usual), or the training set.
    `test` is the portion of each client's rows it is judged by, `val` the portion of the others by which a
    round is chosen.  That many newcomers, drawn from all clients, are held out.
    """
    way = spelling.read(partition, PARTITIONS, "partition") if isinstance(partition, str) else partition
    pool = way.pools[0] if pool is None else pool
    judged = None if pool == "official" else test
    recipe = Recipe(
        spelled(way), int(seed), pool, judged, val, dataset.name, dataset.digest, samples=len(dataset)
    )
    check_settings(recipe, way, clients, test, newcomers)
    splits = way.splits(source(dataset, recipe, clients, test))
    if newcomers >= len(splits):
        raise PartitionError(
            f"{newcomers} newcomers of {len(splits)} clients leave nobody to train\n"
            f"    try newcomers={len(splits) - 1} or fewer"
        )
    return with_newcomers(splits, newcomers, recipe)


def spelled(partition: Any) -> str:
    """The spelling of a partition with all its settings; of one that is in no catalogue, how it prints."""
    name = next((name for name, cls in PARTITIONS.items() if type(partition) is cls), None)
    if name is None:
        return repr(partition)
    values = {field: getattr(partition, field) for field in spelling.fields(type(partition))}
    text = ",".join(f"{field}={spelling.as_text(v)}" for field, v in values.items() if v is not None)
    return f"{name}:{text}" if text else name


def check_settings(
    recipe: Recipe, partition: Partition, clients: int | None, test: float, newcomers: int
) -> None:
    """An error that names the first setting that cannot be used."""
    for name, portion in {"test": test, "val": recipe.val}.items():
        if not 0 <= portion < 1:
            raise SettingError(f"{name} is {portion}; it should be a portion: 0 or more, and below 1")
    for name, number, minimum in (("clients", clients, 1), ("newcomers", newcomers, 0)):
        if number is not None and number < minimum:
            raise SettingError(f"{name} is {number}; it should be {minimum} or more")
    if clients is not None and newcomers >= clients:
        raise PartitionError(
            f"{newcomers} newcomers of {clients} clients leave nobody to train\n"
            f"    try newcomers={clients - 1} or fewer"
        )
    if recipe.pool not in ("mix", "train", "official"):
        raise UnknownName("pool", recipe.pool, ("mix", "train", "official"))
    if recipe.pool not in partition.pools:
        raise PartitionError(
            f"{recipe.partition} cannot divide the pool '{recipe.pool}'\n"
            f"    try pool={', or pool='.join(partition.pools)}"
        )


def source(dataset: Dataset, recipe: Recipe, clients: int | None, test: float) -> Source:
    """What the partition is given."""
    rows = dataset.official if recipe.pool == "train" else len(dataset)
    return Source(
        name=dataset.name,
        labels=dataset.labels.numpy(),
        rows=np.arange(rows),
        official=dataset.official,
        classes=dataset.classes,
        groups={name: group.numpy() for name, group in dataset.groups.items()},
        wanted=clients,
        seed=recipe.seed,
        test=test,
        val=recipe.val,
    )


def with_newcomers(splits: list[Split], newcomers: int, recipe: Recipe) -> Division:
    """The division in which so many of the clients, drawn at random, are held out."""
    drawn = numpy_generator(recipe.seed, "partition", "newcomers").permutation(len(splits))[:newcomers]
    held, named = set(drawn.tolist()), dict(zip(names(len(splits)), splits, strict=True))
    return Division(
        {n: s for i, (n, s) in enumerate(named.items()) if i not in held},
        {n: s for i, (n, s) in enumerate(named.items()) if i in held},
        recipe,
    )


def names(number: int) -> list[str]:
    """c00, c01, ...: as wide as the last one needs, and at least two digits."""
    width = max(2, len(str(number - 1)))
    return [f"c{i:0{width}}" for i in range(number)]


def check(division: Division) -> None:
    """An error if a row does not exist or belongs to two, or a name stands for two."""
    if both := division.clients.keys() & division.newcomers.keys():
        raise PartitionError(f"'{min(both)}' is a client and a newcomer")
    if not division.clients:
        raise PartitionError("a division has no client that trains")
    rows = np.concatenate([split.rows for split in division.everyone.values()])
    samples = division.recipe.samples
    if len(rows) and (rows.min() < 0 or rows.max() >= samples):
        raise PartitionError(
            f"a division has rows from {rows.min()} to {rows.max()}, but there are {samples} samples"
        )
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise PartitionError(f"a division gives row {values[counts > 1][0]} to more than one client or part")


class Header(msgspec.Struct, frozen=True):
    """What a division's file says besides the rows."""

    format: str
    hash: str
    names: list[str]
    newcomers: list[str]
    recipe: Recipe


def sealed(header: Header) -> str:
    """The header as text, behind its own checksum: the hash of a division does not cover its recipe."""
    text = msgspec.json.encode(header)
    return f"{hashlib.sha256(text).hexdigest()} {text.decode()}"


def unsealed(text: str) -> Header:
    """The header, if its checksum is right."""
    header = msgspec.json.decode(text.partition(" ")[2], type=Header)
    if sealed(header) != text:
        raise ValueError("its header was changed")
    return header


def load(path: str | Path) -> Division:
    """The division in this file, if the file is whole."""
    path = Path(path)
    try:
        header, rows, sizes = contents(path)
        division = rebuilt(header, rows, sizes)
    except (safetensors.SafetensorError, msgspec.MsgspecError, PartitionError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise DataDamaged(
            f"{path} is not a whole division: {reason}\n    divide the data again, with the same "
            "settings and seed, and save it anew"
        ) from error
    if division.hash != header.hash:
        raise DataDamaged(
            f"{path} was changed: its rows have the hash {division.hash[:12]}..., it says "
            f"{header.hash[:12]}...\n    divide the data again, with the same settings and seed"
        )
    return division


def contents(path: Path) -> tuple[Header, Rows, Rows]:
    """What the file holds, of the right form."""
    if not path.is_file():
        raise DataNotFound(f"no division at {path}\n    save one there first: divide(...).save(path)")
    with safetensors.safe_open(path, framework="numpy") as file:
        header = unsealed((file.metadata() or {})["division"])
        rows, sizes = file.get_tensor("rows"), file.get_tensor("sizes")
    shapes = rows.ndim == 1 and sizes.shape == (len(header.names), len(PARTS))
    if not (shapes and rows.dtype == sizes.dtype == np.int64):
        raise ValueError("its tensors have the wrong type or shape")
    if header.format != FORMAT:
        raise ValueError(f"it says '{header.format}', not '{FORMAT}'")
    return header, rows, sizes


def rebuilt(header: Header, rows: Rows, sizes: Rows) -> Division:
    """The division with these parts, one after the other."""
    if sizes.min(initial=0) < 0 or sizes.sum() != len(rows) or len(set(header.names)) < len(header.names):
        raise ValueError("its sizes, rows and names do not fit together")
    pieces = np.split(rows, np.cumsum(sizes.ravel()))
    splits = {name: Split(*pieces[3 * i : 3 * i + 3]) for i, name in enumerate(header.names)}
    held = set(header.newcomers)
    if held - splits.keys():
        raise ValueError("it names newcomers it does not have")
    return Division(
        {n: s for n, s in splits.items() if n not in held},
        {n: splits[n] for n in header.newcomers},
        header.recipe,
    )


def write_beside(path: Path, data: bytes) -> None:
    """The file, whole or not at all: written beside, then renamed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise DataError(
            f"cannot write {path}: {error.strerror}\n    choose another place, or make room"
        ) from error
