"""`pluribus export DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from .options import AsJson, DataDir
from .printing import show_json, show_text


def export(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of a run.")],
    *,
    client: Annotated[
        str | None, Option(help="Client whose own model is written, by name (c03) or number (3).")
    ] = None,
    generic: Annotated[bool, Option("--generic", help="Write the model of everybody.")] = False,
    out: Annotated[
        Path | None, Option(help="Folder to write into; the run's own folder `export`, if not given.")
    ] = None,
    data_dir: DataDir = None,
    json: AsJson = False,
) -> None:
    """Write a client's model, or everybody's, as safetensors, and a JSON that says how to load it."""
    if generic == (client is not None):
        raise BadParameter("one of --client and --generic is needed")
    from ..report.export import export as exported

    paths = exported(folder, client=client, out=out, data_dir=data_dir)
    show_json({"files": list(map(str, paths))}) if json else show_text("\n".join(map(str, paths)))
