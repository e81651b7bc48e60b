"""`pluribus show NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from typer import Argument, Option

from .options import AsJson, DataDir
from .printing import note, results, show_json, show_table, show_text

if TYPE_CHECKING:
    from ..report.card import Card


def show(
    name: Annotated[
        str, Argument(help="A method, model, dataset or partition, e.g. fedrep or dirichlet:0.1.")
    ],
    *,
    data: Annotated[
        str | None,
        Option(help="Dataset: divided and drawn for a partition; its images are those of the model."),
    ] = None,
    data_dir: DataDir = None,
    model: Annotated[str, Option(help="Model whose parts and bytes a method's card names.")] = "auto",
    clients: Annotated[int | None, Option(help="Clients of a partition that is drawn.")] = None,
    newcomers: Annotated[int, Option(help="Clients of it that are held out.")] = 0,
    seed: Annotated[int, Option(help="Seed of a partition that is drawn.")] = 0,
    out: Annotated[Path | None, Option(help="Picture of the partition: .svg, .png or .pdf.")] = None,
    json: AsJson = False,
) -> None:
    """The card of a method, model, dataset or partition; with --data a partition is drawn."""
    from ..report.card import card, kind
    from ..report.portrait import as_text, portrait

    if kind(name) == "partition" and data is not None:
        drawn = portrait(
            name, data, path=out, data_dir=data_dir, clients=clients, newcomers=newcomers, seed=seed
        )
        show_json(drawn.as_data) if json else show_text(as_text(drawn))
        note(f"drawn: {drawn.path}")
    else:
        found = card(name, dataset=data or "mnist-5k", model=model)
        show_json(found.as_data) if json else show_card(found)


def show_card(card: Card) -> None:
    for section in card.sections:
        if section.title:
            results().print(Text(f"\n{section.title}", style="bold"))
        if isinstance(section.body, str):
            show_text(section.body)
        else:
            show_table(section.body)
