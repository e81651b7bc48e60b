"""Executors by name, opened and closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from ..errors import SettingError
from . import Executor
from .processes import Processes, cores
from .serial import Serial

Name = Literal["auto", "serial", "processes"]
MOST = 512  # workers: more is a slip
ENOUGH = 3.0  # seconds of work: about what it takes to start workers


@contextmanager
def opened(name: Name = "auto", workers: int | None = None) -> Iterator[Executor]:
    """The executor of this name. `auto`: worker processes as soon as there is enough to do for them."""
    check_workers(name, workers)
    if name == "serial" or (name == "auto" and (workers or cores()) == 1):
        yield Serial()
        return
    executor = Processes(workers) if name == "processes" else Auto(workers)
    try:
        yield executor
    finally:
        executor.close()


def check_workers(name: Name, workers: int | None) -> None:
    """An error if there cannot be so many workers."""
    if workers is None:
        return
    if workers < 1:
        raise SettingError(f"workers is {workers}; it should be 1 or more")
    if workers > MOST:
        raise SettingError(
            f"workers is {workers}; it should be at most {MOST}\n    one a core is usual, here {cores()}"
        )
    if name == "serial" and workers > 1:
        raise SettingError(
            f"workers is {workers}, but the executor 'serial' has none\n    executor='processes' has workers"
        )


class Auto:
    """In this process for the first seconds, then on workers. The numbers are the same."""

    def __init__(self, workers: int | None = None):
        self.workers, self.spent = workers, 0.0
        self.size = workers or cores()
        self.processes: Processes | None = None

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        done = 0
        for result in self.here(work, items):
            yield result
            done += 1
        if rest := items[done:]:
            self.processes = self.processes or Processes(self.workers)
            yield from self.processes.run(work, rest)

    def here(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """What comes of the first items, until enough time is spent."""
        for item in items:
            if self.spent > ENOUGH:
                return
            started = time.perf_counter()
            (result,) = Serial().run(work, [item])
            self.spent += time.perf_counter() - started
            yield result

    def close(self) -> None:
        if self.processes:
            self.processes.close()
