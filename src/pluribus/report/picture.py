"""Who wins where: each method as a point, G to the right and P upwards."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.division import write_beside
from ..errors import SettingError
from .table import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

INK, FAINT, GRID = "#22303c", "#8895a0", "#e6eaed"
OWN, WHOLE, LOCAL = "#2f6690", "#c8553d", "#7a6c5d"
FONT: Any = {"svg.hashsalt": "pluribus", "svg.fonttype": "path", "font.family": "sans-serif", "font.size": 10}
PLACES = (
    (9, 0, "left", "center"),
    (0, 9, "center", "bottom"),
    (-9, 0, "right", "center"),
    (0, -9, "center", "top"),
    (8, 8, "left", "bottom"),
    (-8, 8, "right", "bottom"),
    (-8, -8, "right", "top"),
    (8, -8, "left", "top"),
    (14, 10, "left", "bottom"),
    (14, -10, "left", "top"),
    (22, 14, "left", "bottom"),
    (22, -14, "left", "top"),
    (-22, 14, "right", "bottom"),
    (-22, -14, "right", "top"),
)


@dataclass(frozen=True)
class Point:
    """A method: both readings over the seeds, and whether the generic one is a model of its own."""

    name: str
    generic: Spread
    personal: Spread
    own_generic: bool = True


def draw(points: Sequence[Point], local: float | None, folder: Path, title: str) -> list[Path]:
    """`picture.svg` and `picture.png` in this folder."""
    paths = [folder / "picture.svg", folder / "picture.png"]
    for path in paths:
        write_beside(path, rendered(points, local, title, path.suffix[1:]))
    return paths


def rendered(points: Sequence[Point], local: float | None, title: str, form: str) -> bytes:
    """The picture in this format; the same points give the same bytes."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise SettingError("a picture needs matplotlib\n    pip install 'pluribus[report]'") from None
    file = io.BytesIO()
    with rc_context(FONT):
        figure = scatter(points, local, title)
        figure.savefig(file, format=form, dpi=160, metadata={"Date": None} if form == "svg" else None)
    return file.getvalue()


def scatter(points: Sequence[Point], local: float | None, title: str) -> Figure:
    """The figure: points, the line of Local, the diagonal on which both readings are equal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    limit(axes, points, local)
    furnish(axes, title)
    diagonal(axes)
    if local is not None:
        reference(axes, local)
    for point in points:
        place(axes, point)
    legend(axes, points)
    name_points(figure, axes, points, local)
    return figure


def limit(axes: Axes, points: Sequence[Point], local: float | None) -> None:
    """Both axes with the same scale, and room for names."""
    x = [100 * p.generic.mean for p in points] or [50.0]
    y = [100 * p.personal.mean for p in points] + ([] if local is None else [100 * local]) or [50.0]
    room = max(6.0, 0.16 * max(max(x) - min(x), max(y) - min(y)))
    axes.set_xlim(max(-1, min(x) - room), min(101, max(x) + 1.4 * room))
    axes.set_ylim(max(-1, min(y) - room), min(101, max(y) + room))


def furnish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=INK, pad=12)
    axes.set_xlabel("G: one model for everybody, accuracy in %", color=INK)
    axes.set_ylabel("P: each client's own model, accuracy in %", color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=FAINT)
    axes.spines[:].set_visible(False)


def diagonal(axes: Axes) -> None:
    """Where a client's own model is no better on its data than the common one on all."""
    low = max(axes.get_xlim()[0], axes.get_ylim()[0])
    high = min(axes.get_xlim()[1], axes.get_ylim()[1])
    if low < high:
        axes.plot([low, high], [low, high], color=FAINT, linewidth=0.9, dashes=(2, 3), zorder=1)
        axes.annotate(
            "P = G",
            (low, low),
            (14, 5),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize=8,
            color=FAINT,
        )


