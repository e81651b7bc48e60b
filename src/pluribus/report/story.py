"""What a method's file says about it: its docstring, taken apart."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from ..method import Method


@dataclass(frozen=True)
class Story:
    """The docstring of a method's module and its parts; what it does not say is empty."""

    text: str
    title: str
    does: str
    paper: str
    travels: str
    stays: str
    bibtex: str


def story(method: type[Method]) -> Story:
    """What the file of this method says."""
    module = inspect.getmodule(method)
    text = inspect.cleandoc(module.__doc__ or "") if module else ""
    title, _, does = text.partition("\n\n")[0].partition(":")
    return Story(
        text=text,
        title=title.strip(),
        does=" ".join(does.split()).rstrip("."),
        paper=paper(text),
        travels=found(r"Travels:\s*(.+?)(?=\s+Stays:|\n\n|\Z)", text),
        stays=found(r"Stays:\s*(.+?)(?=\n\n|\Z)", text),
        bibtex=bibtex(text),
    )


def bibtex(text: str) -> str:
    """The entry for a bibliography: the indented block that begins with @."""
    match = re.search(r"^    @.*?^    \}$", text, re.DOTALL | re.MULTILINE)
    return inspect.cleandoc(match[0]) if match else ""


def paper(text: str) -> str:
    """The paragraph that names the paper, if there is one."""
    paragraphs = [" ".join(p.split()) for p in text.split("\n\n")[1:]]
    return next((p for p in paragraphs if re.search(r"arXiv:|\b(19|20)\d\d\b", p)), "")


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.DOTALL)
    return " ".join(match[1].split()).rstrip(".") if match else ""


def venue(text: str) -> str:
    """Where and when the paper appeared: what stands between its title and its number."""
    tail = re.split(r"”|\"", text)[-1].partition("arXiv:")[0]
    return tail.strip(" ,.") or text
