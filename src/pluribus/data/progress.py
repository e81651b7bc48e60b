"""What is seen of long work: a bar in a terminal, a few plain lines elsewhere, always on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

Report = Callable[[int], None]
PLAIN_STEPS = 4


@contextmanager
def progress(title: str, total: int) -> Iterator[Report]:
    """A function to be told how many of the bytes are there."""
    with seen(title, "fetching", total, megabytes, DownloadColumn()) as report:
        yield report


@contextmanager
def counted(title: str, total: int, verb: str = "decoding") -> Iterator[Report]:
    """A function to be told how many of the images are decoded."""
    with seen(f"{title}, images", verb, total, "{:,}".format, MofNCompleteColumn()) as report:
        yield report


@contextmanager
def seen(
    title: str, verb: str, total: int, unit: Callable[[int], str], column: ProgressColumn
) -> Iterator[Report]:
    """A bar in a terminal, lines elsewhere."""
    console = Console(stderr=True)
    terminal = console.is_terminal
    shown = bar(title, total, console, column) if terminal else lines(title, total, console, verb, unit)
    with shown as report:
        yield report


@contextmanager
def bar(title: str, total: int, console: Console, column: ProgressColumn | None = None) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        column or DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as display:
        task = display.add_task(title, total=total)
        yield lambda done: display.update(task, completed=done)


@contextmanager
def lines(
    title: str, total: int, console: Console, verb: str = "fetching", unit: Callable[[int], str] | None = None
) -> Iterator[Report]:
    """A line at the start, and at each quarter."""
    reached, unit = 0, unit or megabytes

    def report(done: int) -> None:
        nonlocal reached
        step = done * PLAIN_STEPS // max(total, 1)
        if step > reached:
            reached = step
            console.out(f"{title}: {unit(done)} of {unit(total)}", highlight=False)

    console.out(f"{title}: {verb} {unit(total)}", highlight=False)
    yield report


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def note(text: str) -> None:
    """A line on stderr."""
    Console(stderr=True).out(text, highlight=False)
