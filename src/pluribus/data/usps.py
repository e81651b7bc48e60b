"""USPS: digits from envelopes, as LIBSVM's text files or as an HDF5 file."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .entry import Arrays, Entry, File, Form
from .files import damaged, unreadable

SIDE = 16
LARGEST = 128 << 20  # bytes of text in the larger file: eight times what it is


def read_text(paths: Sequence[Path]) -> Arrays:
    """`LABEL INDEX:VALUE ...` a line: labels from 1, values from -1 to 1; what is not named is 0."""
    (x, y), (test_x, test_y) = map(table, paths)
    return arrays((np.concatenate([x, test_x]) + 1) / 2, np.concatenate([y, test_y]) - 1, len(y), paths[0])


def table(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Values and labels of one file."""
    lines = text(path).splitlines()
    values, labels = np.zeros((len(lines), SIDE * SIDE)), np.empty(len(lines), np.int64)
    for row, line in enumerate(lines):
        try:
            label, *pairs = line.split()
            labels[row] = int(float(label))
            for pair in pairs:
                index, value = pair.split(":")
                values[row, position(int(index))] = float(value)
        except (ValueError, IndexError) as error:
            raise damaged(
                path, "a label and index:value pairs in each line", f"line {row + 1}: {error}"
            ) from error
    return values, labels


def position(index: int) -> int:
    if not 1 <= index <= SIDE * SIDE:
        raise ValueError(f"index {index}")
    return index - 1


def text(path: Path) -> str:
    """What is in the file, no more than it can be."""
    try:
        with bz2.open(path) as stream:
            content = stream.read(LARGEST)
    except EOFError as error:
        raise damaged(path, "a whole bz2 file", "one that breaks off") from error
    except OSError as error:
        if error.errno is None:
            raise damaged(path, "a bz2 file", f"another ({error})") from error
        raise unreadable(path, error) from error
    return content.decode("ascii", errors="replace")


def read_hdf5(paths: Sequence[Path]) -> Arrays:
    """train and test, each with data (values from 0 to 1) and target."""
    try:
        import h5py
    except ImportError:
        raise DataError(f"{paths[0]} is read with h5py\n    pip install 'pluribus[data]'") from None
    try:
        with h5py.File(paths[0], "r") as file:
            parts = [(held(file, f"{part}/data"), held(file, f"{part}/target")) for part in ("train", "test")]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise damaged(
            paths[0], "an HDF5 file with train and test, data and target", f"another ({error})"
        ) from error
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return arrays(x.astype(np.float64), y.astype(np.int64), len(parts[0][1]), paths[0])


def held(file: Any, name: str) -> NDArray[Any]:
    """An array of the file, if it is of a size that can be meant."""
    found = file[name]
    if found.size > LARGEST:
        raise ValueError(f"{name} has {found.size} values")
    return np.asarray(found[()])


def arrays(values: NDArray[np.float64], labels: NDArray[np.int64], official: int, path: Path) -> Arrays:
    """Values from 0 to 1 as bytes."""
    if values.ndim != 2 or values.shape[1] != SIDE * SIDE or len(values) != len(labels):
        raise damaged(
            path, f"{SIDE * SIDE} values and a label an image", f"{values.shape} and {labels.shape}"
        )
    if not (values.min() >= 0 and values.max() <= 1 and labels.min() >= 0 and labels.max() <= 9):
        found = f"{values.min():g} to {values.max():g}, labels {labels.min()} to {labels.max()}"
        raise damaged(path, "values from 0 to 1 and ten classes", found)
    return Arrays(np.rint(values * 255).astype(np.uint8).reshape(-1, 1, SIDE, SIDE), labels, official)


USPS = Entry(
    name="usps",
    title="USPS handwritten digits from envelopes",
    shape=(1, SIDE, SIDE),
    train=7_291,
    test=2_007,
    classes=tuple("0123456789"),
    licence="none stated",
    homepage="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    citation="""@article{hull1994database,
  title   = {A Database for Handwritten Text Recognition Research},
  author  = {Hull, Jonathan J.},
  journal = {IEEE Transactions on Pattern Analysis and Machine Intelligence},
  volume  = {16},
  number  = {5},
  pages   = {550--554},
  year    = {1994}
}""",
    forms=(
        Form(
            (
                File("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197", archive=True),
                File("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118", archive=True),
            ),
            ("USPS",),
            read_text,
        ),
        Form((File("usps.h5", "355df6b942eb766252e0340bc019b0b9", archive=True),), ("USPS",), read_hdf5),
    ),
    wanted="usps.bz2 and usps.t.bz2, or usps.h5,",
)
