"""Datasets by name: what there is, where it is, and how it comes here.

dataset = load("fashion-mnist")
dataset = load("pacs:size=64")
dataset = load("./my-images")
"""

import re
from os import PathLike
from pathlib import Path
from typing import Any

from .. import spelling
from ..errors import SettingError, UnknownName
from . import loading, own
from .cifar import CIFAR10
from .cifar100 import CIFAR100, CIFAR100_COARSE
from .dataset import Dataset, from_tensors
from .digit_domains import DIGIT_DOMAINS
from .domains import domainnet, office_caltech10, office_home, pacs
from .embedded import DIGITS, MNIST_5K
from .emnist import EMNIST
from .entry import Entry, Look
from .femnist import FEMNIST, femnist_128
from .idx import FASHION_MNIST, MNIST
from .loading import Status
from .mat import SVHN, SYNTHDIGITS
from .mnist_m import MNIST_M
from .rendered_digits import RENDERED_DIGITS
from .usps import USPS
from .writers import MNIST_WRITERS

__all__ = [
    "DATASETS",
    "Dataset",
    "Entry",
    "Status",
    "describe",
    "entry",
    "fetch",
    "from_tensors",
    "from_torch",
    "load",
    "short",
    "sums",
    "verify",
    "where",
]

DATASETS: dict[str, Entry] = {
    "digits": DIGITS,
    "mnist-5k": MNIST_5K,
    "fashion-mnist": FASHION_MNIST,
    "mnist": MNIST,
    "mnist-writers": MNIST_WRITERS,
    **EMNIST,
    "femnist": FEMNIST,
    "femnist-128": femnist_128(),
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "cifar100-coarse": CIFAR100_COARSE,
    "usps": USPS,
    "mnist-m": MNIST_M,
    "svhn": SVHN,
    "synthdigits": SYNTHDIGITS,
    "rendered-digits": RENDERED_DIGITS,
    "digit-domains": DIGIT_DOMAINS,
    "office-caltech10": office_caltech10(),
    "pacs": pacs(),
    "office-home": office_home(),
    "domainnet": domainnet(),
    "domainnet10": domainnet(ten=True),
}
ALIASES = {
    "cifar-10": "cifar10",
    "cifar-100": "cifar100",
    "digits-domains": "digit-domains",
    "emnist": "emnist-balanced",
    "fashionmnist": "fashion-mnist",
    "mnist5k": "mnist-5k",
    "office-caltech-10": "office-caltech10",
    "officehome": "office-home",
}


def entry(name: str) -> Entry:
    """The entry of this name, behind a colon how its images are taken; or of the user's own path."""
    if own.is_path(name):
        return own.entry(name)
    plain, _, rest = name.partition(":")
    known = ALIASES.get(plain, plain)
    if known not in DATASETS:
        if kept := own.kept(name):
            return kept
        if Path(plain).exists():
            raise SettingError(f"no dataset '{name}'\n    the file or folder of this name is ./{name}")
        raise UnknownName("dataset", name, DATASETS)
    return DATASETS[known] if not rest else looked(DATASETS[known], rest)


def looked(entry: Entry, rest: str) -> Entry:
    """The entry with its images taken as the rest of the name says: `size=64,broken=skip`."""
    if not (entry.looked and entry.look):
        raise UnknownName(f"setting of {entry.name}", rest.partition("=")[0], ())
    given = spelling.given(rest, Look, entry.plain)
    return entry.looked(spelling.make(Look, {**vars(entry.look), **given}, entry.plain))


def load(name: str, data_dir: str | PathLike[str] | None = None, *, download: bool = True) -> Dataset:
    """The dataset: the user's files if there are any, else our copy, else a download."""
    return loading.load(entry(name), folder(data_dir), download=download)


def from_torch(name: str, train: Any, test: Any = None, *, size: int | None = None) -> Dataset:
    """Any dataset of PyTorch, kept under this name: from then on `Settings(data=name)` finds it."""
    if name in DATASETS or name in ALIASES:
        raise SettingError(f"'{name}' is a dataset of the catalogue\n    choose another name for your own")
    return own.from_torch(name, train, test, size=size)


def where(name: str, data_dir: str | PathLike[str] | None = None) -> tuple[Path, ...]:
    """The files that `load` would read; empty if there are none."""
    return loading.where(entry(name), folder(data_dir))


def fetch(name: str, data_dir: str | PathLike[str] | None = None) -> tuple[Path, ...]:
    """The original files, downloaded to the folder named or to our cache, unless they are here."""
    return loading.fetch(entry(name), folder(data_dir))


def verify(name: str, data_dir: str | PathLike[str] | None = None) -> tuple[Path, ...]:
    """The files, all of them read again and right to the byte; our copy is compared as well."""
    return loading.verify(entry(name), folder(data_dir))


def sums(name: str, data_dir: str | PathLike[str] | None = None) -> tuple[int, int]:
    """How many of the files have a published checksum, and how many have none."""
    return loading.sums(entry(name), folder(data_dir))


def describe(name: str, data_dir: str | PathLike[str] | None = None) -> Status:
    """Whether the dataset is here, where, and what it would cost to fetch."""
    return loading.describe(entry(name), folder(data_dir))


def short(name: str) -> str:
    """The name as a part of a file's name: of a path its last part, and nothing that a file system minds."""
    return re.sub(r"[^\w.=,+-]+", "-", re.split(r"[/\\]", name)[-1])


def folder(name: str | PathLike[str] | None) -> Path | None:
    return Path(name).expanduser() if name is not None and str(name) else None
