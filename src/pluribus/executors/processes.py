"""Worker processes of one thread each, alive for the whole run; how many there are changes no number."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, Self

import torch

from ..errors import RunError
from ..state import copied
from .slabs import SharedFolder, Slabs, Slip, write

Start = Literal["fork", "spawn", "forkserver"]
AHEAD = 2  # items a worker holds: the one it does, and the one it does next
PATIENCE = 3  # workers an item may take with it
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # mallopt's numbers for these
KEPT = 2**30


def usual_start() -> Start:
    """Processes that start clean: a fork of a process that has computed gradients cannot compute any."""
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(eq=False)
class Worker:
    """A process, the line to it, the items it holds, and its slabs that nobody reads any more."""

    process: Any
    line: Connection
    knows: int = -1  # the number of the slip with the work it was told last
    items: dict[int, Slip] = field(default_factory=dict)  # by number, in the order given
    unused: list[str] = field(default_factory=list)


class Processes:
    """One worker a core. What all items share is written once; what comes back is read where it lies."""

    def __init__(self, workers: int | None = None, start: Start | None = None):
        self.size = workers or cores()
        self.context: Any = multiprocessing.get_context(start or usual_start())
        if self.context.get_start_method() == "forkserver":
            self.context.set_forkserver_preload(["pluribus.executors.processes", "torch._dynamo"])
        self.shared = SharedFolder()
        self.folder = self.shared.path
        self.slabs = Slabs(self.folder, "to")
        self.workers: list[Worker] = []
        self.work: Callable[[Any], Any] | None = None
        self.slip: Slip | None = None
        self.started = 0
        self.ended = weakref.finalize(self, self.shared.remove)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers. Harmless when repeated."""
        for worker in self.workers:
            worker.line.close()
        for worker in self.workers:
            worker.process.join(timeout=2)
            worker.process.kill()
        self.workers = []
        self.ended()

    # running ---------------------------------------------------------------------------------------

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """What comes of each item, as it comes; the longest are handed out first."""
        self.prepare(work, len(items))
        common = self.written_once(items)
        waiting = sorted(range(len(items)), key=lambda i: (items[i].size_in(work), -i))
        lost: dict[int, int] = {}
        left = len(items)
        try:
            while left:
                self.hand_out(waiting, items, common)
                for worker in self.ready():
                    if (reply := received(worker)) is None:
                        waiting += self.replaced(worker, items, lost)
                        continue
                    self.give_back([worker.items.pop(reply.number)])
                    left -= 1
                    yield owned(reply.result(worker))
        finally:
            self.give_back(common.values())
            if left:
                self.forget()

    def prepare(self, work: Callable[[Any], Any], items: int) -> None:
        """Workers, no more than there are items, and this work written down for them."""
        if work is not self.work or self.slip is None:
            self.give_back([self.slip] if self.slip else [])
            self.work, self.slip = work, write(work, self.slabs)
        while len(self.workers) < min(self.size, items):
            self.workers.append(self.new_worker())

    def new_worker(self) -> Worker:
        ours, theirs = self.context.Pipe()
        self.started += 1
        process = self.context.Process(
            target=serve, args=(theirs, str(self.folder), self.started), daemon=True
        )
        process.start()
        theirs.close()
        return Worker(process, ours)

    def forget(self) -> None:
        """Ends workers whose replies nobody waits for."""
        for worker in self.workers:
            worker.process.kill()
            worker.line.close()
        self.workers = []

    def written_once(self, items: Sequence[Any]) -> dict[int, Slip]:
        """The messages of these items, each different one once, by identity."""
        messages = {id(item.message): item.message for item in items}
        return {key: write(message, self.slabs) for key, message in messages.items()}

    def give_back(self, slips: Iterable[Slip]) -> None:
        self.slabs.give_back(slip.path for slip in slips if slip.path)

    def hand_out(self, waiting: list[int], items: Sequence[Any], common: Mapping[int, Slip]) -> None:
        """Up to AHEAD items to each worker, the idlest first."""
        while waiting and len((worker := min(self.workers, key=lambda w: len(w.items))).items) < AHEAD:
            number = waiting.pop()
            item = items[number]
            worker.items[number] = write(replace(item, message={}), self.slabs)
            self.send(
                worker, Parcel(number, worker.items[number], common[id(item.message)], tuple(worker.unused))
            )
            worker.unused.clear()

    def send(self, worker: Worker, parcel: Parcel) -> None:
        """The parcel, and before it the work if this worker has not been told."""
        try:
            if self.slip and worker.knows != self.slip.number:
                worker.line.send(self.slip)
                worker.knows = self.slip.number
            worker.line.send(parcel)
        except OSError:
            pass  # it has died, and its line will say so

    def ready(self) -> list[Worker]:
        lines = {id(w.line): w for w in self.workers}
        return [lines[id(line)] for line in wait([w.line for w in self.workers])]

    def replaced(self, worker: Worker, items: Sequence[Any], lost: dict[int, int]) -> list[int]:
        """The items to be done again: their worker has died, and there is a new one."""
        worker.process.join()
        worker.line.close()
        self.give_back(worker.items.values())
        for first in list(worker.items)[:1]:
            lost[first] = lost.get(first, 0) + 1
            if lost[first] >= PATIENCE:
                raise RunError(
                    f"{described(items[first])} took {PATIENCE} worker processes with it "
                    f"(the last ended with {worker.process.exitcode}; -9 is often a lack of memory)"
                    "\n    fewer workers need less memory: --workers 1"
                )
        self.workers[self.workers.index(worker)] = self.new_worker()
        return list(reversed(worker.items))


