"""A user's own data: a folder of images, a NumPy archive, or any dataset of PyTorch.

load("./my-images")                          CLASS/FILE, DOMAIN/CLASS/FILE, or train and test of CLASS/FILE
load("./my-images:size=96,broken=skip")
load("./digits.npz")                         x and y, or x_train, y_train, x_test and y_test
from_torch("mine", train_set, test_set)      from then on its name is enough: Settings(data="mine")
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import spelling
from ..errors import DataDamaged, DataError, DataNotFound, SettingError
from . import cache, files
from .dataset import Dataset, channel_counts, from_tensors, scale_of
from .entry import Arrays, Developed, Entry, Look, Tree
from .files import check_bomb, unreadable
from .pictures import MOST_PIXELS, SUFFIXES, Pictures, blank, is_image
from .progress import counted
from .rolls import Folder

damaged = partial(files.damaged, remedy="save it again: np.savez('mine.npz', x=images, y=labels)")
USUAL = Look(64)
ROWS_AT_A_TIME = 256
MOST = 1 << 40  # bytes that an archive may announce
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")


def is_path(name: str) -> bool:
    """Whether this is a path and not a name: it has a slash, or ends in .npz."""
    path, _ = taken_apart(name)
    return any(mark in path for mark in ("/", os.sep)) or path in (".", "..") or path.endswith(".npz")


def taken_apart(name: str) -> tuple[str, str]:
    """Path and settings: `./images` and `size=96` of `./images:size=96`."""
    path, colon, rest = name.rpartition(":")
    return (path, rest) if colon and path and not re.search(r"[/\\]", rest) else (name, "")


def entry(name: str) -> Entry:
    """An entry for the folder or file at this path."""
    text, rest = taken_apart(name)
    path = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - links stay as they are named
    if path.is_dir():
        given = spelling.given(rest, Look, "an image folder")
        return of_folder(path, spelling.make(Look, {**vars(USUAL), **given}, "an image folder"))
    if "://" in text:
        raise DataNotFound(
            f"'{text}' is an address, and data of one's own are read from this machine"
            "\n    download it, and name the folder or the .npz file"
        )
    if not path.is_file():
        raise DataNotFound(
            f"there is nothing at '{path}'\n    a dataset of your own is a folder of images or an .npz file"
        )
    if path.suffix != ".npz":
        raise DataNotFound(
            f"'{path}' is neither a folder nor an .npz file\n"
            "    numpy.savez('data.npz', x=images, y=labels) writes one"
        )
    if rest:
        raise SettingError(
            f"an .npz file takes no settings, got '{rest}'\n    its images are as large as they are"
        )
    return of_archive(path)


def own_entry(name: str, title: str, shape: tuple[int, ...], classes: Sequence[str], **more: Any) -> Entry:
    """An entry of the user's own: how many images there are is known when they are read."""
    channels, height, width = shape
    return Entry(
        name=name, title=title, shape=(channels, height, width), train=0, test=0, classes=tuple(classes),
        licence="your own", homepage="", citation="", varies=True, **more,
    )  # fmt: skip


# a folder ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """What the folders of a tree stand for; the class is the folder below."""

    parts: Mapping[str, bool]  # official parts by folder, and whether one is for testing
    domains: tuple[str, ...]
    classes: tuple[str, ...]

    def of(self, name: str) -> tuple[bool, int, int]:
        """Whether a file is for testing, its domain, its class."""
        first, *others = name.split("/")
        above = bool(self.parts or self.domains)
        domain = self.domains.index(first) if self.domains else 0
        return self.parts.get(first, False), domain, self.classes.index(others[0] if above else first)

    def depth(self) -> int:
        """Folders above a file, at least."""
        return 2 if self.parts or self.domains else 1


def of_folder(path: Path, look: Look) -> Entry:
    """Images in folders: of classes, of domains with classes, or train and test with classes."""
    layout = layout_of(path)
    changed = ",".join(f"{n}={v}" for n, v in vars(look).items() if v != getattr(USUAL, n))
    name = f"{path}:{changed}" if changed else str(path)
    reader = partial(read_folder, title=name, layout=layout, look=look)
    return own_entry(
        name,
        f"your images in {path.name}",
        look.shape,
        layout.classes,
        forms=(Tree(lambda _: (path,), reader),),
        look=look,
        looked=partial(of_folder, path),
    )


