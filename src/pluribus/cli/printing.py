"""Where things are printed: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from ..report.table import Table, as_data, as_markdown, as_rich

WIDE = 240  # columns where nobody watches: a table in a file is not cut


def results() -> Console:
    """The console of results; as wide as they need unless it is a terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDE, highlight=False)


def notes() -> Console:
    """The console of progress, notes and errors."""
    return Console(file=sys.stderr, width=None if sys.stderr.isatty() else WIDE, highlight=False)


def show_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def show_text(text: str) -> None:
    """Text on stdout, as it is."""
    sys.stdout.write(text + "\n")


def show_table(table: Table, *, json: bool = False, markdown: bool = False) -> None:
    """The table on stdout, in the form that was asked for."""
    if json:
        show_json(as_data(table))
    elif markdown:
        show_text(as_markdown(table))
    else:
        console = results()
        with console.capture() as shown:
            console.print(as_rich(table), *(Text(line, style="dim") for line in table.below), sep="\n")
        show_text("\n".join(line.rstrip() for line in shown.get().rstrip().splitlines()))


def note(text: str, console: Console | None = None) -> None:
    """A line on stderr, through the console that shows a bar there if there is one."""
    (console or notes()).print(Text(text, style="dim"), soft_wrap=True)


def warn(text: str, console: Console | None = None) -> None:
    """A warning on stderr."""
    (console or notes()).print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)


def complain(text: str) -> None:
    """An error on stderr."""
    notes().print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
