"""An experiment: methods by settings by seeds, how its numbers are read, and what was published.

It is a value.  Its cells are resolved settings; rows that are two readings of one run share their cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from .. import data as datasets
from ..errors import SettingError, UnknownName
from ..settings import Settings

When = Literal["last", "best_on_test", "selected"]
Given = Mapping[str, Any]  # settings by the flat names of the command line
TOY: Given = MappingProxyType(
    {
        "data": "mnist-5k",
        "pool": "auto",
        "partition": "dirichlet:1",
        "clients": 40,
        "newcomers": 2,
        "join": "2",
        "rounds": 2,
        "eval_every": 2,
        "adapt_epochs": 1,
        "lr_at": (),
    }
)
WHEN = {
    "last": "after the last round",
    "best_on_test": "in its own best round on test data, which flatters it",
    "selected": "in the round that was best on validation data",
}
OVER = {"examples": "every example counting the same", "clients": "every client counting the same"}


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number of a run: of which reading, in which round, and what counts the same in it."""

    of: str = "personal"  # generic, personal, zero-shot, adapted; or a full name: personal/own predictor
    when: When = "last"  # newcomers are read at the end only
    over: Literal["examples", "clients"] = "examples"

    def __str__(self) -> str:
        newcomers = self.of in ("zero-shot", "adapted")
        return f"{self.of}, {OVER[self.over]}, {'at the end' if newcomers else WHEN[self.when]}"


@dataclass(frozen=True)
class Row:
    """A method as it is spelled, the numbers that its row shows (none named: all), and its own settings."""

    method: str
    reads: tuple[str, ...] = ()
    settings: Given = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One row's number is above another's, by more than so many points (below 0: or as close), everywhere."""

    better: tuple[str, str]  # row, number
    worse: tuple[str, str]
    by: float = 0.0

    def __str__(self) -> str:
        above, below = (f"{row} ({number})" for row, number in (self.better, self.worse))
        if self.by < 0:
            return f"{above} is above {below}, or within {-self.by:g} points of it"
        return f"{above} is above {below}" + (f" by {self.by:g} points" if self.by else "")


@dataclass(frozen=True)
class Cell:
    """One run of an experiment. `key` names its folder and its file: other settings, another cell."""

    row: str
    column: str
    settings: Settings  # resolved

    @property
    def title(self) -> str:
        return f"{self.row}, {self.column}, seed {self.settings.seed}"

    @property
    def key(self) -> str:
        return self.settings.hash[:16]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table: settings are those of all cells, then of the column, of the row, and of both together."""

    title: str
    settings: Given
    rows: Mapping[str, Row]
    columns: Mapping[str, Given]
    numbers: Mapping[str, Number]
    seeds: int = 1
    special: Mapping[tuple[str, str], Given] = field(default_factory=dict)  # row, column
    published: Mapping[tuple[str, str, str], float] = field(
        default_factory=dict
    )  # row, column, number: percent
    misprints: Mapping[tuple[str, str, str], str] = field(
        default_factory=dict
    )  # what is doubtful about those
    claims: tuple[Claim, ...] = ()
    note: str = ""  # what differs from the paper, and whatever else a reader must know
    instead: Given = field(default_factory=dict)  # above all other settings

    def __post_init__(self) -> None:
        for row, column, number in (*self.published, *self.misprints):
            check(row, self.rows, "row")
            check(column, self.columns, "column")
            check(number, self.reads(row), f"number of the row {row}")
        for row, column in self.special:
            check(row, self.rows, "row")
            check(column, self.columns, "column")
        for row, number in (side for claim in self.claims for side in (claim.better, claim.worse)):
            check(row, self.rows, "row")
            check(number, self.reads(row), f"number of the row {row}")

    def reads(self, row: str) -> tuple[str, ...]:
        """The names of the numbers that this row shows."""
        for number in self.rows[row].reads:
            check(number, self.numbers, "number")
        return self.rows[row].reads or tuple(self.numbers)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """One for each row, column and seed; the first seed of everything comes first."""
        return tuple(
            Cell(row, column, self.settings_of(row, column, seed))
            for seed in range(self.seeds)
            for column in self.columns
            for row in self.rows
        )

    def seeds_of(self, row: str, column: str) -> list[Settings]:
        """The settings of this row and column with each seed."""
        return [self.settings_of(row, column, seed) for seed in range(self.seeds)]

    def settings_of(self, row: str, column: str, seed: int) -> Settings:
        """The settings of a cell, resolved."""
        layers = (
            self.settings,
            self.columns[column],
            self.rows[row].settings,
            self.special.get((row, column), {}),
            self.instead,
            {"method": self.rows[row].method, "seed": seed},
        )
        given = {name: value for layer in layers for name, value in layer.items()}
        return Settings().with_given(given)[0].resolved()

    # less of it -------------------------------------------------------------------------------------------

    def narrowed(
        self,
        *,
        only: Collection[str] = (),
        data: Collection[str] = (),
        seeds: int | None = None,
        rounds: int | None = None,
    ) -> Experiment:
        """Only these rows, columns on these datasets, so many seeds, or another number of rounds."""
        if seeds is not None and seeds < 1:
            raise SettingError(f"seeds is {seeds}; it should be 1 or more")
        rows = {name: self.rows[check(name, self.rows, "row")] for name in only} or self.rows
        columns = {c: given for c, given in self.columns.items() if not data or self.is_on(c, data)}
        if not columns:
            known = {self.settings_of(row, c, 0).data for row in rows for c in self.columns}
            raise UnknownName("column on", ", ".join(data), known)
        instead = {**self.instead, **({} if rounds is None else {"rounds": rounds})}
        return self.kept(rows, columns, seeds or self.seeds, instead)

    def is_on(self, column: str, data: Collection[str]) -> bool:
        names = {datasets.entry(name).name for name in data}
        return any(self.settings_of(row, column, 0).data in names for row in self.rows)

    def kept(
        self, rows: Mapping[str, Row], columns: Mapping[str, Given], seeds: int, instead: Given
    ) -> Experiment:
        """The same with these rows and columns, and what is said about them."""

        def about(facts: Mapping[Any, Any]) -> dict[Any, Any]:
            return {key: fact for key, fact in facts.items() if key[0] in rows and key[1] in columns}

        return replace(
            self,
            rows=rows,
            columns=columns,
            seeds=seeds,
            instead=instead,
            special=about(self.special),
            published=about(self.published),
            misprints=about(self.misprints),
            claims=tuple(c for c in self.claims if c.better[0] in rows and c.worse[0] in rows),
        )

    @property
    def as_toy(self) -> Experiment:
        """The same methods and models on small embedded data, in seconds: for seeing that all of it runs."""
        nothing: dict[Any, Any] = {}
        less = replace(self, seeds=1, instead={**TOY, **self.instead}, claims=())
        return replace(less, published=nothing, misprints=nothing)

    @property
    def shown(self) -> Iterator[tuple[str, str, str]]:
        """Row, column and number of each line of its table."""
        return (
            (row, column, number)
            for column in self.columns
            for row in self.rows
            for number in self.reads(row)
        )


def check(name: str, known: Collection[str], kind: str) -> str:
    """The name, if it is known."""
    if name not in known:
        raise UnknownName(kind, name, known)
    return name
