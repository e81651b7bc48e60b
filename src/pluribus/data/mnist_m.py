"""MNIST-M: MNIST's digits blended into photographs, as image files with lists or as sheets of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataDamaged
from .domains import near, plain
from .entry import Arrays, Entry, Look, Tree
from .files import damaged, opened
from .pictures import Pictures, Unusable, check_pillow, is_image, whole
from .rolls import is_archive, roll

LOOK = Look(32)
PARTS = ("train", "test")
SHEETS = ("labels.json", "train.webp", "test.webp")
PREFIXES = ("mnistm",)
LARGEST = 64 << 20  # no list of labels is larger


def find(root: Path) -> tuple[Path, ...]:
    """The folder with mnist_m_train and mnist_m_test, or the archive, or the sheets."""
    for folder in near(root, PREFIXES):
        if all((folder / f"mnist_m_{part}_labels.txt").is_file() for part in PARTS):
            return (folder,)
        if all((folder / name).is_file() for name in SHEETS) and plain(folder.name).startswith(PREFIXES):
            return tuple(folder / name for name in SHEETS)
        packed = (path for path in sorted(folder.glob("mnist_m*")) if is_archive(path.name))
        if archive := next(packed, None):
            return (archive,)
    return ()


def read(paths: Sequence[Path]) -> Arrays:
    """The images as the lists name them, or as they stand on the sheets."""
    return read_sheets(paths) if len(paths) > 1 else read_lists(paths[0])


def read_lists(path: Path) -> Arrays:
    """`00000000.png 5` a line; the images lie in folders beside the lists."""
    files = roll(path)
    names = {"/".join(name.split("/")[-2:]): name for name in files.names()}
    rows: dict[str, int] = {}
    labels: list[int] = []
    official = 0
    for part in PARTS:
        name = next(
            (full for short, full in names.items() if short.endswith(f"mnist_m_{part}_labels.txt")), None
        )
        if name is None:
            raise damaged(path, f"a list mnist_m_{part}_labels.txt", "none")
        for image, label in listed(files.content(name), f"{path}: {name}"):
            key = f"mnist_m_{part}/{image}"
            if key not in names or not is_image(key):
                raise DataDamaged(
                    f"{path}: {name} names {image}, which is not there\n    unpack the archive again"
                )
            rows[names[key]] = len(labels)
            labels.append(label)
        official = official or len(labels)
    return Arrays(Pictures("mnist-m", [(files, rows)], LOOK, official), np.array(labels, np.int64), official)


def listed(content: bytes, where: str) -> list[tuple[str, int]]:
    """File and digit of each line."""
    lines = [
        line.rsplit(maxsplit=1) for line in content.decode(errors="replace").splitlines() if line.strip()
    ]
    for line in lines:
        if len(line) != 2 or not (line[1].isdigit() and int(line[1]) <= 9):
            raise damaged(where, "lines like '00000000.png 5'", f"'{' '.join(line)[:60]}'")
    return [(image, int(label)) for image, label in lines]


def read_sheets(paths: Sequence[Path]) -> Arrays:
    """Sheets of images in rows of `cols`, and a json file with how many there are and their labels."""
    check_pillow()
    with opened(paths[0]) as stream:
        try:
            about = json.loads(stream.read(LARGEST))
            sheets = zip(PARTS, paths[1:], strict=True)
            parts = [(cut(path, about[part]), numbers(about[part])) for part, path in sheets]
        except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise damaged(
                paths[0], "for train and test: n, cols and labels", f"another ({error!r})"
            ) from error
    images, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Arrays(images, labels, len(parts[0][1]))


def cut(path: Path, about: dict[str, Any]) -> NDArray[np.uint8]:
    """The images (N, C, H, W) of one sheet."""
    columns, side = int(about["cols"]), LOOK.size
    height = -(-int(about["n"]) // columns)
    try:
        sheet = whole(path, LOOK.channels)
    except Unusable as reason:
        raise DataDamaged(f"{path}: {reason}\n    put the original in its place") from reason
    if sheet.size != (columns * side, height * side):
        raise damaged(path, f"{columns * side} x {height * side} pixels", f"{sheet.width} x {sheet.height}")
    tiles = np.asarray(sheet).reshape(height, side, columns, side, 3).transpose(0, 2, 4, 1, 3)
    return tiles.reshape(-1, 3, side, side)[: int(about["n"])]


def numbers(about: dict[str, Any]) -> NDArray[np.int64]:
    labels = np.array(about["labels"], np.int64)
    if labels.shape != (int(about["n"]),) or labels.min() < 0 or labels.max() > 9:
        raise ValueError(f"{len(labels)} labels")
    return labels


MNIST_M = Entry(
    name="mnist-m",
    title="MNIST-M, digits blended into photographs",
    shape=LOOK.shape,
    train=59_001,
    test=9_001,
    classes=tuple("0123456789"),
    licence="none stated",
    homepage="https://github.com/fungtion/DANN",
    citation="""@article{ganin2016domain,
  title   = {Domain-Adversarial Training of Neural Networks},
  author  = {Ganin, Yaroslav and Ustinova, Evgeniya and Ajakan, Hana and Germain, Pascal and
             Larochelle, Hugo and Laviolette, Fran{\\c{c}}ois and Marchand, Mario and Lempitsky, Victor},
  journal = {Journal of Machine Learning Research},
  volume  = {17},
  number  = {59},
  year    = {2016}
}""",
    forms=(Tree(find, read),),
    wanted="the folder mnist_m (mnist_m_train, mnist_m_test and their lists) or mnist_m.tar.gz",
    varies=True,  # some copies hold a part of the training set
)
