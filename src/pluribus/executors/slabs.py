"""Tensors between processes of one machine: written once into a mapped file, read where they lie."""

from __future__ import annotations

import importlib
import io
import mmap
import os
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

ALIGN = 64
LOCK = "in-use"
INLINE = 4096  # bytes: less than this travels inside the pickle


class SharedFolder:
    """A new folder in memory where the system has such a place, else among the temporary files."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")  # noqa: S108  # the usual place on Linux; elsewhere mapped files do the same
        where = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        for left in where.glob("pluribus-shared-*"):
            remove_if_abandoned(left)
        self.path = Path(tempfile.mkdtemp(prefix="pluribus-shared-", dir=where))
        self.lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT)
        locked(self.lock)  # for as long as this process lives

    def remove(self) -> None:
        """Harmless when repeated."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def remove_if_abandoned(folder: Path) -> None:
    """Removes a folder whose process was killed before it could tidy up."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return
    try:
        if locked(lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def locked(file: int) -> bool:
    """Whether nobody else has the lock, and we have it now; never, where there are no such locks."""
    try:
        fcntl = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


class _Mapped(np.ndarray):
    """A mapped file as bytes. A class of its own so that its end can be noticed."""


def mapped(path: Path, size: int, when_unused: Callable[[], None] | None = None) -> Tensor:
    """The file's bytes as a tensor; `when_unused` is called once no tensor refers to them any more."""
    with path.open("r+b") as file:
        view = np.frombuffer(mmap.mmap(file.fileno(), size), dtype=np.uint8).view(_Mapped)
    if when_unused is not None:
        weakref.finalize(view, when_unused).atexit = False
    return torch.from_numpy(view)


class Slabs:
    """Mapped files of one process, for others to read; a file that nobody uses any more is used again."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.numbers = count()
        self.free: list[tuple[Path, Tensor]] = []
        self.used: dict[str, tuple[Path, Tensor]] = {}

    def take(self, size: int) -> tuple[Path, Tensor]:
        """A slab with room for so many bytes; it is ours until `give_back`."""
        fitting = [slab for slab in self.free if len(slab[1]) >= size]
        if fitting:
            slab = min(fitting, key=lambda s: len(s[1]))
            self.free.remove(slab)
        else:
            slab = self.new(max(size, 1))
        self.used[str(slab[0])] = slab
        return slab

    def new(self, size: int) -> tuple[Path, Tensor]:
        for path, _ in self.free:  # too small, all of them
            path.unlink(missing_ok=True)
        self.free.clear()
        path = self.folder / f"{self.name}-{next(self.numbers)}"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size) if hasattr(os, "posix_fallocate") else file.truncate(
                size
            )
        return path, mapped(path, size)

    def give_back(self, paths: Iterable[str]) -> None:
        for path in paths:
            if slab := self.used.pop(path, None):
                self.free.append(slab)


class Slip:
    """A pickled object, and the slab in which its larger tensors lie."""

    def __init__(self, number: int, data: bytes, path: str | None, size: int):
        self.number, self.data, self.path, self.size = number, data, path, size

    def open(self, when_unused: Callable[[], None] | None = None) -> Any:
        """The object. Its larger tensors are views of the slab, for as long as anybody holds one."""
        slab = mapped(Path(self.path), self.size, when_unused) if self.path else None
        return _Unpickler(io.BytesIO(self.data), slab).load()


def write(thing: Any, slabs: Slabs) -> Slip:
    """The slip of an object; its slab is taken until given back."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(thing)
    if not pickler.size:
        return Slip(next(slabs.numbers), file.getvalue(), None, 0)
    path, slab = slabs.take(pickler.size)
    for offset, storage in pickler.aside.values():
        slab[offset : offset + len(storage)].copy_(storage)
    return Slip(next(slabs.numbers), file.getvalue(), str(path), pickler.size)


class _Pickler(pickle.Pickler):
    """Puts the bytes of larger tensors aside, each storage once."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, protocol=5)
        self.aside: dict[int, tuple[int, Tensor]] = {}  # where they lie now -> offset, bytes
        self.size = 0

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor) or own_bytes(obj) <= INLINE:
            return None
        obj = obj.detach()
        if own_bytes(obj) * 2 < obj.untyped_storage().nbytes():
            obj = obj.clone()  # a small window on something large
        return self.offset_of(obj), obj.dtype, tuple(obj.shape), obj.stride(), obj.storage_offset()

    def offset_of(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.aside:
            self.aside[storage.data_ptr()] = self.size, torch.empty(0, dtype=torch.uint8).set_(storage)
            self.size += -(-storage.nbytes() // ALIGN) * ALIGN
        return self.aside[storage.data_ptr()][0]

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return NotImplemented
        flat = obj.detach().contiguous().reshape(-1)
        return _small, (
            flat.view(torch.uint8).numpy().tobytes() if len(flat) else b"",
            obj.dtype,
            tuple(obj.shape),
        )


class _Unpickler(pickle.Unpickler):
    """Reads what a process of ours has written; never anything from a file or a network."""

    def __init__(self, file: io.BytesIO, slab: Tensor | None):
        super().__init__(file)
        self.slab = slab

    def persistent_load(self, pid: Any) -> Tensor:
        offset, dtype, shape, stride, first = pid
        assert self.slab is not None
        typed = self.slab[
            offset : offset + (len(self.slab) - offset) // dtype.itemsize * dtype.itemsize
        ].view(dtype)
        return typed.as_strided(shape, stride, typed.storage_offset() + first)


def own_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _small(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    return (
        torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
        if data
        else torch.zeros(shape, dtype=dtype)
    )
