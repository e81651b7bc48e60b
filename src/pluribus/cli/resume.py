"""`pluribus resume DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import to_builtins
from typer import Argument

from .options import AsJson, DataDir, Executor, Memory, Quiet, Workers
from .printing import show_json, show_table


def resume(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of a run.")],
    *,
    data_dir: DataDir = None,
    executor: Executor = "auto",
    workers: Workers = None,
    memory: Memory = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, to the same bits; of one that is done, show the result."""
    from .. import runs
    from ..executors.choice import opened
    from ..report.outcome import outcome_table
    from .display import display

    with display(quiet=quiet) as listener, opened(executor, workers) as where:
        result = runs.resume(folder, data_dir=data_dir, executor=where, listener=listener, memory=memory)
    show_json(to_builtins(result)) if json else show_table(outcome_table(result))
