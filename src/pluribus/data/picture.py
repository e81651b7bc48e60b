"""The papers' picture of a division: a bubble for each client and class, and the same numbers as CSV."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ..errors import SettingError
from .division import Division, write_beside
from .partitions import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".pdf", ".png")
TRAINS, HELD_OUT = "#3b6ea5", "#d08a3c"


def draw(division: Division, labels: Rows | Tensor, classes: Sequence[str], path: str | Path) -> Rows:
    """The matrix of counts (everyone x classes), drawn at this path and written as CSV beside it."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise SettingError(f"cannot draw '{path.name}'; its name should end in {', '.join(FORMATS)}")
    counts = division.counts(labels, len(classes))
    write_beside(path, rendered(bubbles(division, counts, classes), path.suffix))
    write_beside(path.with_suffix(".csv"), table(division, counts, classes))
    return counts


def table(division: Division, counts: Rows, classes: Sequence[str]) -> bytes:
    """The counts as CSV, one line for each client."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["client", "role", *classes])
    for name, row in zip(division.everyone, counts.tolist(), strict=True):
        writer.writerow([name, "newcomer" if name in division.newcomers else "client", *row])
    return text.getvalue().encode()


def bubbles(division: Division, counts: Rows, classes: Sequence[str]) -> "Figure":
    """x the client, y the class, area proportional to the number of samples."""
    figure = empty_figure(*counts.shape)
    axes = figure.add_subplot()
    x, y = np.nonzero(counts)
    held = np.array([name in division.newcomers for name in division.everyone])
    axes.scatter(
        x, y, s=areas(figure, counts)[x, y], c=np.where(held[x], HELD_OUT, TRAINS), alpha=0.75, linewidths=0
    )
    label(axes, division, classes)
    return figure


def empty_figure(clients: int, classes: int) -> "Figure":
    """A figure with room for every bubble: 0.3 inches a client where there are few, never too wide."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError("a picture needs matplotlib\n    pip install 'pluribus[report]'") from None
    return Figure(
        figsize=(min(14.0, 2 + 0.3 * clients), min(12.0, 1.2 + 0.26 * classes)), layout="constrained"
    )


def areas(figure: "Figure", counts: Rows) -> Rows:
    """Areas in square points; the largest bubble is as wide as the room for one client or class allows."""
    width, height = figure.get_size_inches()
    room = min(2.2 * (width - 1.5) / counts.shape[0], 1.2 * (height - 0.8) / counts.shape[1])
    return np.asarray(counts / max(1, counts.max()) * (72 * room) ** 2)


def label(axes: "Axes", division: Division, classes: Sequence[str]) -> None:
    """Names along both sides, as many as can be read, and what was divided how."""
    names = list(division.everyone)
    axes.set_xticks(every(len(names), 40), [names[i] for i in every(len(names), 40)], fontsize=7, rotation=90)
    axes.set_yticks(every(len(classes), 50), [classes[k] for k in every(len(classes), 50)], fontsize=8)
    axes.set_xlim(-1, len(names))
    axes.set_ylim(-0.8, len(classes) - 0.2)
    axes.set_axisbelow(True)
    axes.grid(linewidth=0.3, color="0.85")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(caption(division), fontsize=9, loc="left")


def caption(division: Division) -> str:
    recipe, newcomers = division.recipe, len(division.newcomers)
    held = f" and {newcomers} newcomers (orange)" if newcomers else ""
    return f"{recipe.data}, {recipe.partition}, {len(division.clients)} clients{held}, seed {recipe.seed}"


def every(number: int, most: int) -> list[int]:
    """Positions 0, n, 2n, ... for the smallest n of 1, 2, 5, 10, 20, ... that gives at most so many."""
    steps = (step * 10**power for power in range(9) for step in (1, 2, 5))
    return list(range(0, number, next(step for step in steps if number <= step * most)))


def rendered(figure: "Figure", suffix: str) -> bytes:
    """The figure in this format; the same figure gives the same bytes."""
    from matplotlib import rc_context

    picture, date = io.BytesIO(), {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with rc_context({"svg.hashsalt": "pluribus"}):
        figure.savefig(picture, format=suffix[1:], dpi=150, metadata=date)
    return picture.getvalue()