def owned(result: Any) -> Any:
    """What a client keeps moves out of the worker's slab: it would hold on to all of it."""
    if not hasattr(result, "kept"):
        return result
    return replace(result, kept=copied(result.kept), trained=result.trained and copied(result.trained))


@dataclass(frozen=True)
class Parcel:
    """What a worker is sent: an item, the message that others have too, and slabs it may write to again."""

    number: int
    item: Slip
    message: Slip
    unused: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    """What a worker sends: what came of an item, or why nothing did."""

    number: int
    slip: Slip | None
    error: Exception | None = None

    def result(self, worker: Worker) -> Any:
        if self.slip is None:
            raise self.error or RunError("a worker sent nothing")
        path = self.slip.path
        return self.slip.open(lambda: worker.unused.append(path) if path else None)


def received(worker: Worker) -> Reply | None:
    """The worker's next reply; None if it has died."""
    try:
        reply: Reply = worker.line.recv()
        return reply
    except (EOFError, OSError):
        return None


def described(item: Any) -> str:
    return (
        f"the turn of client '{item.client}'"
        if hasattr(item, "client")
        else f"testing client '{item.clients[0]}'"
    )


# in the worker ------------------------------------------------------------------------------------------


def serve(line: Connection, folder: str, number: int) -> None:
    """A worker's life: item after item, until nobody is at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's to handle
    torch.set_num_threads(1)
    keep_memory()
    slabs, parent = Slabs(Path(folder), f"from-{number}"), os.getppid()
    work, known, message = None, -1, None
    while (parcel := next_parcel(line, parent)) is not None:
        if isinstance(parcel, Slip):
            work = cache(parcel.open)
            continue
        slabs.give_back(parcel.unused)
        if parcel.message.number != known:
            known, message = parcel.message.number, parcel.message.open()
        if not sent(line, done(work, parcel, message, slabs)):
            break
    shutil.rmtree(folder, ignore_errors=True)  # the coordinator has gone, and nothing is left behind


def keep_memory() -> None:
    """What is freed stays with the process, where the C library can be told: its pages are made once."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    for parameter, size in ((TRIM_THRESHOLD, KEPT), (MMAP_THRESHOLD, KEPT), (TOP_PAD, KEPT // 16)):
        if mallopt:
            mallopt(parameter, size)


def next_parcel(line: Connection, parent: int) -> Parcel | Slip | None:
    """The next thing to do; None if the coordinator has gone."""
    try:
        while not line.poll(5):
            if os.getppid() != parent:
                break
        else:
            parcel: Parcel | Slip = line.recv()
            return parcel
    except (EOFError, OSError):
        pass
    return None


def sent(line: Connection, reply: Reply) -> bool:
    """Whether there was somebody to send the reply to."""
    try:
        line.send(reply)
    except OSError:
        return False
    return True


def done(work: Any, parcel: Parcel, message: Any, slabs: Slabs) -> Reply:
    try:
        item = replace(parcel.item.open(), message=message)
        return Reply(parcel.number, write(work()(item), slabs))
    except Exception as error:  # noqa: BLE001  # it is the coordinator's to handle
        error.add_note(traceback.format_exc())
        return Reply(parcel.number, None, sendable(error))


def sendable(error: Exception) -> Exception:
    """The error itself if it survives the journey, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
        return error
    except Exception:  # noqa: BLE001  # whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
