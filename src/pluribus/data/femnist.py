"""FEMNIST: characters by 3,550 writers, as LEAF's json files or as the images of NIST behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from .domains import listing, near, plain
from .emnist import DIGITS, LOWER, UPPER
from .entry import Arrays, Entry, Look, Tree
from .files import damaged, opened
from .pictures import Pictures, is_image
from .rolls import roll

CLASSES = tuple(DIGITS + UPPER + LOWER)
SIDE = 28
LARGEST = 2 << 30  # no file of LEAF's is larger
CODES = {f"{ord(character):02x}": label for label, character in enumerate(CLASSES)}  # 4a is J
CITATION = """@inproceedings{caldas2018leaf,
  title     = {{LEAF}: A Benchmark for Federated Settings},
  author    = {Caldas, Sebastian and Duddu, Sai Meher Karthik and Wu, Peter and Li, Tian and
               Kone{\\v{c}}n{\\'y}, Jakub and McMahan, H. Brendan and Smith, Virginia and Talwalkar, Ameet},
  booktitle = {NeurIPS Workshop on Federated Learning},
  year      = {2019}
}"""


class UserData(msgspec.Struct):
    """Images of one writer, 784 numbers from 0 to 1 each, and their classes."""

    x: list[list[float]]
    y: list[int]


class Shard(msgspec.Struct):
    """One of LEAF's json files."""

    users: list[str]
    user_data: dict[str, UserData]


# LEAF -------------------------------------------------------------------------------------------------


def find_json(root: Path) -> tuple[Path, ...]:
    """The folders train and test of json files that LEAF's preprocessing leaves behind."""
    for folder in near(root, ("femnist", "leaf")):
        for place in (folder, folder / "data"):
            parts = tuple(place / part for part in ("train", "test"))
            if all(shards(part) for part in parts):
                return parts
    return ()


def shards(folder: Path) -> list[Path]:
    return [path for path in listing(folder) if path.name.endswith((".json", ".json.gz"))]


def read_json(paths: Sequence[Path]) -> Arrays:
    """Rows in the order of writers' names; a writer may be in both parts."""
    parts = [[written for shard in shards(path) for written in writers(shard)] for path in paths]
    ids = {
        name: number for number, name in enumerate(sorted({name for part in parts for name, _, _ in part}))
    }
    rows = [one for part in parts for one in sorted(part, key=lambda one: ids[one[0]])]
    images, labels = (np.concatenate([one[i] for one in rows]) for i in (1, 2))
    by = np.repeat([ids[one[0]] for one in rows], [len(one[2]) for one in rows]).astype(np.int64)
    return Arrays(images, labels.astype(np.int64), sum(len(one[2]) for one in parts[0]), {"writer": by})


def writers(path: Path) -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.int64]]]:
    """Name, images and labels of each writer of one file."""
    with opened(path) as stream:
        content = stream.read(LARGEST)
    try:
        shard = msgspec.json.decode(content, type=Shard)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise damaged(path, "LEAF's users and user_data with x and y", f"another ({error})") from error
    if missing := set(shard.users) - shard.user_data.keys():
        raise damaged(path, "data of every user", f"none of {min(missing)}")
    for name in shard.users:
        if len(shard.user_data[name].y):
            yield name, *pair(shard.user_data[name], f"{path}: user {name}")


def pair(data: UserData, where: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images as bytes, and labels."""
    labels = np.array(data.y, np.int64)
    if {len(x) for x in data.x} != {SIDE * SIDE} or len(data.x) != len(labels):
        raise damaged(
            where, f"{len(labels)} images of {SIDE * SIDE} numbers", f"{len(data.x)} of another length"
        )
    values = np.array(data.x)
    if values.min() < 0 or values.max() > 1 or labels.min() < 0 or labels.max() >= len(CLASSES):
        found = f"{values.min():g} to {values.max():g}, labels {labels.min()} to {labels.max()}"
        raise damaged(where, f"values from 0 to 1 and {len(CLASSES)} classes", found)
    return np.rint(values * 255).astype(np.uint8).reshape(-1, 1, SIDE, SIDE), labels


# NIST -------------------------------------------------------------------------------------------------


def find_images(root: Path) -> tuple[Path, ...]:
    """The folder by_class of NIST's Special Database 19, or its archive."""
    for folder in near(root, ("femnist", "nist", "sd19", "byclass")):
        if plain(folder.name) == "byclass" and any(path.name in CODES for path in listing(folder)):
            return (folder,)
        if (archive := folder / "by_class.zip").is_file():
            return (archive,)
        if any(path.name in CODES for path in listing(folder / "by_class")):
            return (folder / "by_class",)
    return ()


def read_images(paths: Sequence[Path], *, title: str, look: Look) -> Arrays:
    """The images of hsf_0 to hsf_7; hsf_4 is NIST's test set, train_* repeats some and is left out."""
    files = roll(paths[0])
    found = sorted(kind for name in files.names() if is_image(name) and (kind := of(name)))
    rows = {name: row for row, (_, _, name) in enumerate(found)}
    labels = np.array([label for _, label, _ in found], np.int64)
    official = sum(not testing for testing, _, _ in found)
    return Arrays(Pictures(title, [(files, rows)], look, official), labels, official)


def of(name: str) -> tuple[bool, int, str] | None:
    """Whether it is for testing, and its class, by its folders 4a/hsf_4."""
    code, part = ("", "", *name.split("/"))[-3:-1]
    return (part == "hsf_4", CODES[code], name) if code in CODES and part.startswith("hsf_") else None


FEMNIST = Entry(
    name="femnist",
    title="FEMNIST, characters by writer, as LEAF prepares them",
    shape=(1, SIDE, SIDE),
    train=805_263,
    test=0,
    classes=CLASSES,
    licence="public domain (NIST); LEAF BSD-2-Clause",
    homepage="https://leaf.cmu.edu",
    citation=CITATION,
    forms=(Tree(find_json, read_json),),
    wanted="the folders train and test of json files that LEAF's data/femnist/preprocess.sh makes",
    varies=True,  # by how much of it LEAF was asked for
)


def femnist_128(look: Look = Look(128, channels=1)) -> Entry:
    """NIST's images with their own size, or taken so."""
    usual = Look(128, channels=1)
    changed = ",".join(f"{n}={v}" for n, v in vars(look).items() if v != getattr(usual, n))
    name = f"femnist-128:{changed}" if changed else "femnist-128"
    return Entry(
        name=name,
        title="NIST's characters as images, as pFedPM uses them",
        shape=look.shape,
        train=731_668,
        test=82_587,
        classes=CLASSES,
        licence="public domain (NIST)",
        homepage="https://www.nist.gov/srd/nist-special-database-19",
        citation=CITATION,
        forms=(Tree(find_images, partial(read_images, title=name, look=look)),),
        wanted="the folder by_class of NIST's Special Database 19, or by_class.zip",
        varies=True,
        look=look,
        looked=femnist_128,
    )
