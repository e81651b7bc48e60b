"""`pluribus partitions`."""

from __future__ import annotations

from .options import AsJson
from .printing import show_table


def partitions(*, json: AsJson = False) -> None:
    """Every way to divide a dataset between clients."""
    from ..report.catalogue import partitions_table

    show_table(partitions_table(), json=json)
