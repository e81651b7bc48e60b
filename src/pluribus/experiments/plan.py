"""What an experiment would cost: each cell with how far it is, and the hours that are left of it.

A cell that has begun is judged by its own rounds.  For others a few turns of the first round and a few
readings are done, and the rest is taken to cost the same for each example; nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..engine import Round, rounds
from ..errors import PluribusError
from ..executors.serial import Serial
from ..readings.evaluate import evaluate
from ..readings.look import Look, Sight
from ..settings import Settings
from ..study import Study, prepare
from .experiment import Cell
from .finished import Finished
from .store import Store

Status = Literal["done", "partly", "missing", "cannot run"]
ENOUGH = 1.5  # seconds of turns, and of readings, in a calibration


@dataclass(frozen=True)
class Planned:
    """A cell, how far it is, and seconds of one core: behind it, and still before it if that is known."""

    cell: Cell
    status: Status
    rounds: int  # behind it
    spent: float
    left: float | None
    why: str = ""  # it cannot be said


def progress(cell: Cell, store: Store, finished: dict[str, Finished]) -> Planned:
    """How far the cell is; what is left of one that has not begun is not known."""
    if done := finished.get(cell.settings.hash):
        return Planned(cell, "done", cell.settings.rounds, done.seconds.wall, 0.0)
    lines = store.lines(cell)
    if not lines:
        return Planned(cell, "missing", 0, 0.0, None)
    spent = sum(line.seconds.wall for line in lines)
    left = spent / len(lines) * (cell.settings.rounds - len(lines))
    return Planned(cell, "partly", len(lines), spent, left)


def plan(
    cells: Sequence[Cell],
    store: Store,
    *,
    data_dir: str | Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Planned]:
    """How far each different cell is, and what is left; cells that differ by their seeds cost the same."""
    finished, known = store.finished(tell), dict[str, Planned]()
    planned = []
    for cell in {cell.key: cell for cell in cells}.values():
        found = progress(cell, store, finished)
        if found.left is None:
            alike = cell.settings.with_(seed=0, data_seed=0, model_seed=0).hash
            if alike not in known:
                tell(f"calibrating: {cell.title}")
                known[alike] = calibrated(found, data_dir)
            found = replace(known[alike], cell=cell)
        planned.append(found)
    return planned


def calibrated(planned: Planned, data_dir: str | Path | None) -> Planned:
    """The same with an estimate, or why there is none: often the data are not at hand."""
    try:
        return replace(planned, left=estimate(planned.cell.settings, data_dir))
    except PluribusError as error:
        return replace(planned, status="cannot run", why=str(error).splitlines()[0])


# a short calibration ----------------------------------------------------------------------------------


def estimate(settings: Settings, data_dir: str | Path | None) -> float:
    """Seconds of one core for a run with these settings."""
    started = time.perf_counter()
    study = prepare(settings, data_dir, download=False)
    prepared = time.perf_counter() - started
    trying = Sample()
    now = first_round(study, trying)
    training, trying.seconds = trying.seconds, 0.0
    evaluate(study.place, now, trying, whole=now.trained)
    readings = -(-settings.rounds // settings.eval_every)
    return prepared + settings.rounds * training + readings * trying.seconds


def first_round(study: Study, sample: Sample) -> Round:
    """What holds after the first round, of which only a sample was done."""
    conduct = replace(study.conduct, quorum=0.0, tries=1, drop=0.0)
    return next(now for now in rounds(study.place, conduct, executor=sample) if now.ends)


class Sample:
    """Does some of the items, beginning with those of middling size; `seconds` is what all would take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def run(self, work: Any, items: Sequence[Any]) -> Iterator[Any]:
        sizes = [item.size_in(work) for item in items]
        middle = sorted(sizes)[len(sizes) // 2]
        spent, done = 0.0, 0
        for i in sorted(range(len(items)), key=lambda i: abs(sizes[i] - middle)):
            if spent < ENOUGH:
                started = time.perf_counter()
                yield from Serial().run(work, [items[i]])
                spent, done = spent + time.perf_counter() - started, done + sizes[i]
            elif isinstance(items[i], Look):
                yield Sight(items[i].number, {})
        self.seconds += spent * sum(sizes) / max(1, done)
