"""The verbs, in the order of help. Torch is imported inside verbs only: help answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from . import (
    bench,
    compare,
    data,
    datasets,
    export,
    methods,
    models,
    papers,
    partitions,
    reproduce,
    resume,
    run,
    show,
)
from .faults import version as installed
from .options import spread
from .printing import show_text

LOOKING, RUNNING, AFTERWARDS = "What there is", "Runs", "Afterwards"


def program() -> typer.Typer:
    """Personalised federated learning: one model for everybody, and for each client one of its own."""
    app = typer.Typer(
        name="pluribus",
        help=program.__doc__,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(about)
    add(app, LOOKING, methods.methods, datasets.datasets, partitions.partitions, models.models)
    add(app, LOOKING, papers.papers, show.show)
    app.add_typer(data.program(), name="data", rich_help_panel=LOOKING)
    add(app, RUNNING, spread(run.run), spread(compare.compare, without=("set_",)))
    add(app, RUNNING, reproduce.reproduce, bench.bench)
    add(app, AFTERWARDS, resume.resume, export.export)
    return app


def add(app: typer.Typer, panel: str, *verbs: Callable[..., None]) -> None:
    for verb in verbs:
        app.command(rich_help_panel=panel)(verb)


def say_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it like that
    if asked:
        show_text(f"pluribus {installed('pluribus')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=say_version, help="Print the version.")
]


def about(*, version: Version = False) -> None:
    """Options of the program itself."""
