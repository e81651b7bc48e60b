"""`pluribus models`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from .options import AsJson
from .printing import show_table


def models(
    *,
    data: Annotated[str, Option(help="Dataset whose images the models are for.")] = "mnist-5k",
    json: AsJson = False,
) -> None:
    """Every model: its parts and their sizes."""
    from ..report.catalogue import models_table

    show_table(models_table(data), json=json)
