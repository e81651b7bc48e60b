"""CIFAR-100: a batch for training and one for testing, each image with a fine and a coarse label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from . import pickles
from .cifar import PIXELS, SHAPE, content, members
from .entry import Arrays, Delivery, Entry, File, Form, Parcel
from .files import damaged

Level = Literal["fine", "coarse"]
SIZES = (50_000, 10_000)
BINARY, PYTHON = ("train.bin", "test.bin"), ("train", "test")
COARSE = tuple(
    """aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
    household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
    large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
    vehicles_1 vehicles_2""".split()  # noqa: SIM905 - words are read as words
)
FINE = tuple(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
    dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
    leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
    otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
    road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
    sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm""".split()  # noqa: SIM905 - words are read as words
)
Batch = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]  # images, fine labels, coarse labels
Decoder = Callable[[bytes, str, int], Batch]


def read_files(
    paths: Sequence[Path], *, decode: Decoder, level: Level, sizes: Sequence[int] = SIZES
) -> Arrays:
    """Both batches, each in its own file."""
    batches = [decode(content(path), str(path), n) for path, n in zip(paths, sizes, strict=True)]
    return stacked(batches, level)


def read_archive(
    paths: Sequence[Path],
    *,
    names: Sequence[str],
    decode: Decoder,
    level: Level,
    sizes: Sequence[int] = SIZES,
) -> Arrays:
    """The same batches out of the tar in which they are delivered; nothing is unpacked to disk."""
    found = members(paths[0], names)
    if missing := [name for name in names if name not in found]:
        raise damaged(paths[0], f"an archive with {' and '.join(names)}", f"none of the name {missing[0]}")
    where = zip(names, sizes, strict=True)
    return stacked([decode(found[name], f"{paths[0]}: {name}", n) for name, n in where], level)


def stacked(batches: Sequence[Batch], level: Level) -> Arrays:
    """One label is the class, the other a group: the coarse one is called superclass."""
    images, fine, coarse = (np.concatenate(part) for part in zip(*batches, strict=True))
    if level == "fine":
        return Arrays(images, fine, len(batches[0][1]), {"superclass": coarse})
    return Arrays(images, coarse, len(batches[0][1]), {"subclass": fine})


def binary(data: bytes, where: str, records: int) -> Batch:
    """A binary batch: coarse label, fine label, then red, green and blue."""
    wanted = records * (PIXELS + 2)
    if len(data) != wanted:
        raise damaged(where, f"{wanted} bytes ({records} records of {PIXELS + 2})", f"{len(data)}")
    rows = np.frombuffer(data, np.uint8).reshape(records, PIXELS + 2)
    labels = rows[:, :2].astype(np.int64)
    images = rows[:, 2:].reshape(records, *SHAPE)
    return images, classed(labels[:, 1], FINE, where), classed(labels[:, 0], COARSE, where)


def python(data: bytes, where: str, records: int) -> Batch:
    """A python batch: a dictionary with an array and two lists."""
    batch = pickles.loads(data, where)
    held = batch if isinstance(batch, dict) else {}
    images = held.get(b"data")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (records, PIXELS):
        form = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise damaged(where, f"'data' to be {records} rows of {PIXELS} bytes", form)
    fine, coarse = (listed(held.get(key), where, key, records) for key in (b"fine_labels", b"coarse_labels"))
    return images.reshape(records, *SHAPE), classed(fine, FINE, where), classed(coarse, COARSE, where)


def listed(labels: object, where: str, key: bytes, records: int) -> NDArray[np.int64]:
    if not isinstance(labels, list) or len(labels) != records or not all(type(y) is int for y in labels):
        form = f"{len(labels)} entries" if isinstance(labels, list) else type(labels).__name__
        raise damaged(where, f"'{key.decode()}' to be a list of {records} whole numbers", form)
    return np.array(labels, np.int64)


def classed(labels: NDArray[np.int64], classes: Sequence[str], where: str) -> NDArray[np.int64]:
    """The labels, if each is a class."""
    wrong = (labels < 0) | (labels >= len(classes))
    if wrong.any():
        row = int(wrong.argmax())
        raise damaged(where, f"labels from 0 to {len(classes) - 1}", f"label {labels[row]} in record {row}")
    return labels


BINARY_TAR = Parcel(
    "cifar-100-binary.tar.gz",
    168_513_733,
    "03b5dce01913d631647c71ecec9e9cb8",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
)
PYTHON_TAR = Parcel(
    "cifar-100-python.tar.gz",
    169_001_437,
    "eb9058c3a382ffc7106e4002c42a8d85",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
)
PYTHON_MD5S = ("16019d7e3df5f24257cddd939b257f8d", "f0ef6b0ae62326f3e7ffdfab6717acfc")


def forms(level: Level) -> tuple[Form, ...]:
    """Loose or packed, binary or python."""
    return (
        Form(
            tuple(map(File, PYTHON, PYTHON_MD5S)),
            ("cifar-100-python",),
            partial(read_files, decode=python, level=level),
        ),
        Form(
            tuple(File(name, "") for name in BINARY),
            ("cifar-100-binary",),
            partial(read_files, decode=binary, level=level),
        ),
        Form(
            (File(PYTHON_TAR.name, PYTHON_TAR.md5, archive=True),),
            (".",),
            partial(read_archive, names=PYTHON, decode=python, level=level),
        ),
        Form(
            (File(BINARY_TAR.name, BINARY_TAR.md5, archive=True),),
            (".",),
            partial(read_archive, names=BINARY, decode=binary, level=level),
        ),
    )


def entry(name: str, level: Level) -> Entry:
    """CIFAR-100 with one of its labels as the class."""
    classes = FINE if level == "fine" else COARSE
    return Entry(
        name=name,
        title=f"CIFAR-100 tiny colour photographs, {len(classes)} classes",
        shape=SHAPE,
        train=SIZES[0],
        test=SIZES[1],
        classes=classes,
        licence="none stated; the authors ask to be cited",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        citation="""@techreport{krizhevsky2009learning,
  title       = {Learning Multiple Layers of Features from Tiny Images},
  author      = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year        = {2009}
}""",
        forms=forms(level),
        deliveries=(Delivery(".", (PYTHON_TAR,)), Delivery(".", (BINARY_TAR,))),
    )


CIFAR100 = entry("cifar100", "fine")
CIFAR100_COARSE = entry("cifar100-coarse", "coarse")
