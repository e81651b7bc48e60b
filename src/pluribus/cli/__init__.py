"""The command line: one file a verb. Each reads its options, calls one function of the library, prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer.main

from ..errors import SettingError
from .faults import exit_code
from .program import program


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the command line says; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: answer(given or ["--help"]), given)


def answer(arguments: list[str]) -> None:
    """Does what these arguments say. What goes wrong is raised: typer's own `main` would swallow Ctrl-C."""
    check_text(arguments)
    check_here()
    command = typer.main.get_command(program())
    if os.environ.get("_PLURIBUS_COMPLETE"):
        command.main(arguments, prog_name="pluribus")
    with command.make_context("pluribus", arguments) as context:
        command.invoke(context)


def check_text(arguments: Sequence[str]) -> None:
    """An error if an argument cannot be written down: settings and results are UTF-8."""
    for argument in arguments:
        shown = argument.encode(errors="backslashreplace").decode()
        if shown != argument:
            raise SettingError(f"'{shown}' is not text in UTF-8\n    give the file or folder another name")


def check_here() -> None:
    """An error if the folder we are in was removed: nothing can be found from there."""
    try:
        Path.cwd()
    except OSError as error:
        raise SettingError(
            f"the folder you are in cannot be used: {error.strerror}\n    cd to another"
        ) from None
