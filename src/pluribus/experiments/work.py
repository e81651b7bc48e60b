"""Work on cells: several at once where there are cores for it, each in a process of its own.

Whoever works on a cell holds its lock, so that any number of processes share the cells of an experiment.
A process that is killed lets go of its cells, and another goes on with them to the same bits.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from ..errors import PluribusError, RunError, SettingError
from ..executors.choice import opened
from ..executors.processes import cores, sendable, usual_start
from ..runs import Line, Listener, Result, resume, run
from ..runs.brake import Brake
from ..study import Study
from .experiment import Cell
from .store import Store

How = Literal["done", "stopped", "elsewhere"]
Tell = Callable[[str], None]
POLL = 5.0  # seconds until a cell that another process has is tried again
TOLD_EVERY = 30.0  # seconds between two lines about the same cell


@dataclass(frozen=True)
class End:
    """The last that a cell's process says; whatever it says before is text."""

    how: How | Exception


@dataclass
class Filled:
    """What came of it: cells that cannot be run and why, and whether time was up before all was done."""

    failed: dict[str, str] = field(default_factory=dict)  # by the cell's key
    time_is_up: bool = False


def fill(
    cells: Sequence[Cell],
    store: Store = Store(),
    *,
    workers: int | None = None,
    minutes: float | None = None,
    data_dir: str | Path | None = None,
    tell: Tell = lambda _: None,
) -> Filled:
    """Runs or resumes each of these cells that is not finished; after so many minutes it stops at a round."""
    if workers is not None and workers < 1:
        raise SettingError(f"workers is {workers}; it should be 1 or more")
    if minutes is not None and not minutes > 0:
        raise SettingError(f"minutes is {minutes:g}; it should be above 0")
    finished = store.finished(tell)
    left = {cell.key: cell for cell in cells if cell.settings.hash not in finished}
    if not left:
        return Filled()
    with Brake(tell) as brake:
        at_once = min(len(left), workers or cores())
        each = max(1, (workers or cores()) // at_once)
        order = Order(
            store.absolute,
            Path(data_dir).absolute() if data_dir else None,
            each,
            None if minutes is None else time.time() + 60 * minutes,
        )
        return Foreman(list(left.values()), order, at_once, brake, tell).go()


@dataclass(frozen=True)
class Order:
    """What each process is told besides its cell."""

    store: Store
    data_dir: Path | None
    workers: int
    until: float | None  # on the clock of the machine, which all processes share

    @property
    def time_is_up(self) -> bool:
        return self.until is not None and time.time() >= self.until


class Foreman:
    """Hands out cells, so many at once, and hears what comes of them."""

    def __init__(self, cells: list[Cell], order: Order, at_once: int, brake: Brake, tell: Tell):
        self.waiting, self.order, self.at_once, self.brake, self.tell = cells, order, at_once, brake, tell
        self.number, self.of = 0, len(cells)
        self.hands: dict[Connection, tuple[Any, Cell]] = {}  # the line to each process
        self.elsewhere: list[Cell] = []
        self.told: set[str] = set()  # that they are elsewhere
        self.filled = Filled()
        self.context: Any = multiprocessing.get_context(usual_start())
        if self.context.get_start_method() == "forkserver":
            self.context.set_forkserver_preload([__name__, "pluribus.executors.processes", "torch._dynamo"])

    def go(self) -> Filled:
        try:
            while self.is_going():
                self.hand_out()
                self.hear()
        finally:
            self.end_all()
        if self.brake.pulled:
            raise KeyboardInterrupt("stopped after a round; the same command goes on from there")
        return self.filled

    def is_going(self) -> bool:
        """Whether something is left to do or to hear; cells that others had are tried again."""
        stops = self.brake.pulled or self.order.time_is_up
        if not stops and self.elsewhere and not self.waiting and not self.hands:
            time.sleep(POLL)
            self.waiting, self.elsewhere = self.elsewhere, []
        if stops and (self.waiting or self.elsewhere):
            self.filled.time_is_up = self.order.time_is_up
            self.waiting, self.elsewhere = [], []
        return bool(self.waiting or self.hands)

    def hand_out(self) -> None:
        while self.waiting and len(self.hands) < self.at_once:
            cell = self.waiting.pop(0)
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=serve, args=(theirs, cell, self.order))
            process.start()
            theirs.close()
            self.hands[ours] = process, cell

    def hear(self) -> None:
        """Whatever the processes say within a second; if the brake is pulled they are asked to stop."""
        for line in wait(list(self.hands), timeout=1):
            assert isinstance(line, Connection)
            self.hear_of(line)
        if self.brake.pulled:
            for line in self.hands:
                ask_to_stop(line)

    def hear_of(self, line: Connection) -> None:
        process, cell = self.hands[line]
        try:
            said = line.recv()
        except (EOFError, OSError):
            process.join()
            said = End(
                RunError(
                    f"its process ended with {process.exitcode}; -9 is often a lack of memory"
                    "\n    fewer at once need less memory: --workers 1"
                )
            )
        if isinstance(said, str):
            self.tell(f"{cell.title}: {said}")
            return
        del self.hands[line]
        line.close()
        process.join()
        self.close(cell, said.how)

    def close(self, cell: Cell, how: How | Exception) -> None:
        """What came of a cell."""
        if isinstance(how, PluribusError):
            self.filled.failed[cell.key] = str(how)
            self.tell(f"{cell.title}: {how}")
        elif isinstance(how, Exception):
            raise how
        elif how == "elsewhere":
            if cell.key not in self.told:
                self.tell(f"{cell.title}: another process is at work on it")
            self.told.add(cell.key)
            self.elsewhere.append(cell)
        elif how == "stopped":
            self.filled.time_is_up = self.order.time_is_up
        else:
            self.number += 1
            self.tell(f"{cell.title}: done, {self.number} of {self.of}")

    def end_all(self) -> None:
        """Ends processes that nobody waits for any more; what they had written is whole."""
        for line, (process, _) in self.hands.items():
            process.kill()
            process.join()
            line.close()


