"""Races: the sides do the same rounds in turns, one at a time, so that all meet the same machine.

race(workload("fmnist-cnn"), repeats=5)             the engine beside the bare loop
race(workload("cifar-pfl"), [ours(), bare(), flower])
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import RunError
from ..study import Study
from .held import SETTINGS, WHERE
from .records import Lap, Race, machine, ratios_of, today, versions
from .side import Entrant, Side, bare, ours, started
from .task import write_task
from .workload import Workload, at_least_one, is_real, study_of

WORKERS = 2
FIRST = 1  # rounds that are not counted: everything is new in them
Hear = Callable[[str], None]


def race(
    workload: Workload,
    entrants: Sequence[Entrant] | None = None,
    *,
    repeats: int = 5,
    method: str = "fedavg",
    precision: str = "float32",
    workers: int = WORKERS,
    data_dir: str | Path | None = None,
    hear: Hear = lambda text: None,
) -> Race:
    """So many laps of every side; the usual ones are the engine and the bare loop."""
    at_least_one("repeats", repeats)
    at_least_one("workers", workers)
    entrants = [ours(), bare()] if entrants is None else entrants
    settings = workload.settled(FIRST + repeats * workload.lap + 1, method=method, precision=precision)
    study = study_of(settings, data_dir, rows_each=workload.rows_each)
    where = {"data_dir": data_dir and str(Path(data_dir).resolve()), "rows_each": workload.rows_each}
    with work(study, entrants, workers, precision=precision, where=where) as sides:
        rounds, product = in_turns(sides, repeats * workload.lap, hear), product_of(sides)
    laps = laps_of(rounds, workload.lap)
    ratios = ratios_of(laps, sides[0].entrant.name)
    against_bare = ratios.get("bare")
    return Race(
        setting=workload.name, title=workload.title, method=method, precision=precision, workers=workers,
        data="real" if is_real(study) else "random images of the same shape: they take as long",
        laps=laps, ratios=ratios, ratio=against_bare.median if against_bare else None,
        gflops=median(r["gflops"] for r in rounds["bare"]) if "bare" in rounds else None,
        product_gflops=product, machine=machine(), versions=versions(), date=today(),
    )  # fmt: skip


@contextmanager
def work(
    study: Study, entrants: Sequence[Entrant], workers: int, *, precision: str, where: dict[str, Any]
) -> Iterator[list[Side]]:
    """All sides at work on the study's rounds, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pluribus-bench-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        write_task(study, folder, precision=precision)
        (folder / SETTINGS).write_text(study.settings.to_toml(), encoding="utf-8")
        (folder / WHERE).write_text(json.dumps(where))
        sides = started(entrants, folder, workers)
        try:
            yield sides
        finally:
            for side in sides:
                side.close()


def in_turns(sides: Sequence[Side], rounds: int, hear: Hear) -> dict[str, list[dict[str, Any]]]:
    """What so many rounds of each side took; who goes first changes from one round to the next."""
    counted: dict[str, list[dict[str, Any]]] = {side.entrant.name: [] for side in sides}
    for number in range(FIRST + rounds):
        for side in sides if number % 2 else reversed(sides):
            answer = side.round(number)
            hear(f"round {number + 1}  {side.entrant.name:8} {answer['seconds']:8.3f} s")
            if number >= FIRST:
                counted[side.entrant.name].append(answer)
    return counted


def laps_of(rounds: Mapping[str, Sequence[Any]], every: int) -> dict[str, list[Lap]]:
    """Rounds put together to laps; an error if two sides did not do the same work."""
    laps = {name: [lap_of(each[i : i + every]) for i in range(0, len(each), every)]
            for name, each in rounds.items()}  # fmt: skip
    done = {name: [lap.samples for lap in each] for name, each in laps.items()}
    if len({tuple(samples) for samples in done.values()}) > 1:
        raise RunError(f"the sides did not do the same work; samples trained on in each lap: {done}")
    return laps


def lap_of(rounds: Sequence[Mapping[str, Any]]) -> Lap:
    seconds, train, evaluate = (sum(r[name] for r in rounds) for name in ("seconds", "train", "evaluate"))
    return Lap(seconds, train, evaluate, sum(r["samples"] for r in rounds), len(rounds))


def product_of(sides: Sequence[Side]) -> float | None:
    """GFLOP/s of a matrix product on the bare loop's processes, if it takes part."""
    found = next((side for side in sides if side.entrant.name == "bare"), None)
    return float(found.ask("product")["gflops"]) if found else None