def layout_of(path: Path) -> Layout:
    """Which of the three it is, by the folders alone."""
    below = {folder.name: [inner.name for inner in folders(folder)] for folder in folders(path)}
    inner = tuple(sorted({name for names in below.values() for name in names}))
    parts = {name: name.lower() in TEST for name in below if name.lower() in (*TRAIN, *TEST)}
    if not below:
        raise DataDamaged(
            f"{path} has no folders; it should have one for each class\n"
            "    CLASS/FILE.jpg, or DOMAIN/CLASS/FILE.jpg, or train/CLASS/FILE.jpg and test/CLASS/FILE.jpg"
        )
    if inner and set(parts) == set(below) and False in parts.values():
        return Layout(parts, (), inner)
    return Layout({}, tuple(below), inner) if all(below.values()) else Layout({}, (), tuple(below))


def folders(path: Path) -> list[Path]:
    """Its folders in order; hidden ones are none."""
    try:
        return sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError as error:
        raise unreadable(path, error) from error


def read_folder(paths: Sequence[Path], *, title: str, layout: Layout, look: Look) -> Arrays:
    """Training rows, then test rows, in the order of domains, classes and names."""
    roll = Folder(paths[0])
    names = [name for name in roll.names() if is_image(name) and name.count("/") >= layout.depth()]
    names = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    if not names:
        raise DataNotFound(f"{paths[0]} holds no images\n    their names end in {' '.join(SUFFIXES)}")
    found = sorted((*layout.of(name), name) for name in names)
    rows = {name: row for row, (*_, name) in enumerate(found)}
    table = np.array([one[:3] for one in found], np.int64)
    official = int((table[:, 0] == 0).sum())
    groups = {"domain": table[:, 1].copy()} if layout.domains else {}
    return Arrays(Pictures(title, [(roll, rows)], look, official), table[:, 2].copy(), official, groups)


# a NumPy archive --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """An array of an archive, not yet read."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Its rows, some at a time."""
        with opened(self.path, self.name) as stream:
            header(stream, self.path, self.name)
            for start in range(0, self.shape[0], ROWS_AT_A_TIME):
                shape = (min(ROWS_AT_A_TIME, self.shape[0] - start), *self.shape[1:])
                content = stream.read(prod(shape) * self.dtype.itemsize)
                if len(content) < prod(shape) * self.dtype.itemsize:
                    raise damaged(
                        self.path, f"{self.shape[0]} rows of {self.name}", f"{start}: it is cut off"
                    )
                yield np.frombuffer(content, self.dtype).reshape(shape)

    def whole(self) -> NDArray[Any]:
        return np.concatenate(list(self.pieces())) if self.shape[0] else np.empty(self.shape, self.dtype)


@dataclass(frozen=True)
class Rows:
    """Images that come some at a time, from whatever gives them."""

    title: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[NDArray[np.uint8]]]
    official: int

    def developed(self, room: Path | None) -> Developed:
        """All of them, in `inputs.npy` in this room; in memory, if there is none."""
        inputs, done = blank(self.shape, room), 0
        counts = torch.zeros(self.shape[1], 256, dtype=torch.int64)
        with counted(self.title, self.shape[0]) as report:
            for piece in self.pieces():
                inputs[done : done + len(piece)] = piece
                training = torch.from_numpy(
                    np.array(piece[: max(0, self.official - done)] if self.official else piece)
                )
                for channel in range(self.shape[1]):
                    counts[channel] += channel_counts(training, channel)
                done += len(piece)
                report(done)
        return Developed(inputs, scale_of(counts))


def of_archive(path: Path) -> Entry:
    """Arrays in an .npz file: images, labels and, by their names, groups."""
    members = members_of(path)
    images = members.get("x", members.get("x_train"))
    labels = [members[name].whole() for name in ("y", "y_train", "y_test") if name in members]
    if images is None or not labels:
        raise damaged(path, "arrays x and y, or x_train and y_train", ", ".join(members) or "none")
    whole = np.concatenate([one.ravel() for one in labels])
    if whole.dtype.kind not in "iu" or not len(whole) or whole.min() < 0:
        raise damaged(
            path, "labels that are whole numbers from 0", f"{whole.dtype} from {whole.min(initial=0)}"
        )
    classes = class_names(members, int(whole.max()) + 1)
    shape = channels_first(images.shape, path)
    reader = partial(read_archive, title=str(path))
    return own_entry(
        str(path), f"your arrays in {path.name}", shape[1:], classes, forms=(Tree(lambda _: (path,), reader),)
    )


