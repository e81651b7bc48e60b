"""Several methods side by side: the same data, clients and seeds, and one run folder for each of them.

found, notes = contenders(["fedavg", "fedrep:head_epochs=5"], Settings(rounds=20), seeds=[0, 1, 2])
comparison = compare(found, out="runs/mine")
print(as_markdown(comparison_table(comparison)))
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..data import short
from ..data.division import write_beside
from ..errors import RunError, SettingError
from ..executors import Executor
from ..methods import METHODS
from ..runs import Interrupted, Listener, Reading, Result, resume, rounds_in, run
from ..settings import Settings
from ..study import prepare
from .picture import Point, draw
from .table import (
    Column,
    Noted,
    Spread,
    Table,
    as_data,
    as_markdown,
    duration,
    megabytes,
    percent,
    plain,
    points,
)

How = Literal["last", "best_on_test", "selected"]
READ = {
    "last": "read after the last round",
    "best_on_test": "G and P each read in its best round on test data, which flatters both",
    "selected": "read in the round that was best on validation data",
}
MARKER = "comparison.json"


@dataclass(frozen=True)
class Contender:
    """One run of a comparison: the method as it was spelled, and the run's settings, resolved."""

    name: str
    settings: Settings

    @property
    def folder(self) -> str:
        """Its folder's name: other settings, another folder."""
        slug = re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")
        return f"{slug}-seed{self.settings.seed}-{self.settings.hash[:8]}"


@dataclass(frozen=True)
class Cell:
    """A contender and what came of it."""

    name: str
    seed: int
    folder: Path
    result: Result
    asked: int  # turns that were asked for, over all rounds
    heard: int  # and that came back

    def generic(self, how: How) -> float | None:
        return in_reading(self.result.generic, how)

    def personal(self, how: How) -> float | None:
        return in_reading(self.result.personal, how)


@dataclass(frozen=True)
class Comparison:
    """What came of all contenders, in the order in which they were given."""

    folder: Path
    how: How
    cells: tuple[Cell, ...]
    pictures: tuple[Path, ...] = field(default=())

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(cell.name for cell in self.cells))

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(cell.seed for cell in self.cells))

    def of(self, name: str) -> list[Cell]:
        """A method's cells, one for each seed."""
        return [cell for cell in self.cells if cell.name == name]

    @property
    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        runs = [
            {"name": c.name, "seed": c.seed, "run_dir": c.folder, "result": msgspec.to_builtins(c.result)}
            for c in self.cells
        ]
        document: dict[str, Any] = plain(
            {
                "reading": self.how,
                "read": READ[self.how],
                "seeds": self.seeds,
                **as_data(comparison_table(self)),
                "pictures": self.pictures,
                "folder": self.folder,
                "runs": runs,
            }
        )
        return document


# who takes part ---------------------------------------------------------------------------------------


def contenders(
    methods: Iterable[str],
    base: Settings,
    given: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] = (0,),
    local: bool = True,
) -> tuple[list[Contender], list[str]]:
    """A contender for each method and seed, and notes on settings. Local is added if nobody named it."""
    names = list(dict.fromkeys(methods))
    if not names or not seeds:
        raise SettingError(f"nothing to compare: {len(names)} methods, {len(seeds)} seeds")
    if local and not any(name.partition(":")[0] == "local" for name in names):
        names = ["local", *names]
    made = [
        (name, base.with_given({**(given or {}), "method": name, "seed": seed}))
        for name in names
        for seed in dict.fromkeys(seeds)
    ]
    notes = dict.fromkeys(note for _, (_, found) in made for note in found)
    return [Contender(name, settings.resolved()) for name, (settings, _) in made], list(notes)


def read_seeds(text: str) -> list[int]:
    """`3` is 0, 1, 2; `0,4` is what it says."""
    try:
        seeds = [int(piece) for piece in text.split(",") if piece.strip()]
    except ValueError:
        raise SettingError(f"seeds is '{text}'; it should be how many (3) or which (0,1)") from None
    if "," in text:
        return seeds
    if not seeds or seeds[0] < 1:
        raise SettingError(f"seeds is '{text}'; it should be 1 or more, or a list such as 0,1")
    return list(range(seeds[0]))


# the runs ---------------------------------------------------------------------------------------------


