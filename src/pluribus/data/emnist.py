"""EMNIST: letters and digits in six divisions, as idx files whose images lie on their side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from . import idx
from .entry import Arrays, Delivery, Entry, File, Form, Parcel
from .files import damaged
from .rolls import Zip

DIGITS, UPPER, LOWER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
UNLIKE = "abdefghnqrt"  # small letters that do not look like their capitals
CLASSES = {
    "balanced": DIGITS + UPPER + UNLIKE,
    "byclass": DIGITS + UPPER + LOWER,
    "bymerge": DIGITS + UPPER + UNLIKE,
    "digits": DIGITS,
    "letters": UPPER,
    "mnist": DIGITS,
}
SIZES = {
    "balanced": (112_800, 18_800),
    "byclass": (697_932, 116_323),
    "bymerge": (697_932, 116_323),
    "digits": (240_000, 40_000),
    "letters": (124_800, 20_800),
    "mnist": (60_000, 10_000),
}
FIRST = {"letters": 1}  # its labels count from one
NAMES = ("train-images-idx3", "train-labels-idx1", "test-images-idx3", "test-labels-idx1")
ARCHIVE = Parcel(
    "gzip.zip",
    561_753_746,
    "58c8d27c78d21e728a6bc7b3cc06412e",
    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
)


def read(paths: Sequence[Path], *, split: str) -> Arrays:
    """Training and test images, set upright."""
    return upright(paths, split)


def read_archive(paths: Sequence[Path], *, split: str) -> Arrays:
    """The same out of the archive in which NIST delivers all divisions."""
    archive = Zip(paths[0])
    members = {name.rpartition("/")[2]: name for name in archive.names()}
    names = [f"emnist-{split}-{name}-ubyte.gz" for name in NAMES]
    if missing := [name for name in names if name not in members]:
        raise damaged(paths[0], "NIST's archive of EMNIST", f"one without {', '.join(missing)}")
    return upright([(f"{paths[0]}: {name}", archive.content(members[name])) for name in names], split)


def upright(sources: Sequence[idx.Source], split: str) -> Arrays:
    """The images turned as they are read, the labels counted from zero."""
    classes, first = len(CLASSES[split]), FIRST.get(split, 0)
    train, test = (idx.pair(sources[i], sources[i + 1], classes, first) for i in (0, 2))
    images = np.concatenate([train[0], test[0]]).transpose(0, 2, 1)[:, None]
    return Arrays(np.ascontiguousarray(images), np.concatenate([train[1], test[1]]), len(train[1]))


def entry(split: str) -> Entry:
    """EMNIST in this division."""
    train, test = SIZES[split]
    names = [f"emnist-{split}-{name}-ubyte" for name in NAMES]
    return Entry(
        name=f"emnist-{split}",
        title=f"EMNIST handwritten {'digits' if CLASSES[split] == DIGITS else 'characters'}, {split}",
        shape=(1, 28, 28),
        train=train,
        test=test,
        classes=tuple(CLASSES[split]),
        licence="public domain (NIST)",
        homepage="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        citation="""@inproceedings{cohen2017emnist,
  title     = {{EMNIST}: Extending {MNIST} to handwritten letters},
  author    = {Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and van Schaik, Andr{\\'e}},
  booktitle = {IJCNN},
  year      = {2017}
}""",
        forms=(
            Form(tuple(File(name, "") for name in names), ("EMNIST/raw", "gzip"), partial(read, split=split)),
            Form(
                (File(ARCHIVE.name, ARCHIVE.md5, archive=True),),
                ("EMNIST/raw", "EMNIST"),
                partial(read_archive, split=split),
            ),
        ),
        deliveries=(Delivery("EMNIST/raw", (ARCHIVE,)),),
    )


EMNIST = {f"emnist-{split}": entry(split) for split in CLASSES}
