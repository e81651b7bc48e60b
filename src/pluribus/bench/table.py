"""What a race has shown, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from ..report.table import Column, Table
from .records import Race, Ratio


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def thousands(value: float) -> str:
    return f"{value:,.0f}"


def ratio(value: Ratio) -> str:
    """`1.043 (1.038 to 1.051)`: the median and the quartiles."""
    return f"{value.median:.3f} ({value.low:.3f} to {value.high:.3f})"


COLUMNS = (
    Column("side", "side"),
    Column("round", "s a round", seconds, right=True),
    Column("train", "training", seconds, right=True),
    Column("evaluate", "evaluation", seconds, right=True),
    Column("samples", "samples/s", thousands, right=True),
    Column("ratio", "first side over this one", ratio, right=True),
)


def race_table(race: Race) -> Table:
    """A row for each side: medians over its laps, and the first side's seconds over its own."""
    return Table(COLUMNS, tuple(rows(race)), tuple(notes(race)))


def rows(race: Race) -> Iterator[dict[str, Any]]:
    for name, laps in race.laps.items():
        yield {
            "side": name,
            "round": median(lap.seconds / lap.rounds for lap in laps),
            "train": median(lap.train / lap.rounds for lap in laps),
            "evaluate": median(lap.evaluate / lap.rounds for lap in laps),
            "samples": median(lap.samples / lap.seconds for lap in laps),
            "ratio": race.ratios.get(name),
        }


def notes(race: Race) -> Iterator[str]:
    """What was done, and how far it is from what the processor can do."""
    laps = next(iter(race.laps.values()))
    number, each = len(laps), laps[0].rounds
    many = (
        f"{number} lap{'s' * (number > 1)} of {each} rounds"
        if each > 1
        else f"{number} round{'s' * (number > 1)}"
    )
    yield f"{race.title}; {race.method}, {race.precision}, {race.workers} processes of one thread"
    yield f"{many} in turns; medians, and quartiles in brackets; data: {race.data}"
    if race.gflops is not None and race.product_gflops is not None:
        yield (
            f"the bare loop: {race.gflops:.0f} GFLOP/s; "
            f"a plain float32 matrix product on the same processes: {race.product_gflops:.0f}"
        )
