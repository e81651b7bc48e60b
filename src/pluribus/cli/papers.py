"""`pluribus papers`."""

from __future__ import annotations

from .options import AsJson, Cells
from .printing import note, show_table


def papers(*, cells: Cells = None, json: AsJson = False) -> None:
    """Every experiment that can be reproduced, and how much of it is done."""
    from ..experiments.store import Store
    from ..report.reproduction import papers_table

    store = Store.at(cells)
    show_table(papers_table(store, store.finished(note)), json=json)
