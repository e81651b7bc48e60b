"""Our own copy of a dataset: mapped into memory, so that a second start costs neither time nor memory.

    <cache>/datasets/<FORMAT>/<name>/<digest>/   inputs.npy  labels.npy  group-*.npy  meta.json
                                    /seen/       for each set of original files: the digest they came to

A folder is written beside its place and renamed; a reader never sees half of one.
"""

import hashlib
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DataError
from ..examples import Scale
from . import places
from .dataset import Dataset, measured
from .files import leads_back
from .lock import alone

FORMAT = 1  # to be raised when a reader or the layout changes; older copies are then left alone
UNFINISHED = "unfinished-"


@dataclass(frozen=True)
class Meta:
    """What meta.json holds."""

    name: str
    digest: str
    classes: tuple[str, ...]
    official: int
    groups: tuple[str, ...]
    statistics: Scale


def of_files(name: str, stamp: str) -> Dataset | None:
    """The copy made of exactly the files of this stamp; None if there is none."""
    try:
        digest = (home(name) / "seen" / stamp).read_text()
    except OSError:
        return None
    return opened(home(name) / digest[:16])


def latest(name: str) -> Dataset | None:
    """The newest copy of the dataset, wherever its files are now; None if there is none that we may read."""
    if not os.access(home(name), os.R_OK | os.X_OK):
        return None
    folders = (path.parent for path in home(name).glob("*/meta.json"))
    whole = (folder for folder in folders if not folder.name.startswith(UNFINISHED))
    usable = ((folder, dataset) for folder in whole if (dataset := opened(folder)))
    return max(usable, key=lambda copy: copy[0].stat().st_mtime, default=(None, None))[1]


@contextmanager
def room(name: str) -> Iterator[Path | None]:
    """A folder in which to make the copy, for one process at a time; None if none can be written."""
    folder, making = None, home(name) / "making"
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(alone(making / f"{home(name).name}.lock", name))
            sweep(making)
            folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=making))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def keep(dataset: Dataset, stamp: str, room: Path | None = None) -> Dataset:
    """The same dataset, mapped from a copy; in memory, with a warning, if none can be written.

    The stamp is of its files as they were before they were read: what changes meanwhile is read again.
    Inputs that already lie in this room, as `inputs.npy`, are moved and not copied.
    """
    statistics = dataset.statistics or measured(dataset.inputs, dataset.official)
    dataset = replace(dataset, statistics=statistics)
    try:
        with alone(home(dataset.name) / f"{home(dataset.name).name}.lock", dataset.name):
            return stored(dataset, stamp, room) or dataset
    except OSError as error:
        warnings.warn(
            f"{dataset.name} stays in memory: {places.cache()} cannot be written ({error.strerror}); "
            "$PLURIBUS_CACHE names another folder",
            stacklevel=2,
        )
        return dataset


def stored(dataset: Dataset, seen: str, room: Path | None) -> Dataset | None:
    """Write the copy if it is not there, note which files it came from, and open it."""
    folder = home(dataset.name) / dataset.digest[:16]
    sweep(folder.parent)
    if opened(folder) is None:
        shutil.rmtree(folder, ignore_errors=True)
        write(dataset, folder, room)
    note(folder.parent / "seen" / seen, dataset.digest)
    return opened(folder)


def write(dataset: Dataset, folder: Path, room: Path | None) -> None:
    """The copy as a whole, or not at all."""
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        for name, tensor in arrays(dataset).items():
            if room and (room / f"{name}.npy").exists():
                (room / f"{name}.npy").replace(unfinished / f"{name}.npy")
            else:
                save(unfinished / f"{name}.npy", tensor.numpy())
        flush(unfinished / "meta.json", msgspec.json.encode(meta(dataset)))
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def opened(folder: Path) -> Dataset | None:
    """The dataset mapped from this copy; None if the copy is missing or damaged."""
    try:
        known = msgspec.json.decode((folder / "meta.json").read_bytes(), type=Meta)
        inputs, labels = mapped(folder / "inputs.npy"), mapped(folder / "labels.npy")
        groups = {name: mapped(folder / f"group-{name}.npy") for name in known.groups}
        return Dataset(
            known.name, inputs, labels, known.classes, known.official, groups, known.digest, known.statistics
        )
    except (OSError, EOFError, ValueError, TypeError, msgspec.MsgspecError, DataError):
        return None


def mapped(path: Path) -> Tensor:
    """An array on disk as a tensor, read as it is touched; what is written to it never reaches the disk."""
    return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


def discard(dataset: Dataset) -> None:
    """Remove the copy; the next start makes it anew."""
    shutil.rmtree(home(dataset.name) / dataset.digest[:16], ignore_errors=True)


def home(name: str) -> Path:
    """Where copies of this dataset are; a name that would be no good folder gets one of its own."""
    plain = re.sub(r"[^\w.=,+-]+", "-", name).strip("-.")
    unlike = "" if plain == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return places.cache() / "datasets" / str(FORMAT) / f"{plain[-60:]}{unlike}"


def stamp(files: Sequence[Path]) -> str:
    """A name for these files as they are now: it changes when one is replaced or written to."""
    about = hashlib.sha256()
    for name, at in sorted(listed(files)):
        line = f"{name}\0{at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}\n"
        about.update(line.encode(errors="surrogateescape"))
    return about.hexdigest()[:16]


def listed(paths: Iterable[Path]) -> Iterator[tuple[str, os.stat_result]]:
    """These files, and all that are in these folders."""
    for path in paths:
        if path.is_dir():
            with os.scandir(path) as inside:
                folders, files = apart(list(inside))
            above = path.resolve()
            yield from ((os.path.join(above, one.name), one.stat()) for one in files)  # noqa: PTH118 - many
            yield from listed(Path(one) for one in folders)
        else:
            yield str(path.resolve()), path.stat()


def apart(inside: list[os.DirEntry[str]]) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Folders and files; what is linked counts as what it leads to, but not if it leads back."""
    folders = [one for one in inside if one.is_dir() and not leads_back(one)]
    return folders, [one for one in inside if one.is_file()]


def arrays(dataset: Dataset) -> dict[str, Tensor]:
    groups = {f"group-{name}": group for name, group in dataset.groups.items()}
    return {"inputs": dataset.inputs, "labels": dataset.labels, **groups}


def meta(dataset: Dataset) -> Meta:
    statistics = dataset.statistics or measured(dataset.inputs, dataset.official)
    return Meta(
        dataset.name, dataset.digest, dataset.classes, dataset.official, tuple(dataset.groups), statistics
    )


def save(path: Path, array: NDArray[Any]) -> None:
    """The array in NumPy's format, on the disk before we go on."""
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())


def flush(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def note(path: Path, text: str) -> None:
    """A small file that is there as a whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    flush(beside, text.encode())
    beside.replace(path)


def sweep(folder: Path) -> None:
    """Remove what killed processes left; under the lock nobody is writing."""
    for path in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)