def ask_to_stop(line: Connection) -> None:
    with suppress(OSError):  # it has ended, and its line will say so
        line.send("stop")


# in the process of a cell -----------------------------------------------------------------------------


def serve(line: Connection, cell: Cell, order: Order) -> None:
    """Does a cell, and says how it went."""

    def stop() -> bool:
        return order.time_is_up or line.poll()  # asked to, or nobody is at the other end

    try:
        end = End(attempt(cell, order, Teller(line, cell), stop))
    except KeyboardInterrupt:
        end = End("stopped")
    except PluribusError as error:
        end = End(RunError(str(error)))  # a journey between processes is not for every class
    except Exception as error:  # noqa: BLE001  # it is the foreman's to handle
        end = End(sendable(error))
    with suppress(OSError):  # nobody wants to know any more
        line.send(end)


def attempt(cell: Cell, order: Order, listener: Listener, stop: Callable[[], bool]) -> How:
    """Runs the cell, or goes on with it, unless it is finished or somebody else is at it."""
    store = order.store
    with store.claimed(cell) as mine:
        if not mine:
            return "elsewhere"
        if not store.has(cell):
            with opened("auto" if order.workers > 1 else "serial", order.workers) as executor:
                how: dict[str, Any] = {"executor": executor, "listener": listener, "stop": stop}
                store.keep(result_of(cell, store, data_dir=order.data_dir, **how))
    return "done"


def result_of(cell: Cell, store: Store, **how: Any) -> Result:
    """The result of the cell's run: of a new one, or of the one that was interrupted."""
    if store.is_begun(cell):
        return resume(store.folder(cell), **how)
    store.clear(cell)
    return run(cell.settings, out=store.folder(cell), **how)


class Teller(Listener):
    """Tells the foreman now and then how far a cell has come."""

    def __init__(self, line: Connection, cell: Cell) -> None:
        self.line, self.rounds = line, cell.settings.rounds
        self.told = time.monotonic()

    def note(self, text: str) -> None:
        with suppress(OSError):  # nobody is at the other end, and the run will stop after its round
            self.line.send(text)

    def started(self, study: Study, folder: Path) -> None:
        for warning in study.warnings:
            self.note(f"warning: {warning}")

    def passed(self, line: Line) -> None:
        if time.monotonic() - self.told > TOLD_EVERY:
            self.told = time.monotonic()
            self.note(f"round {line.round} of {self.rounds}")
