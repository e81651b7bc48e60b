"""`pluribus datasets`."""

from __future__ import annotations

from .options import AsJson, DataDir
from .printing import show_table


def datasets(*, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Every dataset: what it is, and where it is or what fetching it costs."""
    from ..report.catalogue import datasets_table

    show_table(datasets_table(data_dir), json=json)
