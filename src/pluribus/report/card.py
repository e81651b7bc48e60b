"""A card: all there is to know of one method, model, dataset or partition."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from .. import data, spelling
from ..data.entry import Entry
from ..data.partitions import PARTITIONS
from ..errors import SettingError, UnknownName
from ..methods import METHODS
from ..models import MODELS, Description, describe, read_models
from ..settings import usual_model
from .settings_table import settings_table
from .story import story
from .table import Column, Table, as_data, number, plain
from .trial import Trial, trial


@dataclass(frozen=True)
class Section:
    """A heading, and text or a table under it."""

    title: str
    body: str | Table


@dataclass(frozen=True)
class Card:
    """What a name stands for, and what there is to know of it."""

    kind: str  # method, partition, model or dataset
    name: str
    sections: tuple[Section, ...]

    @property
    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        bodies = {
            s.title.split(",")[0]: s.body if isinstance(s.body, str) else as_data(s.body)
            for s in self.sections
        }
        return {"kind": self.kind, "name": self.name, **plain(bodies)}


def card(name: str, *, dataset: str = "mnist-5k", model: str = "auto") -> Card:
    """The card of whatever has this name; what depends on images is said for this dataset and model."""
    match kind(name):
        case "method":
            return method_card(name, data.entry(dataset), model)
        case "model":
            return model_card(name, data.entry(dataset))
        case "partition":
            return partition_card(name)
        case _:
            return dataset_card(name)


def kind(name: str) -> str:
    """Which catalogue has this name."""
    plain_name = name.partition(":")[0].strip()
    catalogues: Mapping[str, Mapping[str, Any]] = {
        "method": METHODS,
        "partition": PARTITIONS,
        "model": MODELS,
        "dataset": {**data.DATASETS, **data.ALIASES},
    }
    for found, catalogue in catalogues.items():
        if plain_name in catalogue:
            return found
    known = [n for catalogue in catalogues.values() for n in catalogue if n not in data.ALIASES]
    raise UnknownName("method, partition, model or dataset", plain_name, known)


# methods --------------------------------------------------------------------------------------------

PART = (
    Column("part", "part"),
    Column("owner", "owner"),
    Column("parameters", "parameters", number, right=True),
)
STAGE = (
    Column("stage", "stage"),
    Column("down", "to a client", number, right=True),
    Column("up", "from a client", number, right=True),
)


def method_card(name: str, entry: Entry, model: str) -> Card:
    """What the method's file says, its settings, whose the parts are, and what travels."""
    method = spelling.read(name, METHODS, "method")
    told, network = story(type(method)), network_for(model, entry)
    shown = trial(method, network, entry.shape, len(entry.classes))
    setting = f"{spelling.write(network, MODELS)} on {entry.name}"
    return Card(
        "method",
        name,
        (
            Section("", told.text),
            Section("settings", settings_table(method)),
            Section(f"parts, {setting}", parts_table(shown)),
            Section(
                f"bytes a round, {setting}",
                Table(
                    STAGE,
                    tuple({"stage": stage, "down": down, "up": up} for stage, down, up in shown.traffic),
                ),
            ),
            Section("readings", readings_text(shown)),
            *([Section("cite", told.bibtex)] if told.bibtex else []),
        ),
    )


def network_for(model: str, entry: Entry) -> Any:
    """The model of this spelling, or the usual one for such images."""
    found = read_models(usual_model(entry.shape) if model == "auto" else model, MODELS)
    if len(found) > 1:
        raise SettingError(
            f"a card is of one network; '{model}' names {len(found)}\n    try one of them at a time"
        )
    return found[0]


def parts_table(shown: Trial) -> Table:
    return Table(
        PART,
        tuple(
            {
                "part": name,
                "owner": part.owner,
                "parameters": sum(p.numel() for p in part.module.parameters()),
            }
            for name, part in shown.parts.items()
        ),
    )


def readings_text(shown: Trial) -> str:
    others = f" (also read: {', '.join(shown.predicts[1:])})" if shown.predicts[1:] else ""
    generic = (
        f"none of its own: {shown.no_generic}"
        if shown.no_generic
        else "the model of everybody, on all test data"
    )
    return f"P  {shown.predicts[0]} of each client, on its own test data{others}\nG  {generic}"


# models ---------------------------------------------------------------------------------------------

MODEL_PART = (
    Column("part", "part"),
    Column("parameters", "parameters", number, right=True),
    Column("batch_norm", "batch normalisation", lambda has: "yes" if has else "no"),
    Column("dropout", "dropout", lambda has: "yes" if has else "no"),
)


def model_card(name: str, entry: Entry) -> Card:
    """Where the model comes from, its settings, and its parts for images of this dataset."""
    model = spelling.read(name, MODELS, "model")
    found = describe(model, entry.shape, len(entry.classes))
    return Card(
        "model",
        name,
        (
            Section("", module_text(type(model))),
            Section("settings", settings_table(model)),
            Section(f"parts, for {entry.name}", model_table(found)),
        ),
    )


def model_table(found: Description) -> Table:
    rows = tuple(
        {"part": p.name, "parameters": p.parameters, "batch_norm": p.batch_norm, "dropout": p.dropout}
        for p in found.parts
    )
    cost = f"{found.multiply_adds / 1e6:.2f} million multiply-adds a prediction"
    return Table(
        MODEL_PART,
        rows,
        (f"{found.parameters:,} parameters, {found.features:,} features reach the head, {cost}",),
    )


# partitions and datasets ------------------------------------------------------------------------------


def partition_card(name: str) -> Card:
    """What the partition does, and its settings."""
    partition = spelling.read(name, PARTITIONS, "partition")
    return Card(
        "partition",
        name,
        (Section("", module_text(type(partition))), Section("settings", settings_table(partition))),
    )


def dataset_card(name: str, data_dir: str | PathLike[str] | None = None) -> Card:
    """What the dataset is, whose, and where."""
    entry, status = data.entry(name), data.describe(name, data_dir)
    number = "{:,} + {:,}".format(*status.counts) if status.counts else "as yet uncounted"
    images = f"{number} images of {' x '.join(map(str, entry.shape))}"
    return Card(
        "dataset",
        entry.name,
        (
            Section(
                "", f"{entry.title}\n\n{images}, {len(entry.classes)} classes: {', '.join(entry.classes)}"
            ),
            Section("licence", f"{entry.licence}\n{entry.homepage}"),
            Section("where", "\n".join(map(str, status.files)) or status.summary),
            *([Section("sources", "\n".join(sources))] if (sources := sources_of(entry)) else []),
            Section("cite", entry.citation.strip()),
        ),
    )


def sources_of(entry: data.Entry) -> list[str]:
    """Each file that is delivered, with its size, its checksum and all its addresses."""
    parcels = [parcel for delivery in entry.deliveries for parcel in delivery.parcels]
    return [
        line
        for parcel in parcels
        for line in (
            f"{parcel.name}, {parcel.size:,} bytes, md5 {parcel.md5}",
            *(f"    {u}" for u in parcel.urls),
        )
    ]


def module_text(cls: type) -> str:
    """What the file says, or the class if the file describes several."""
    module = inspect.getmodule(cls)
    return inspect.cleandoc((module and module.__doc__) or cls.__doc__ or "")