def reference(axes: Axes, local: float) -> None:
    """What everybody has alone."""
    axes.axhline(100 * local, color=LOCAL, linewidth=1.1, dashes=(6, 3), zorder=1)
    axes.annotate(
        "Local",
        (1, 100 * local),
        (-2, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=LOCAL,
        bbox={"fc": "white", "ec": "none", "pad": 1},
    )


def place(axes: Axes, point: Point) -> None:
    """A dot, hollow if its G is a mean of whole models, with the deviation over seeds."""
    x, y = 100 * point.generic.mean, 100 * point.personal.mean
    colour = OWN if point.own_generic else WHOLE
    across, up = (100 * (reading.deviation or 0) for reading in (point.generic, point.personal))
    axes.errorbar(x, y, up, across, fmt="none", ecolor=colour, elinewidth=1.1, alpha=0.55, zorder=2)
    axes.plot(
        x,
        y,
        "o",
        markersize=8,
        markeredgewidth=1.8,
        markeredgecolor=colour,
        markerfacecolor=colour if point.own_generic else "white",
        zorder=3,
    )


def legend(axes: Axes, points: Sequence[Point]) -> None:
    """Says what a hollow dot is, if there is one."""
    if all(point.own_generic for point in points):
        return
    for filled, words in ((True, "has a model for everybody"), (False, "has none: mean of whole models")):
        colour = OWN if filled else WHOLE
        axes.plot(
            [],
            [],
            "o",
            markersize=6,
            markeredgewidth=1.6,
            markeredgecolor=colour,
            label=words,
            markerfacecolor=colour if filled else "white",
        )
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        ncols=2,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handletextpad=0.2,
    )


def name_points(figure: Figure, axes: Axes, points: Sequence[Point], local: float | None) -> None:
    """Each name beside its dot, where it covers no other name, no dot and no line of Local."""
    figure.draw_without_rendering()
    taken = [box for point in points for box in around(axes, point)]
    taken += [] if local is None else [along(axes, local)]
    for point in points:
        name = clearest([named(axes, point, *place) for place in PLACES], taken, axes)
        taken.append(name.get_window_extent())


def named(axes: Axes, point: Point, dx: float, dy: float, ha: str, va: str) -> Annotation:
    return axes.annotate(
        point.name,
        (100 * point.generic.mean, 100 * point.personal.mean),
        (dx, dy),
        ha=ha,
        va=va,
        textcoords="offset points",
        fontsize=10,
        color=INK,
        zorder=4,
    )


def clearest(names: Sequence[Annotation], taken: Sequence[Bbox], axes: Axes) -> Annotation:
    """The first of these that covers least; the others are taken away."""
    inside = axes.get_window_extent()

    def covered(name: Annotation) -> int:
        box = name.get_window_extent()
        outside = not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1))
        return sum(box.overlaps(other) for other in taken) + 10 * outside

    best = min(names, key=covered)
    for name in names:
        if name is not best:
            name.remove()
    return best


def around(axes: Axes, point: Point) -> list[Bbox]:
    """The room that a dot takes, and the two lines of its deviation."""
    from matplotlib.transforms import Bbox

    readings = point.generic, point.personal
    low, high = ([100 * (r.mean + sign * (r.deviation or 0)) for r in readings] for sign in (-1, 1))
    (left, bottom), (right, top) = axes.transData.transform([low, high])
    x, y = (left + right) / 2, (bottom + top) / 2
    lines = [Bbox.from_extents(left, y - 1, right, y + 1), Bbox.from_extents(x - 1, bottom, x + 1, top)]
    return [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7), *lines]


def along(axes: Axes, local: float) -> Bbox:
    """The room that the line of Local takes."""
    from matplotlib.transforms import Bbox

    (left, _), (right, _) = axes.transAxes.transform([(0, 0), (1, 1)])
    y = axes.transData.transform((0, 100 * local))[1]
    return Bbox.from_extents(left, y - 2, right, y + 2)