def compare(
    found: Sequence[Contender],
    *,
    out: str | PathLike[str] | None = None,
    data_dir: str | Path | None = None,
    how: How = "last",
    executor: Executor | None = None,
    listener: Listener | None = None,
    memory: float | None = None,
) -> Comparison:
    """Runs what was not run, resumes what was interrupted, and writes table and picture into the folder."""
    tell = listener.note if listener else lambda _: None
    folder = Path(out) if out is not None else usual_folder(found)
    check(found, how, folder, data_dir)
    open_(folder, found)
    how_run = {"data_dir": data_dir, "executor": executor, "listener": listener, "memory": memory}
    cells = []
    for number, contender in enumerate(found, start=1):
        tell(f"{number} of {len(found)}: {contender.name}, seed {contender.settings.seed}")
        cells.append(done(contender, folder, **how_run))
    check_same_clients(cells)
    return written(Comparison(folder, how, tuple(cells)), found[0].settings)


def check(found: Sequence[Contender], how: How, folder: Path, data_dir: str | Path | None) -> None:
    """An error before work starts, if some contender cannot run or the reading cannot be taken."""
    if how not in READ:
        raise SettingError(f"reading is '{how}'; it should be one of {', '.join(READ)}")
    if how == "selected" and not all(c.settings.val for c in found):
        raise SettingError(
            "reading is 'selected', but there are no validation data\n    val=0.1 would set some aside"
        )
    for contender in found:
        if not (folder / contender.folder).exists():
            prepare(contender.settings, data_dir)


def usual_folder(found: Sequence[Contender]) -> Path:
    """A folder of its own for each comparison; the same one for the same."""
    key = hashlib.sha256("".join(c.folder for c in found).encode()).hexdigest()[:8]
    return Path("runs") / f"compare-{short(found[0].settings.data)}-{key}"


def open_(folder: Path, found: Sequence[Contender]) -> None:
    """Makes the folder, or goes on in it if it is a comparison's."""
    marker = folder / MARKER
    try:
        if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} exists and is not a comparison's folder\n    --out names another one")
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            marker.write_bytes(msgspec.json.encode({"runs": [c.folder for c in found]}))
    except OSError as error:
        raise RunError(
            f"cannot write into {folder}: {error.strerror}\n    --out names another folder"
        ) from None


def done(contender: Contender, folder: Path, **how: Any) -> Cell:
    """The contender's cell: its run as it is, resumed, or begun."""
    path, begun = folder / contender.folder, (folder / contender.folder / "settings.toml").exists()
    try:
        result = resume(path, **how) if begun else run(contender.settings, out=path, **how)
    except Interrupted as stop:
        raise KeyboardInterrupt(
            f"{contender.name}, seed {contender.settings.seed}: stopped after round {stop.round} of "
            f"{stop.rounds}\n    the same command goes on from there"
        ) from stop
    lines = rounds_in(path)
    return Cell(
        contender.name,
        contender.settings.seed,
        path,
        result,
        sum(line.cohort.asked for line in lines),
        sum(line.cohort.heard for line in lines),
    )


def check_same_clients(cells: Sequence[Cell]) -> None:
    """An error if methods of one seed did not have the same clients: nothing could be compared."""
    for seed in dict.fromkeys(cell.seed for cell in cells):
        hashes = {cell.result.partition_hash: cell.name for cell in cells if cell.seed == seed}
        if len(hashes) > 1:
            raise RunError(f"with seed {seed}, {' and '.join(hashes.values())} had different partitions")


def written(comparison: Comparison, settings: Settings) -> Comparison:
    """The same, with its table and picture in its folder."""
    shown, alone = points_of(comparison), over(locals_of(comparison), lambda c: c.personal(comparison.how))
    pictures = draw(shown, alone.mean if alone else None, comparison.folder, caption(comparison, settings))
    comparison = replace(comparison, pictures=tuple(pictures))
    write_beside(
        comparison.folder / "comparison.md", f"{as_markdown(comparison_table(comparison))}\n".encode()
    )
    write_beside(comparison.folder / MARKER, msgspec.json.format(msgspec.json.encode(comparison.as_data)))
    return comparison


def caption(comparison: Comparison, settings: Settings) -> str:
    seeds, result = comparison.seeds, comparison.cells[0].result
    said = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{result.data}, {result.partition}, {result.clients} clients, {settings.rounds} rounds, {said}"


# the table and the picture ------------------------------------------------------------------------------

COLUMNS = (
    Column("name", "method"),
    Column("generic", "G", percent, right=True),
    Column("personal", "P", percent, right=True),
    Column("gain", "over Local", points, right=True),
    Column("worst_tenth", "worst 10 %", percent, right=True),
    Column("zero_shot", "newcomers", percent, right=True),
    Column("adapted", "adapted", percent, right=True),
    Column("up", "MB up", megabytes, right=True),
    Column("down", "MB down", megabytes, right=True),
    Column("seconds", "time", duration, right=True),
)


