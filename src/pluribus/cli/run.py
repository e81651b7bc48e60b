"""`pluribus run METHOD`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import to_builtins
from typer import Argument, BadParameter, Option

from .options import AsJson, Executor, Memory, Options, Quiet, Workers
from .printing import note, show_json, show_table


def run(
    method: Annotated[
        str | None,
        Argument(
            metavar="METHOD",
            help="Method, as listed by `pluribus methods`; its settings may follow: fedrep:head_epochs=5.",
        ),
    ] = None,
    *,
    options: Options,
    seed: Annotated[int | None, Option(help="Seed of everything random.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the run; it must be new or empty.")] = None,
    name: Annotated[str | None, Option(help="Name of its folder in ./runs, if --out does not say.")] = None,
    executor: Executor = "auto",
    workers: Workers = None,
    memory: Memory = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train with one method; leaves a folder with settings, rounds, checkpoint and result."""
    if out is not None and name is not None:
        raise BadParameter("only one of --out and --name can be given: both name the run's folder")
    from .. import runs
    from ..executors.choice import opened
    from ..report.outcome import outcome_table
    from ..settings import Settings
    from .display import display

    base = Settings.from_toml(options.config) if options.config else Settings()
    settings, notes = base.with_given(options.settings(method=method, seed=seed))
    for text in notes:
        note(text)
    with display(quiet=quiet) as listener, opened(executor, workers) as where:
        result = runs.run(
            settings,
            out=out,
            name=name,
            data_dir=options.data_dir,
            executor=where,
            listener=listener,
            memory=memory,
        )
    show_json(to_builtins(result)) if json else show_table(outcome_table(result))
