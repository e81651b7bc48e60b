"""`pluribus data fetch|verify|where NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, DataDir
from .printing import note, show_json, show_text

Name = Annotated[str, typer.Argument(help="Dataset, as listed by `pluribus datasets`.")]


def program() -> typer.Typer:
    """The dataset's files: fetch them, verify them, or say where they are."""
    app = typer.Typer(help=program.__doc__)
    for verb in (fetch, verify, where):
        app.command()(verb)
    return app


def fetch(name: Name, *, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Download the original files, unless they are here already."""
    from .. import data

    show_files(name, data.fetch(name, data_dir), "", json=json)


def verify(name: Name, *, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Read the files again from beginning to end, and compare them with the originals."""
    from .. import data

    files = data.verify(name, data_dir)
    show_files(name, files, f"{name}: {said_of(*data.sums(name, data_dir))}", json=json)


def said_of(compared: int, others: int) -> str:
    """What a verification that found nothing wrong has shown."""
    if not compared:
        return "everything can be read and is as it should be; no checksums were ever published"
    rest = f"; {others} without a published checksum can be read" if others else ""
    return f"{compared} {'file is' if compared == 1 else 'files are'} right to the byte{rest}"


def where(name: Name, *, data_dir: DataDir = None, json: AsJson = False) -> None:
    """The files that a run would read, one a line; none if it would have to download them."""
    from .. import data

    files = data.where(name, data_dir)
    show_files(name, files, "" if files else f"{name}: {data.describe(name, data_dir).summary}", json=json)


def show_files(name: str, files: Sequence[Path], said: str, *, json: bool) -> None:
    if json:
        show_json({"data": name, "files": [str(path) for path in files]})
    elif files:
        show_text("\n".join(map(str, files)))
    if said:
        note(said)
