"""`pluribus reproduce NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..errors import RunError
from .options import AsJson, AsMarkdown, Cells, DataDir, Quiet
from .printing import note, show_table

if TYPE_CHECKING:
    from ..experiments.work import Filled


def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help="Experiment, as listed by `pluribus papers`.")],
    *,
    only: Annotated[
        list[str] | None, Option(metavar="ROW", help="Only this row; may be given several times.")
    ] = None,
    data: Annotated[
        list[str] | None, Option(help="Only settings on this dataset; may be given several times.")
    ] = None,
    seeds: Annotated[int | None, Option(help="How many seeds, beginning with 0.")] = None,
    rounds: Annotated[int | None, Option(help="Another number of rounds: other cells.")] = None,
    plan: Annotated[
        bool, Option("--plan", help="Run nothing; show each cell, how far it is, and what it would take.")
    ] = False,
    quick: Annotated[
        bool, Option("--quick", help="The same at toy size, in seconds, into runs/quick.")
    ] = False,
    cells: Cells = None,
    workers: Annotated[
        int | None, Option(help="Cells at once, and worker processes in all; one a core if not given.")
    ] = None,
    minutes: Annotated[
        float | None, Option(help="Stop after so many minutes, at the end of a round; the rest is resumed.")
    ] = None,
    data_dir: DataDir = None,
    json: AsJson = False,
    markdown: AsMarkdown = False,
    quiet: Quiet = False,
) -> None:
    """Run what is missing of an experiment, and show our numbers beside the published ones."""
    from ..executors.processes import cores
    from ..experiments import experiment
    from ..experiments.plan import plan as planned
    from ..experiments.store import Store
    from ..experiments.work import fill
    from ..report.reproduction import plan_table, reproduction_table

    found = experiment(name).narrowed(only=only or (), data=data or (), seeds=seeds, rounds=rounds)
    found, store = (found.as_toy, Store.quick(cells)) if quick else (found, Store.at(cells))
    tell = (lambda _: None) if quiet else note
    if plan:
        cost = planned(found.cells, store, data_dir=data_dir, tell=tell)
        show_table(plan_table(found, cost, workers or cores()), json=json, markdown=markdown)
        return
    filled = fill(found.cells, store, workers=workers, minutes=minutes, data_dir=data_dir, tell=tell)
    shown = reproduction_table(found, store.finished(lambda _: None), filled.failed)
    show_table(shown, json=json, markdown=markdown)
    say_what_is_left(filled, minutes)


def say_what_is_left(filled: Filled, minutes: float | None) -> None:
    """Why not everything is in the table; an error if something cannot be run."""
    if filled.time_is_up:
        note(f"stopped after {minutes:g} minutes; the same command goes on from there")
    if filled.failed:
        raise RunError(f"{len(filled.failed)} cells could not be run\n    the notes above say why")
