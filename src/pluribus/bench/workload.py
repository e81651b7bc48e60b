"""Workloads: what everybody who is measured has to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from .. import data
from ..data.dataset import Dataset, from_tensors
from ..data.federation import federate
from ..errors import DataNotFound, SettingError, UnknownName
from ..seeds import generator
from ..settings import Settings
from ..study import Study, conduct_of, divided_by, place_of
from ..training import Training

METHODS = ("fedavg", "fedper")  # whose rounds the bare loop knows the passes of
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Workload:
    """A setting by name; its rounds are those of `pluribus run` with these settings."""

    name: str
    title: str
    settings: Settings
    methods: tuple[str, ...] = METHODS
    lap: int = 1  # rounds that are taken together: from one evaluation to the next
    rows_each: int | None = None  # random images, so many for each client

    def settled(self, rounds: int, *, method: str = "fedavg", precision: str = "float32") -> Settings:
        """The settings of so many rounds of a method."""
        if method not in self.methods:
            raise UnknownName("method to measure", method, self.methods)
        if precision not in PRECISIONS:
            raise UnknownName("precision", precision, PRECISIONS)
        given = {"method": method, "epochs": self.settings.set.get("epochs"), "rounds": rounds}
        other = {} if precision == "float32" else {"precision": precision}
        return self.settings.with_given(given | other)[0].resolved()


FASHION = Settings(
    data="fashion-mnist", partition="dirichlet:0.1", clients=50, join="0.2", pool="mix", test=0.25,
    model="pfllib-cnn", set={"epochs": 5}, training=Training(lr=0.01, batch=20),
)  # fmt: skip
WORKLOADS = {w.name: w for w in (
    Workload(
        "fmnist-cnn",
        "Fashion-MNIST, 50 clients, dirichlet:0.1, 10 a round, PFLlib's CNN, batch 20, 5 epochs",
        FASHION,
    ),
    Workload(
        "fmnist-convnet",
        "Fashion-MNIST, 50 clients, dirichlet:0.1, 10 a round, FedReG's ConvNet, batch 20, 5 epochs",
        FASHION.with_(model="convnet", training=Training(lr=0.01, momentum=0.9, batch=20)),
    ),
    Workload(
        "cifar-pfl",
        "CIFAR-10, 1,000 clients of 50 samples, 50 a round, pfl-research's CNN, batch 10, 1 epoch",
        Settings(
            data="cifar10", partition="iid", clients=1000, join="50", pool="mix", test=1 / 6, model="pfl-cnn",
            set={"epochs": 1}, training=Training(lr=0.1, batch=10), eval_every=10,
        ),
        lap=10,
    ),
    Workload(
        "tiny",
        "digits, 10 clients, 5 a round, one hidden layer: to see that everything works",
        Settings(
            data="digits", partition="dirichlet:0.5", clients=10, join="5", model="mlp", set={"epochs": 2},
            training=Training(lr=0.05, batch=20),
        ),
    ),
)}  # fmt: skip


def workload(name: str) -> Workload:
    """The workload of this name."""
    if name not in WORKLOADS:
        raise UnknownName("setting", name, WORKLOADS)
    return WORKLOADS[name]


def study_of(
    settings: Settings, data_dir: str | Path | None = None, *, rows_each: int | None = None
) -> Study:
    """The study of these settings, on random images where the real ones are not at hand or too few."""
    dataset = dataset_of(settings, data_dir, rows_each)
    division = divided_by(settings, dataset)
    federation = federate(dataset, division, dataset.scale(settings.normalise))
    place = place_of(settings, federation)
    return Study(settings, dataset, division, federation, place, conduct_of(settings, place))


def dataset_of(settings: Settings, data_dir: str | Path | None, rows_each: int | None) -> Dataset:
    """The dataset if it is here; nothing is downloaded for a measurement."""
    entry = data.entry(settings.data)
    if rows_each is not None:
        assert settings.clients is not None
        return random_images(entry, rows_each * settings.clients)
    try:
        return data.load(entry.name, data_dir, download=False)
    except DataNotFound:
        return random_images(entry, entry.train + entry.test)


def random_images(entry: data.Entry, rows: int) -> Dataset:
    """Images of the same shape and classes, in which there is nothing to see: they take as long."""
    rng = generator("bench", entry.name)
    inputs = torch.randint(0, 256, (rows, *entry.shape), generator=rng, dtype=torch.uint8)
    labels = torch.randint(0, len(entry.classes), (rows,), generator=rng)
    return from_tensors(f"random {entry.name}", inputs, labels, classes=entry.classes, official=rows)


def is_real(study: Study) -> bool:
    """Whether the images are those of the dataset."""
    return study.dataset.name == study.settings.data


def at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise SettingError(f"{name} is {number}; it should be 1 or more")
