"""What a run will take of the machine's memory: said before it begins, and refused where it cannot fit."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engine import Conduct
from .errors import SettingError
from .models import describe
from .state import num_bytes
from .store import Store
from .turn import Built, Place

ROOM = 0.8  # of the machine's memory that a run may take
PROCESS = 350_000_000  # bytes of a process with torch, about
ROW = 8  # bytes of a row's number
COPIES = 4  # of a network in a process: as built, as received, as trained, and its gradient
GRADIENTS = 2  # of what leaves the layers, one number for the value and one for its gradient
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


@dataclass(frozen=True)
class Plan:
    """Bytes, of what is known before the work: methods may keep more, and never less."""

    clients: int
    states: int  # what all of them keep
    uploads: int  # of a cohort, with whole models where they are watched
    data: int
    workers: int
    process: int  # each of them, and the one that coordinates them
    memory: int  # that the run may take; 0 where the system does not tell

    @property
    def processes(self) -> int:
        return (1 + self.workers) * self.process

    @property
    def room(self) -> int | None:
        """What states and uploads may take of the memory; None if that is not known."""
        return max(0, self.memory - self.data - self.processes) if self.memory else None

    @property
    def in_files(self) -> int:
        """What of them lies in files."""
        return 0 if self.room is None else max(0, self.states + self.uploads - self.room)

    def check(self, folder: Path) -> None:
        """An error if it fits neither into memory nor, the states, into files in this folder."""
        if self.memory and not self.room:
            raise SettingError(
                f"the data take {in_words(self.data)}, and {named(self.workers)} of "
                f"{in_words(self.process)} {in_words(self.processes)}; a run may take "
                f"{in_words(self.memory)} of memory here\n    {self.advice}"
            )
        if self.in_files > (free := disk_of(folder)):
            raise SettingError(
                f"{self.clients:,} clients keep {in_words(self.states)} in all; there is room for "
                f"{in_words(self.room or 0)} of it in memory, and for {in_words(free)} in {folder}"
                "\n    fewer clients, a smaller model, or a folder on a larger disk would do"
            )

    @property
    def advice(self) -> str:
        fewer = "fewer workers (--workers 1), " if self.workers > 1 else ""
        return f"{fewer}a smaller model or a smaller batch would do"

    def store(self, folder: Path) -> Store:
        """Where the run's states lie."""
        return Store(self.room, folder)

    def __str__(self) -> str:
        whole = self.data + self.states + self.uploads + self.processes
        of = f" of {in_words(self.memory)}" if self.memory else ""
        files = f"; {in_words(self.in_files)} of that in files" if self.in_files else ""
        return (
            f"memory: {in_words(whole)}{of}: {in_words(self.states)} that {self.clients:,} clients keep, "
            f"{in_words(self.uploads)} of uploads, {in_words(self.data)} of data, "
            f"{named(self.workers)} of {in_words(self.process)}{files}"
        )


def named(workers: int) -> str:
    return {0: "one process", 1: "a coordinator and a worker"}.get(
        workers, f"a coordinator and {workers} workers"
    )


def in_words(size: float) -> str:
    """`1.3 GB`, `420 MB`, `31 kB`."""
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}" if size < 10 * bytes_ else f"{size / bytes_:,.0f} {unit}"
    return f"{size / 1e3:.0f} kB"


def plan_of(place: Place, conduct: Conduct, *, workers: int = 0, memory: float | None = None) -> Plan:
    """The plan of such a run; `memory` are the gigabytes it may take, if not what is usual."""
    sizes: dict[int, int] = {}
    states = sum(
        sizes.get(id(built)) or sizes.setdefault(id(built), bytes_kept(place, built))
        for built in map(place.built, place.clients)
    )
    largest = max(place.networks.values(), key=lambda built: num_bytes(built.initial))
    shared = num_bytes({n: t for n, t in largest.initial.items() if n in largest.shares})
    watched = num_bytes(largest.initial) if conduct.watch or conduct.keep_trained else 0
    return Plan(
        clients=len(place.clients),
        states=states,
        uploads=conduct.join.most(len(place.clients)) * (shared + watched),
        data=bytes_of_data(place) * (2 if workers else 1),  # workers share a copy of their own
        workers=workers,
        process=PROCESS + bytes_of_training(place, largest),
        memory=int(ROOM * memory_of_machine()) if memory is None else int(memory * 1e9),
    )


def bytes_kept(place: Place, built: Built) -> int:
    """What such a client keeps at least: personal parts, and both of Adam's moments if they stay."""
    stays = num_bytes({n: t for n, t in built.initial.items() if n in built.stays})
    return stays + (2 * num_bytes(built.initial) if place.training.keep_moments else 0)


def bytes_of_training(place: Place, built: Built) -> int:
    """What a process takes to train this network: copies of it, and a batch on its way through."""
    model: Any = next(model for model, one in place.networks.items() if one is built)
    through = describe(model, place.shape, place.classes).activations
    return COPIES * num_bytes(built.initial) + 4 * GRADIENTS * place.training.batch * through


def bytes_of_data(place: Place) -> int:
    """Images, labels and lists of rows; arrays that clients have in common count once."""
    lists = [e for c in place.clients.values() for e in (c.train, c.val, c.test)]
    arrays = {id(t): t for e in lists for t in (e.inputs, e.labels)}
    return sum(t.numel() * t.element_size() for t in arrays.values()) + ROW * sum(map(len, lists))


def memory_of_machine() -> int:
    """Bytes of memory, or of the container's share of it; 0 where the system does not tell."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        return min(whole, int(LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or `max`
        return whole


def disk_of(folder: Path) -> int:
    """Bytes that are free where this folder is or will be."""
    above = (folder, *folder.absolute().parents)
    there = next(filter(os.path.exists, above), Path(tempfile.gettempdir()))  # a name too long exists nowhere
    return shutil.disk_usage(there).free