def read_archive(paths: Sequence[Path], *, title: str) -> Arrays:
    """Training rows, then test rows, and other arrays of one number a row as groups."""
    members = members_of(paths[0])
    halves = [
        names for names in (("x", "y"), ("x_train", "y_train"), ("x_test", "y_test")) if names[0] in members
    ]
    images, labels = ([members[names[i]] for names in halves if names[i] in members] for i in (0, 1))
    y = np.concatenate([one.whole().ravel() for one in labels]).astype(np.int64)
    official = labels[0].shape[0]
    shapes = {channels_first(one.shape, paths[0])[1:] for one in images}
    rows = sum(one.shape[0] for one in images)
    if len(shapes) > 1 or rows != len(y):
        raise damaged(
            paths[0], "as many labels as images, all of one shape", f"{rows} images, {len(y)} labels"
        )
    known = {"x", "y", "x_train", "y_train", "x_test", "y_test", "classes"}
    others = {name: one for name, one in members.items() if name not in known}
    groups = {
        n: m.whole().astype(np.int64)
        for n, m in others.items()
        if m.shape == (rows,) and m.dtype.kind in "iu"
    }
    if unused := others.keys() - groups.keys():
        raise damaged(paths[0], f"only groups of {rows} whole numbers besides", f"{min(unused)}")
    pieces = partial(read_pieces, images, paths[0])
    return Arrays(Rows(title, (rows, *shapes.pop()), pieces, official), y, official, groups)


def read_pieces(images: Sequence[Member], path: Path) -> Iterator[NDArray[np.uint8]]:
    """The images of these arrays, some at a time."""
    for member in images:
        for piece in member.pieces():
            yield as_bytes(channels_first_layout(piece, path), str(path))


def channels_first(shape: tuple[int, ...], path: Path) -> tuple[int, ...]:
    """The shape as (N, C, H, W)."""
    if len(shape) == 3:
        return (shape[0], 1, *shape[1:])
    if len(shape) == 4 and shape[1] in (1, 3):
        return shape
    if len(shape) == 4 and shape[3] in (1, 3):
        return (shape[0], shape[3], *shape[1:3])
    raise damaged(path, "images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels", f"{shape}")


def channels_first_layout(piece: NDArray[Any], path: Path) -> NDArray[Any]:
    """The images as (N, C, H, W)."""
    if piece.ndim == 4 and piece.shape[1] not in (1, 3):
        return piece.transpose(0, 3, 1, 2)
    return piece.reshape(channels_first(piece.shape, path))


