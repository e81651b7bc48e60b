"""Where the tensors of many clients lie: in memory while there is room, in mapped files past that.

Files have no name and are gone with the process, however it ends.  What is stored is never changed: a
client's new state is a new block, and the old one is free when no round refers to it any more.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .errors import RunError
from .state import Tensors, num_bytes

ALIGN = 64
CHUNK = 2**28  # bytes of a file, unless a single state is larger
Block = tuple[int, int]  # where it begins: in which file, at which byte


class _Bytes(np.ndarray):
    """Part of a mapped file. A class of its own so that its end can be noticed."""


class Store:
    """So many bytes stay in memory (all, if there is no limit); the rest lies in files in this folder."""

    def __init__(self, room: int | None = None, folder: Path | None = None):
        self.room, self.folder = room, folder
        self.sizes: dict[Hashable, int] = {}  # of what lies in memory, by its owner
        self.in_memory = 0
        self.chunks: list[np.ndarray] = []
        self.end = 0  # of what was ever used of the last chunk
        self.free: dict[int, list[Block]] = defaultdict(list)  # by size

    def keep(self, owner: Hashable, tensors: Tensors) -> Tensors:
        """The same values: these very tensors while there is room, copies in a file past that."""
        if self.room is None:
            return tensors
        self.forget([owner])
        size = num_bytes(tensors)
        if self.in_memory + size <= self.room:
            self.sizes[owner] = size
            self.in_memory += size
            return tensors
        return self.filed(tensors)

    def forget(self, owners: Iterable[Hashable]) -> None:
        """What these have in memory is counted no longer."""
        for owner in owners:
            self.in_memory -= self.sizes.pop(owner, 0)

    def filed(self, tensors: Tensors) -> Tensors:
        """Copies in a block of a file, laid out as they are; the block is theirs until none is left."""
        starts, end = [], 0
        for t in tensors.values():
            starts.append(end)
            end += aligned(t.numel() * t.element_size())
        block = self.block(end) if end else torch.empty(0, dtype=torch.uint8)
        return {
            name: laid_into(block[start:], t)
            for start, (name, t) in zip(starts, tensors.items(), strict=True)
        }

    def block(self, size: int) -> Tensor:
        """So many bytes of a file, as a tensor; free again when nothing refers to them."""
        if not self.free[size]:
            self.free[size].append(self.new_block(size))
        number, start = place = self.free[size].pop()
        view = self.chunks[number][start : start + size].view(_Bytes)
        weakref.finalize(view, self.free[size].append, place).atexit = False
        return torch.from_numpy(view)

    def new_block(self, size: int) -> Block:
        """Room that nobody has had, at the end of the last file or in a new one."""
        if not self.chunks or self.end + size > len(self.chunks[-1]):
            self.chunks.append(mapped_file(max(size, CHUNK), self.folder))
            self.end = 0
        start, self.end = self.end, self.end + size
        return len(self.chunks) - 1, start


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def laid_into(block: Tensor, t: Tensor) -> Tensor:
    """A copy at the beginning of these bytes, its axes in memory in the same order."""
    strides = torch.empty_like(t, device="meta").stride()
    room = block[: t.numel() * t.element_size()].view(t.dtype)
    return room.as_strided(t.shape, strides).copy_(t)


def mapped_file(size: int, folder: Path | None) -> np.ndarray:
    """The bytes of a new file without a name."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error now and no crash later
            else:
                file.truncate(size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype=np.uint8)
    except OSError as error:
        raise RunError(
            f"what clients keep does not fit into memory, and {folder or tempfile.gettempdir()} has no room "
            f"for {size / 1e9:.1f} GB more of it: {error.strerror or error}"
            "\n    make room there, or take fewer clients or a smaller model"
        ) from error
