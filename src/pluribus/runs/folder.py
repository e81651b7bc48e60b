"""Files of a run: whole or not at all, on the disk before they count, and an error that says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import RunError

if sys.platform != "win32":
    import fcntl

RUNS = Path("runs")
GO_ON = "make room or mend the folder; what was written before is whole, and pluribus resume goes on with it"


def made(out: str | os.PathLike[str] | None, name: str) -> Path:
    """A new folder: the one asked for, which must be empty, or one of this name that nobody has yet."""
    with told(Path(out) if out is not None else RUNS / name, "choose a folder you may write to"):
        return empty(Path(out)) if out is not None else new(name)


def empty(folder: Path) -> Path:
    """The folder, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RunError(
            f"{folder} is not empty, and a run never overwrites another\n"
            f"    choose another folder, or go on with it: pluribus resume {folder}"
        )
    return folder


def new(name: str) -> Path:
    """runs/<name>, or with -2, -3, ... behind it if that is taken."""
    RUNS.mkdir(exist_ok=True)
    number = 1
    while True:
        folder = RUNS / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


@contextmanager
def told(path: Path, advice: str = GO_ON) -> Iterator[None]:
    """What the system says against writing here, as an error a user can put right."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}\n    {advice}") from error


def write(path: Path, data: bytes) -> None:
    """The file, whole or not at all: written beside, brought to the disk, then renamed."""
    beside = path.with_name(f".{path.name}.part")
    with told(path):
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def append(path: Path, line: bytes) -> None:
    """One more line, on the disk before it counts."""
    with told(path), path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def settle(folder: Path) -> None:
    """The folder's own list of files is on the disk too, where the system can do that."""
    if sys.platform == "win32":
        return
    with told(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """The only process at work in this folder; a killed one lets go by itself."""
    if sys.platform == "win32":
        yield
        return
    with told(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        take(handle, folder)
        yield
    finally:
        os.close(handle)


def take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(
            f"another process is at work in {folder}\n    wait until it is done, or end it"
        ) from None
