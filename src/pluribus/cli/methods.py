"""`pluribus methods`."""

from __future__ import annotations

from .options import AsJson
from .printing import show_table


def methods(*, json: AsJson = False) -> None:
    """Every method: what it does, whose the parts are, what travels."""
    from ..report.catalogue import methods_table

    show_table(methods_table(), json=json)