def as_bytes(values: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """Bytes as they are; numbers from 0 to 1 spread over 0 to 255."""
    if values.dtype == np.uint8:
        return values.astype(np.uint8, copy=False)
    if values.dtype.kind == "f" and values.min(initial=0) >= 0 and values.max(initial=0) <= 1:
        spread: NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
        return spread
    span = (
        f"{values.dtype} from {values.min():g} to {values.max():g}"
        if values.dtype.kind in "iuf"
        else f"{values.dtype}"
    )
    raise DataError(
        f"{where}: images should be bytes, or numbers from 0 to 1; these are {span}\n"
        "    leave normalising to us: normalise = half, statistics or none"
    )


def class_names(members: Mapping[str, Member], number: int) -> tuple[str, ...]:
    """The names in `classes`, if there are; else the numbers."""
    found = members.get("classes")
    if found is None or found.dtype.kind != "U" or found.shape[0] < number:
        return tuple(map(str, range(max(number, 2))))
    return tuple(map(str, found.whole().tolist()))


def members_of(path: Path) -> dict[str, Member]:
    """The arrays of an archive, by name; none of them is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except PermissionError as error:
        raise unreadable(path, error) from error
    except (zipfile.BadZipFile, OSError) as error:
        raise damaged(path, "a NumPy archive (.npz)", f"another file ({error})") from error
    members = {name: member(path, name) for name in names}
    check_bomb(path, sum(prod(one.shape) * one.dtype.itemsize for one in members.values()))
    return members


def member(path: Path, name: str) -> Member:
    with opened(path, name) as stream:
        shape, dtype = header(stream, path, name)
    return Member(path, name, shape, dtype)


def header(
    stream: IO[bytes] | BufferedIOBase, path: Path, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array; a type that holds objects is refused, and so is a size nobody means."""
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
    except (ValueError, EOFError, OSError) as error:
        raise damaged(path, f"'{name}' to be an array", f"another ({error})") from error
    if dtype.hasobject or dtype.kind not in "biufU":
        raise damaged(path, f"'{name}' to hold numbers", f"{dtype}; nothing of it was run")
    too_large = prod(shape) * dtype.itemsize > MOST or prod(shape[1:]) > 3 * MOST_PIXELS
    if not shape or too_large or (fortran and len(shape) > 1):
        kind = "columns first: numpy.ascontiguousarray(x) puts it right" if fortran else f"the shape {shape}"
        raise damaged(path, f"'{name}' to be an array of rows", kind)
    return shape, dtype


class opened:  # noqa: N801 - reads as a verb
    """A member of an archive, unpacked as it is read."""

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name

    def __enter__(self) -> IO[bytes]:
        self.archive = zipfile.ZipFile(self.path)
        return self.archive.open(f"{self.name}.npy")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.archive.close()
        if isinstance(error, zipfile.BadZipFile | zlib.error | EOFError):
            raise damaged(
                self.path, f"'{self.name}' whole", f"one that breaks off or is garbled ({error})"
            ) from error


# a dataset of PyTorch ---------------------------------------------------------------------------------


def from_torch(name: str, train: Any, test: Any = None, *, size: int | None = None) -> Dataset:
    """The dataset of these items (image, label), kept under this name: later the name alone is enough.

    An image is Pillow's, an array or a tensor; `size` brings Pillow's images to one size.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise SettingError(f"a name like 'my-images' should have letters, digits and hyphens; got '{name}'")
    items = Items(train, test, size)
    rows, labels = len(items), np.empty(len(items), np.int64)
    if not rows:
        raise DataError(f"{name}: this dataset has no items")
    first, _ = items[0]
    pieces = partial(items.pieces, first.shape, labels, name)
    with cache.room(name) as room:
        images = Rows(name, (rows, *first.shape), pieces, len(train)).developed(room)
        dataset = from_tensors(
            name,
            torch.from_numpy(images.inputs),
            torch.from_numpy(labels),
            classes=items.classes(labels),
            official=len(train),
            statistics=images.statistics,
        )
        return cache.keep(dataset, cache.stamp(()), room)


@dataclass(frozen=True)
class Items:
    """The items of a training set and, if there is one, of a test set."""

    train: Any
    test: Any
    size: int | None

    def __len__(self) -> int:
        return len(self.train) + (len(self.test) if self.test is not None else 0)

    def __getitem__(self, row: int) -> tuple[NDArray[np.uint8], int]:
        item = self.train[row] if row < len(self.train) else self.test[row - len(self.train)]
        try:
            image, label = item
            return self.array(image, row), int(label)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"item {row} should be an image and its label; got {type(item).__name__}: {error}"
            ) from error

    def array(self, image: Any, row: int) -> NDArray[np.uint8]:
        """The image as bytes (C, H, W)."""
        if hasattr(image, "resize") and hasattr(image, "convert"):
            image = image if image.mode == "L" else image.convert("RGB")
            image = np.asarray(image.resize((self.size, self.size)) if self.size else image)
            return np.array(image[None] if image.ndim == 2 else image.transpose(2, 0, 1), np.uint8)
        values = image.numpy() if isinstance(image, Tensor) else np.asarray(image)
        return as_bytes(channels_first_layout(values[None], Path(f"item {row}"))[0], f"item {row}")

    def pieces(
        self, shape: tuple[int, ...], labels: NDArray[np.int64], name: str
    ) -> Iterator[NDArray[np.uint8]]:
        """Images some at a time; labels are noted on the way."""
        for start in range(0, len(self), ROWS_AT_A_TIME):
            rows = range(start, min(start + ROWS_AT_A_TIME, len(self)))
            images, labels[rows.start : rows.stop] = zip(*map(self.__getitem__, rows), strict=True)
            odd = next((row for row, image in zip(rows, images, strict=True) if image.shape != shape), None)
            if odd is not None:
                raise DataError(
                    f"{name}: item {odd} is {images[odd - start].shape}, the first one {shape}\n"
                    "    size=64 brings images of Pillow to one size and, if the first is not grey, to colour"
                )
            yield np.stack(images)

    def classes(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        """The dataset's own names of classes, if it has enough of them; else the numbers."""
        number = max(2, int(labels.max()) + 1)
        named = getattr(self.train, "classes", None)
        if isinstance(named, Sequence) and len(named) >= number:
            return tuple(map(str, named))
        return tuple(map(str, range(number)))


def kept(name: str) -> Entry | None:
    """The entry of what `from_torch` kept under this name; None if there is nothing."""
    copy = cache.latest(name) if re.fullmatch(r"[A-Za-z][\w-]*", name) else None
    return own_entry(name, "your own dataset", copy.shape, copy.classes, forms=()) if copy else None
