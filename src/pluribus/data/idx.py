"""The idx files of MNIST and Fashion-MNIST: a magic number, the dimensions, then bytes."""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase, BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataDamaged
from .entry import Arrays, Delivery, Entry, File, Form, Parcel
from .files import REMEDY, damaged, described, opened

LARGEST = 1 << 30  # no file of this format is larger; a header that claims more is not believed
Source = Path | tuple[str, bytes]  # a file; or the name and the content of one that is in an archive
KINDS = {2049: "labels", 2051: "images"}
NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read(paths: Sequence[Path], *, classes: int) -> Arrays:
    """Training images and labels, then test images and labels, as one."""
    train_images, train_labels, test_images, test_labels = paths
    x, y = pair(train_images, train_labels, classes)
    test_x, test_y = pair(test_images, test_labels, classes)
    if x.shape[1:] != test_x.shape[1:]:
        raise damaged(
            test_images, f"images of {size(x)} as in {train_images.name}", f"images of {size(test_x)}"
        )
    return Arrays(np.concatenate([x, test_x])[:, None], np.concatenate([y, test_y]), len(y))


def pair(
    images: Source, labels: Source, classes: int, first: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and as many labels, each of a known class; the labels in the file count from `first`."""
    x, y = array(images, 2051), array(labels, 2049).astype(np.int64) - first
    if len(x) != len(y):
        raise DataDamaged(
            f"{name_of(images)} has {len(x)} images, but {name_of(labels)} has {len(y)} labels\n    {REMEDY}"
        )
    if wrong := np.flatnonzero((y < 0) | (y >= classes)).tolist():
        found = f"label {y[wrong[0]] + first} at row {wrong[0]}"
        raise damaged(name_of(labels), f"labels from {first} to {first + classes - 1}", found)
    return x, y


def array(source: Source, magic: int) -> NDArray[np.uint8]:
    """The bytes of one idx file in their shape."""
    with content_of(source) as stream:
        where = name_of(source)
        shape = dimensions(where, stream.read(4 * (magic % 256 + 1)), magic)
        needed = math.prod(shape)
        content = stream.read(needed + 1)
    if len(content) != needed:
        found = "more" if len(content) > needed else f"{len(content)}: it is cut off"
        raise damaged(
            where, f"{needed} bytes after the header, for {'x'.join(map(str, shape))} {KINDS[magic]}", found
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


@contextmanager
def content_of(source: Source) -> Iterator[BufferedIOBase]:
    """The file, unpacked on the way."""
    if isinstance(source, Path):
        with opened(source) as stream:
            yield stream
        return
    try:
        with gzip.open(BytesIO(source[1])) as unpacked:
            yield unpacked
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(
            source[0], "a whole gzip file", f"one that breaks off or is garbled ({error})"
        ) from error


def name_of(source: Source) -> str:
    return str(source) if isinstance(source, Path) else source[0]


def dimensions(where: str, header: bytes, magic: int) -> tuple[int, ...]:
    """The dimensions a header gives, if it is one of this kind."""
    found = int.from_bytes(header[:4], "big") if len(header) >= 4 else -1
    if found != magic:
        other = (
            f"an idx file of {KINDS[found]} (magic number {found})" if found in KINDS else described(header)
        )
        raise damaged(where, f"an idx file of {KINDS[magic]} (magic number {magic})", other)
    shape = tuple(int(n) for n in np.frombuffer(header[4 : len(header) // 4 * 4], ">u4"))
    if len(shape) < magic % 256:
        raise damaged(where, f"{magic % 256} dimensions", f"only {len(header)} bytes: it is cut off")
    if not 0 < math.prod(shape) <= LARGEST:
        raise damaged(where, f"between 1 and {LARGEST} bytes", f"a header that announces {math.prod(shape)}")
    return shape


def size(images: NDArray[np.uint8]) -> str:
    return f"{images.shape[2]}x{images.shape[1]}"


def forms(folder: str, md5s: Sequence[str], *, classes: int = 10) -> tuple[Form, ...]:
    """The four files, gzipped or not, under the two spellings in use."""
    files = tuple(
        File(name, md5, also=(name.replace("-idx", ".idx"),)) for name, md5 in zip(NAMES, md5s, strict=True)
    )
    return (Form(files, (f"{folder}/raw", folder), partial(read, classes=classes)),)


def deliveries(
    folder: str, sizes: Sequence[int], md5s: Sequence[str], sources: Sequence[str]
) -> tuple[Delivery, ...]:
    """The four files, gzipped, from any of these addresses."""
    return (
        Delivery(
            f"{folder}/raw",
            tuple(
                Parcel(f"{name}.gz", length, md5, tuple(f"{source}/{name}.gz" for source in sources))
                for name, length, md5 in zip(NAMES, sizes, md5s, strict=True)
            ),
        ),
    )


MNIST = Entry(
    name="mnist",
    title="MNIST handwritten digits",
    shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    classes=tuple("0123456789"),
    licence="CC BY-SA 3.0",
    homepage="http://yann.lecun.com/exdb/mnist/",
    citation="""@article{lecun1998gradient,
  title   = {Gradient-based learning applied to document recognition},
  author  = {LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  journal = {Proceedings of the IEEE},
  volume  = {86},
  number  = {11},
  pages   = {2278--2324},
  year    = {1998}
}""",
    forms=forms(
        "MNIST",
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    deliveries=deliveries(
        "MNIST",
        (9_912_422, 28_881, 1_648_877, 4_542),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        (
            "https://yann.lecun.com/exdb/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
    ),
)

FASHION_MNIST = Entry(
    name="fashion-mnist",
    title="Fashion-MNIST clothing",
    shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    licence="MIT",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    citation="""@misc{xiao2017fashion,
  title         = {Fashion-{MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  author        = {Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  year          = {2017},
  eprint        = {1708.07747},
  archiveprefix = {arXiv}
}""",
    forms=forms(
        "FashionMNIST",
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    # the authors' own bucket answers over http only; the checksums stand guard
    deliveries=deliveries(
        "FashionMNIST",
        (26_421_880, 29_515, 4_422_102, 5_148),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ),
    ),
)
