"""A table as a value; it is shown in a terminal, as Markdown, or as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import rich.table

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """One column: where its value stands in a row, what stands above it, and how a value is written."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    right: bool = False


@dataclass(frozen=True)
class Noted:
    """A value, or the lack of one, with a footnote."""

    value: Any
    note: str


@dataclass(frozen=True)
class Spread:
    """The mean of several values, and their deviation; of a single one there is none."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of a sample (n - 1)."""
        if len(self.values) < 2:
            return None
        return math.sqrt(sum((v - self.mean) ** 2 for v in self.values) / (len(self.values) - 1))


@dataclass(frozen=True)
class Table:
    """Rows are mappings; what a row has beyond the columns is in the JSON only."""

    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()  # about the whole table
    title: str = ""

    @property
    def footnotes(self) -> list[str]:
        """The different notes of single cells, in the order in which they are met."""
        cells = [row.get(c.key) for row in self.rows for c in self.columns]
        return list(dict.fromkeys(cell.note for cell in cells if isinstance(cell, Noted)))

    @property
    def cells(self) -> list[list[str]]:
        """What stands in each row, as text."""
        marks = {note: mark(number) for number, note in enumerate(self.footnotes)}
        return [[cell_text(row.get(c.key), c.show, marks) for c in self.columns] for row in self.rows]

    @property
    def below(self) -> list[str]:
        """The lines under the table."""
        return [*(f"{mark(number)} {note}" for number, note in enumerate(self.footnotes)), *self.notes]


def mark(number: int) -> str:
    """A footnote's sign: a, b, c, ... aa, ab, ..."""
    letter = chr(ord("a") + number % 26)
    return letter if number < 26 else mark(number // 26 - 1) + letter


def cell_text(value: Any, show: Callable[[Any], str], marks: Mapping[str, str]) -> str:
    match value:
        case Noted(value=inner, note=note):
            return f"{cell_text(inner, show, marks)} {marks[note]}"
        case Spread():
            mean, deviation = show(value.mean), value.deviation
            return mean if deviation is None else f"{mean} ± {show(deviation).lstrip('+')}"
        case float() if not math.isfinite(value):
            return NOTHING
        case None:
            return NOTHING
    return show(value)


# how values are written ----------------------------------------------------------------------------


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def points(value: float) -> str:
    """A difference of two fractions, in percentage points."""
    return f"{100 * value:+.1f}"


def megabytes(value: float) -> str:
    return f"{value / 1e6:.2f}" if value < 100e6 else f"{value / 1e6:,.0f}"


def duration(value: float) -> str:
    """Seconds as 8.2 s, 3:07 or 1:02:03."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def number(value: float) -> str:
    return f"{value:,}"


# the three forms ------------------------------------------------------------------------------------


def as_rich(table: Table) -> rich.table.Table:
    """For a terminal; the lines below the table are not part of it."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(
        box=box.SIMPLE_HEAD,
        title=table.title or None,
        title_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for number, column in enumerate(table.columns):
        style = "bold" if number == 0 else ""
        shown.add_column(column.title, justify="right" if column.right else "left", style=style)
    for cells in table.cells:
        shown.add_row(*map(Text, cells))
    return shown


def as_markdown(table: Table) -> str:
    """A Markdown table, and the lines below it."""
    rules = ["---:" if column.right else "---" for column in table.columns]
    lines = [[column.title for column in table.columns], rules, *table.cells]
    head = [f"**{table.title}**", ""] if table.title else []
    below = ["", *(f"{line}  " for line in table.below)] if table.below else []
    return "\n".join([*head, *(f"| {' | '.join(map(escaped, line))} |" for line in lines), *below])


def escaped(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def as_data(table: Table) -> dict[str, Any]:
    """For JSON: raw values by their keys; a note stands beside its value as `<key>_note`."""
    rows = [dict(pair for item in row.items() for pair in as_pairs(*item)) for row in table.rows]
    return {"rows": rows, "notes": list(table.notes)}


def as_pairs(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Noted):
        yield from as_pairs(key, value.value)
        yield f"{key}_note", value.note
    elif isinstance(value, Spread):
        yield key, plain({"mean": value.mean, "deviation": value.deviation, "values": value.values})
    else:
        yield key, plain(value)


def plain(value: Any) -> Any:
    """The value as JSON has it; what is not a number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)