def comparison_table(comparison: Comparison) -> Table:
    """A row for each method: means over the seeds, with their deviation if there are several."""
    rows = tuple(row(comparison, name) for name in comparison.names)
    shown = tuple(c for c in COLUMNS if any(r[c.key] is not None for r in rows))
    return Table(shown, rows, tuple(notes(comparison)))


def row(comparison: Comparison, name: str) -> dict[str, Any]:
    cells, how = comparison.of(name), comparison.how
    return {
        "name": name,
        "generic": generic_of(cells, how),
        "personal": over(cells, lambda c: c.personal(how)),
        "gain": gain(comparison, name),
        "worst_tenth": over(cells, lambda c: c.result.personal.worst_tenth),
        "zero_shot": over(cells, lambda c: c.result.newcomers.zero_shot),
        "adapted": over(cells, lambda c: c.result.newcomers.adapted),
        "up": sum(c.result.payload_bytes.up for c in cells) / max(1, sum(c.heard for c in cells)),
        "down": sum(c.result.payload_bytes.down for c in cells) / max(1, sum(c.asked for c in cells)),
        "seconds": sum(c.result.seconds.wall for c in cells) / len(cells),
    }


def over(cells: Sequence[Cell], value: Callable[[Cell], float | None]) -> Spread | None:
    """The mean over the seeds; nothing if some seed has no such value."""
    values = [found for cell in cells if (found := value(cell)) is not None]
    return Spread(tuple(values)) if values and len(values) == len(cells) else None


def in_reading(reading: Reading, how: How) -> float | None:
    match how:
        case "last":
            return reading.last
        case "best_on_test":
            return reading.best_on_test
        case "selected":
            return reading.selected


def generic_of(cells: Sequence[Cell], how: How) -> Spread | Noted | None:
    """G; where it is the mean of whole models, or missing, the note says so and why."""
    found, why = over(cells, lambda c: c.generic(how)), no_generic(cells[0].result)
    if not why:
        return found
    without = f"has no model for everybody, since {cells[0].result.missing.get('generic', why)}"
    return Noted(found, f"{without}; G is the mean of its clients' whole models" if found else without)


def no_generic(result: Result) -> str:
    """The method's reason for having no generic predictor; empty if it has one."""
    if why := METHODS[result.method]().why_no_generic():
        return why
    as_set = "as it is set, some of what everybody would need stays with each client"
    return as_set if "generic/whole models" in result.readings else result.missing.get("generic", "")


def gain(comparison: Comparison, name: str) -> Spread | None:
    """P over that of Local with the same seed."""
    cells, how = comparison.of(name), comparison.how
    alone = {c.seed: c.personal(how) for c in locals_of(comparison)}
    if not alone or cells[0] in locals_of(comparison):
        return None
    return over(cells, lambda c: difference(c.personal(how), alone[c.seed]))


def difference(value: float | None, reference: float | None) -> float | None:
    return None if value is None or reference is None else value - reference


def locals_of(comparison: Comparison) -> list[Cell]:
    """The cells of Local, the reference: of its first spelling, if there are several."""
    found = [cell for cell in comparison.cells if cell.result.method == "local"]
    return [cell for cell in found if cell.name == found[0].name]


def notes(comparison: Comparison) -> list[str]:
    """How the numbers were read."""
    seeds, result = comparison.seeds, comparison.cells[0].result
    several = (
        f"; mean ± standard deviation over the seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else ""
    )
    held, epochs = result.newcomers.clients, result.settings["adapt_epochs"]
    newcomers = (
        f"newcomers: {held} that never took part, as they come, and adapted by {epochs} epochs of their own"
    )
    return [
        f"accuracy in %, every example counting the same, {READ[comparison.how]}{several}",
        "over Local: P less that of Local with the same seed; worst 10 %: P of these clients, last round",
        *([newcomers] if held else []),
        "MB: payload of one client in one round, of those that take part in it; time: one run, wall clock",
    ]


def points_of(comparison: Comparison) -> list[Point]:
    """A point for each method that has both readings; Local is a line."""
    alone = {cell.name for cell in locals_of(comparison)}
    rows = [row(comparison, name) for name in comparison.names if name not in alone]
    return [point for r in rows if (point := point_of(r))]


def point_of(row: Mapping[str, Any]) -> Point | None:
    own = not isinstance(row["generic"], Noted)
    generic = row["generic"] if own else row["generic"].value
    return Point(row["name"], generic, row["personal"], own) if generic and row["personal"] else None
