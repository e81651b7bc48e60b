"""MNIST by writer: whose hand each image is by, from the labels of QMNIST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataDamaged
from .entry import Arrays, Delivery, Entry, File, Form, Parcel, Union
from .files import damaged, described, opened
from .idx import MNIST

MAGIC = 0x0C02  # whole numbers of 32 bits in two dimensions
COLUMNS = 8  # class, part of NIST, writer, index in the part, and four more
SOURCE = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
NAMES = ("qmnist-train-labels-idx2-int", "qmnist-test-labels-idx2-int")


def read(paths: Sequence[Path], *, train: int = 60_000, test: int = 10_000) -> Arrays:
    """Class and writer of each image of MNIST; the images themselves are elsewhere."""
    rows = np.concatenate([table(paths[0], train), table(paths[1], test)])
    return Arrays(np.zeros((len(rows), 1, 1, 1), np.uint8), rows[:, 0], train, {"writer": rows[:, 2]})


def table(path: Path, least: int) -> NDArray[np.int64]:
    """The first rows of a label file: QMNIST goes on where MNIST's test set ends."""
    with opened(path) as stream:
        header = stream.read(12)
        magic, rows, columns = np.frombuffer(header.ljust(12, b"\0"), ">i4").tolist()
        if magic != MAGIC or columns != COLUMNS or rows < least:
            found = f"{rows} x {columns}" if magic == MAGIC else described(header)
            raise damaged(path, f"at least {least} rows of {COLUMNS} whole numbers (magic {MAGIC})", found)
        content = stream.read(4 * least * COLUMNS)
    if len(content) < 4 * least * COLUMNS:
        raise damaged(path, f"{4 * least * COLUMNS} bytes after the header", f"{len(content)}: it is cut off")
    return np.frombuffer(content, ">i4").reshape(least, COLUMNS).astype(np.int64)


def join(parts: Mapping[str, Arrays]) -> Arrays:
    """The images of MNIST with their writers."""
    images, writers = parts["mnist"], parts["qmnist-labels"]
    if len(images.labels) != len(writers.labels) or (images.labels != writers.labels).any():
        raise DataDamaged(
            "QMNIST's label files do not belong to these images of MNIST: their classes differ\n"
            "    put the originals of both in their place"
        )
    return replace(images, groups=writers.groups)


LABELS = Entry(
    name="qmnist-labels",
    title="The labels of QMNIST",
    shape=(1, 1, 1),
    train=60_000,
    test=10_000,
    classes=MNIST.classes,
    licence="BSD-3-Clause",
    homepage="https://github.com/facebookresearch/qmnist",
    citation="""@inproceedings{yadav2019cold,
  title     = {Cold Case: The Lost {MNIST} Digits},
  author    = {Yadav, Chhavi and Bottou, L{\\'e}on},
  booktitle = {NeurIPS},
  year      = {2019}
}""",
    forms=(
        Form(
            (
                File(NAMES[0], "1d43300e7f41ddcbf7fd006cbe865af9"),
                File(NAMES[1], "5e00709fb0090091f3afc51d204ad83c"),
            ),
            ("QMNIST/raw", "QMNIST", "qmnist_writer_labels"),
            read,
        ),
    ),
    deliveries=(
        Delivery(
            "QMNIST/raw",
            (
                Parcel(
                    f"{NAMES[0]}.gz",
                    463_024,
                    "0058f8dd561b90ffdd0f734c6a30e5e4",
                    (f"{SOURCE}/{NAMES[0]}.gz",),
                ),
                Parcel(
                    f"{NAMES[1]}.gz",
                    526_800,
                    "5b5b05890a5e13444e108efe57b788aa",
                    (f"{SOURCE}/{NAMES[1]}.gz",),
                ),
            ),
        ),
    ),
)

MNIST_WRITERS = replace(
    MNIST,
    name="mnist-writers",
    title="MNIST by writer, who is told by QMNIST",
    licence="CC BY-SA 3.0; the writers BSD-3-Clause",
    homepage=LABELS.homepage,
    citation=LABELS.citation,
    forms=(Union((MNIST, LABELS), join),),
    deliveries=(),
)
