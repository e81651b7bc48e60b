"""The cell store: finished cells as files to be committed, unfinished ones as run folders.

    results/cells/<key>.json   a finished cell, never made twice
    runs/cells/<key>/          its run, from which an interrupted cell goes on to the same bits

The key is the hash of the settings when the cell was made.  A cell is found by its settings as they are
read today: a setting that is new in the library is its default in an older cell, which stays valid, and
an edited setting never finds one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..data.lock import take
from ..errors import PluribusError, RunError
from ..runs import RUNS, Line, Result, rounds_in
from ..runs.contents import SETTINGS
from ..runs.folder import settle, told, write
from ..settings import Settings
from . import finished
from .experiment import Cell
from .finished import Finished

CELLS = Path("results") / "cells"
QUICK = RUNS / "quick"  # of toy size: of no interest tomorrow


@dataclass(frozen=True)
class Store:
    """Where finished cells lie, and where those at work do."""

    cells: Path = CELLS
    runs: Path = RUNS / "cells"

    @classmethod
    def at(cls, cells: Path | None) -> Store:
        """The store whose finished cells lie here; in the usual place if nothing is said."""
        return cls() if cells is None else cls(cells)

    @classmethod
    def quick(cls, cells: Path | None) -> Store:
        """The store of cells at toy size, all of it where nobody commits it."""
        return cls(cells or QUICK, QUICK)

    @property
    def absolute(self) -> Store:
        """The same for a process that may be in another folder."""
        return Store(self.cells.absolute(), self.runs.absolute())

    def file(self, cell: Cell) -> Path:
        return self.cells / f"{cell.key}.json"

    def folder(self, cell: Cell) -> Path:
        return self.runs / cell.key

    # finished ---------------------------------------------------------------------------------------------

    def finished(self, note: Callable[[str], None]) -> dict[str, Finished]:
        """All finished cells by the hash that their settings have today; says which files are damaged."""
        found = {}
        for path in sorted(self.cells.glob("*.json")):
            try:
                cell = finished.read(path)
            except RunError as error:
                note(f"{error}; it counts as missing")
                continue
            if settings := settings_today(cell):
                found[settings.hash] = cell
        return found

    def has(self, cell: Cell) -> bool:
        """Whether this very cell is finished and whole."""
        try:
            return finished.read(self.file(cell)).settings_hash == cell.settings.hash
        except RunError:
            return False

    def keep(self, result: Result) -> None:
        """Writes what stays of a finished run."""
        with told(self.cells):
            self.cells.mkdir(parents=True, exist_ok=True)
        write(self.cells / f"{result.settings_hash[:16]}.json", finished.of_run(result).as_bytes())
        settle(self.cells)

    # at work ----------------------------------------------------------------------------------------------

    def lines(self, cell: Cell) -> list[Line]:
        """The rounds that an unfinished cell has behind it."""
        return rounds_in(self.folder(cell)) if self.is_begun(cell) else []

    def is_begun(self, cell: Cell) -> bool:
        return (self.folder(cell) / SETTINGS).is_file()

    def clear(self, cell: Cell) -> None:
        """Removes what a process left that was killed before its run had begun."""
        if not self.is_begun(cell):
            shutil.rmtree(self.folder(cell), ignore_errors=True)

    @contextmanager
    def claimed(self, cell: Cell) -> Iterator[bool]:
        """Whether this process has the cell for itself in this block; a killed one lets go by itself."""
        path = self.runs / f".{cell.key}.lock"
        with told(path):
            self.runs.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            yield is_mine(file)
        finally:
            os.close(file)


def is_mine(file: int) -> bool:
    try:
        take(file, wait=False)
    except BlockingIOError:
        return False
    return True


def settings_today(cell: Finished) -> Settings | None:
    """The cell's settings as they are read today; None if they mean nothing any more."""
    try:
        return Settings.from_dict(cell.settings).resolved()
    except PluribusError:
        return None
