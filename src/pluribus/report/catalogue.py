"""What there is: a table for each catalogue."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields
from os import PathLike
from typing import Any

from .. import data
from ..data.partitions import PARTITIONS
from ..errors import ModelError
from ..methods import METHODS
from ..models import MLP, MODELS, describe
from ..spelling import as_text
from .story import story, venue
from .table import Column, Noted, Table, number
from .trial import trial


def listed(names: Mapping[str, str]) -> str:
    """`encoder shared, head personal`; one word if all are alike."""
    owners = set(names.values())
    return f"all {owners.pop()}" if len(owners) == 1 else ", ".join(f"{n} {o}" for n, o in names.items())


def yes(value: bool) -> str:  # noqa: FBT001  # it is what a cell holds
    return "yes" if value else "no"


def settings_text(settings: Mapping[str, Any]) -> str:
    """`alpha=0.1 least=40`."""
    return " ".join(f"{n}={'none' if v is None else as_text(v)}" for n, v in settings.items()) or "none"


def sizes_text(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in parts.items())


METHOD = (
    Column("name", "method"),
    Column("does", "what it does"),
    Column("parts", "parts", listed),
    Column("travels", "travels"),
    Column("generic", "G", yes),
    Column("venue", "paper"),
)
DATASET = (
    Column("name", "dataset"),
    Column("title", "what it is"),
    Column("train", "train", number, right=True),
    Column("test", "test", number, right=True),
    Column("shape", "one image", lambda s: " x ".join(map(str, s))),
    Column("classes", "classes", right=True),
    Column("where", "where"),
)
PARTITION = (
    Column("name", "partition"),
    Column("does", "what it does"),
    Column("settings", "settings", settings_text),
)
MODEL = (
    Column("name", "model"),
    Column("does", "what it is"),
    Column("parts", "parts", sizes_text),
    Column("parameters", "parameters", number, right=True),
    Column("multiply_adds", "MMAC", lambda n: f"{n / 1e6:.2f}", right=True),
    Column("settings", "settings", settings_text),
)


def methods_table() -> Table:
    """Every method: what it does, whose the parts are, what travels, whether it has a G of its own."""
    return Table(
        METHOD,
        tuple(map(method_row, METHODS)),
        (
            "G: a model for everybody. Where there is none, G is the mean of whole models.",
            "pluribus show NAME: the card of a method",
        ),
    )


def method_row(name: str) -> dict[str, Any]:
    told, shown = story(METHODS[name]), trial(METHODS[name](), MLP((8,)), (1, 8, 8), 10)
    has_generic = shown.no_generic is None
    return {
        "name": name,
        "title": told.title,
        "does": told.does,
        "paper": told.paper,
        "venue": venue(told.paper) or None,
        "parts": shown.owners,
        "travels": told.travels,
        "stays": told.stays,
        "generic": True if has_generic else Noted(False, shown.no_generic or ""),
    }


VARIES = "as many as there are in your copy, which was not read yet"


def datasets_table(data_dir: str | PathLike[str] | None = None) -> Table:
    """Every dataset: what it is, and where it is or what fetching it costs."""
    return Table(
        DATASET,
        tuple(dataset_row(name, data_dir) for name in data.DATASETS),
        ("pluribus data fetch NAME: download; --data-dir or $PLURIBUS_DATA: your own files",),
    )


def dataset_row(name: str, data_dir: str | PathLike[str] | None) -> dict[str, Any]:
    entry, status = data.entry(name), data.describe(name, data_dir)
    train, test = status.counts or (Noted(None, VARIES), Noted(None, VARIES))
    return {
        "name": name,
        "title": entry.title,
        "train": train,
        "test": test,
        "shape": entry.shape,
        "classes": len(entry.classes),
        "where": status.summary,
        "here": status.here,
        "licence": entry.licence,
        "files": [str(path) for path in status.files],
        "download_bytes": status.download_bytes,
    }


def partitions_table() -> Table:
    """Every way to divide a dataset."""
    rows = (
        {"name": name, "does": first_line(cls), "settings": defaults(cls)} for name, cls in PARTITIONS.items()
    )
    return Table(PARTITION, tuple(rows), ("spelled dirichlet:0.1 or dirichlet:alpha=0.1,least=10",))


def models_table(dataset: str) -> Table:
    """Every model, for the images of this dataset."""
    entry = data.entry(dataset)
    shape, classes = entry.shape, len(entry.classes)
    return Table(
        MODEL,
        tuple(model_row(name, shape, classes) for name in MODELS),
        (
            f"for images of {entry.name}: {' x '.join(map(str, shape))}, {classes} classes",
            "MMAC: million multiply-adds of one prediction; training takes three times that",
        ),
    )


def model_row(name: str, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    row = {"name": name, "does": first_line(MODELS[name]), "settings": defaults(MODELS[name])}
    try:
        found = describe(MODELS[name](), shape, classes)
    except ModelError as error:
        return {**row, "parameters": Noted(None, str(error).split("\n")[0])}
    return {
        **row,
        "parts": {p.name: p.parameters for p in found.parts},
        "parameters": found.parameters,
        "multiply_adds": found.multiply_adds,
    }


def first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ").rstrip(".")


def defaults(cls: type) -> dict[str, Any]:
    return {f.name: None if f.default is MISSING else f.default for f in fields(cls)}
