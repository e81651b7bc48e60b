"""A run as it goes: a live bar in a terminal, a line for each round that is read otherwise. All on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..readings.evaluate import Readings
from ..report.table import NOTHING, megabytes, percent
from ..runs import Line, Listener
from ..study import Study
from . import printing


class Quiet(Listener):
    """Warnings only."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def started(self, study: Study, folder: Path) -> None:
        for warning in study.warnings:
            printing.warn(warning, self.console)


class Plain(Quiet):
    """A line for each round that is read."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.rounds = 0

    def started(self, study: Study, folder: Path) -> None:
        super().started(study, folder)
        self.rounds = study.settings.rounds
        self.note(f"{title(study)}, in {folder}")

    def evaluated(self, round: int, readings: Readings, line: Line) -> None:
        self.note(f"round {round}/{self.rounds}  {in_numbers(readings, line)}")

    def note(self, text: str) -> None:
        printing.note(text, self.console)


class Live(Plain):
    """A bar with the time left and the last readings."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.console)
        self.progress = progress
        self.bar: TaskID | None = None

    def started(self, study: Study, folder: Path) -> None:
        super().started(study, folder)
        self.bar = self.progress.add_task(study.settings.method, total=self.rounds, readings="")

    def passed(self, line: Line) -> None:
        if self.bar is not None:
            self.progress.update(self.bar, completed=line.round)

    def evaluated(self, round: int, readings: Readings, line: Line) -> None:
        if self.bar is not None:
            self.progress.update(self.bar, readings=in_numbers(readings, line))


def title(study: Study) -> str:
    """What is run, in a few words."""
    settings = study.settings
    return (
        f"{settings.method} on {settings.data}, {settings.partition}, {len(study.federation)} clients, "
        f"{settings.model}, seed {settings.seed}"
    )


def in_numbers(readings: Readings, line: Line) -> str:
    """`G 81.2  P 93.4  loss 0.123  12.3 MB`."""
    generic, personal = (reading(readings, kind) for kind in ("generic", "personal"))
    loss = NOTHING if line.loss is None else f"{line.loss:.3f}"
    moved = megabytes(line.total_bytes.up + line.total_bytes.down)
    return f"G {generic}  P {personal}  loss {loss}  {moved} MB"


def reading(readings: Readings, kind: str) -> str:
    accuracy = readings.accuracy(kind)
    return NOTHING if accuracy is None else percent(accuracy)


@contextmanager
def display(*, quiet: bool) -> Iterator[Listener]:
    """Inside, a listener that shows what it hears."""
    console = printing.notes()
    if quiet:
        yield Quiet(console)
    elif not console.is_terminal:
        yield Plain(console)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[readings]}"),
        )
        with Progress(*columns, console=console, refresh_per_second=4) as progress:
            yield Live(progress)
