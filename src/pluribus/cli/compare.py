"""`pluribus compare METHOD...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from .options import AsJson, AsMarkdown, Executor, Memory, Options, Quiet, Workers
from .printing import note, show_json, show_table


def compare(
    methods: Annotated[
        list[str],
        Argument(metavar="METHOD", help="Methods; their settings may follow: fedrep:head_epochs=5."),
    ],
    *,
    options: Options,
    seeds: Annotated[str, Option(help="How many seeds (3 is 0, 1, 2), or which (0,1).")] = "1",
    local: Annotated[
        bool, Option("--local/--no-local", help="Add Local, the reference, if it is not named.")
    ] = True,
    reading: Annotated[
        Literal["last", "best_on_test", "selected"], Option(help="In which round G and P are read.")
    ] = "last",
    out: Annotated[
        Path | None,
        Option(help="Folder of the comparison; runs in it that have the same settings are used again."),
    ] = None,
    executor: Executor = "auto",
    workers: Workers = None,
    memory: Memory = None,
    json: AsJson = False,
    markdown: AsMarkdown = False,
    quiet: Quiet = False,
) -> None:
    """Train with several methods on the same clients; ends with a table and a picture of G against P."""
    if json and markdown:
        raise BadParameter("only one of --json and --markdown can be had")
    from ..executors.choice import opened
    from ..report import comparison
    from ..settings import Settings
    from .display import display

    base = Settings.from_toml(options.config) if options.config else Settings()
    found, notes = comparison.contenders(
        methods, base, options.settings(), seeds=comparison.read_seeds(seeds), local=local
    )
    for text in notes:
        note(text)
    with display(quiet=quiet) as listener, opened(executor, workers) as where:
        done = comparison.compare(
            found,
            out=out,
            data_dir=options.data_dir,
            how=reading,
            executor=where,
            listener=listener,
            memory=memory,
        )
    show_json(done.as_data) if json else show_table(comparison.comparison_table(done), markdown=markdown)
    note(f"picture: {done.pictures[-1]}")
