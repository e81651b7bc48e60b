"""What a race has shown: every lap of every side, and the ratios between them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import torch

PACKAGES = ("pluribus", "torch", "numpy")


class Lap(msgspec.Struct, frozen=True):
    """As many rounds as there are from one evaluation to the next, of one side."""

    seconds: float
    train: float
    evaluate: float
    samples: int
    rounds: int


class Ratio(msgspec.Struct, frozen=True):
    """One side's seconds over another's, lap by lap: the median and the quartiles."""

    median: float
    low: float
    high: float


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` is the first side's seconds over the bare loop's, the engine's usually."""

    setting: str
    title: str
    method: str
    precision: str
    data: str  # real, or random images of the same shape
    workers: int
    laps: dict[str, list[Lap]]  # of each side
    ratio: float | None
    ratios: dict[str, Ratio]  # the first side's seconds over each other one's
    gflops: float | None = None  # of the bare loop
    product_gflops: float | None = None  # of a float32 matrix product on the same processes
    machine: dict[str, str]
    versions: dict[str, str]
    date: str

    def to_json(self) -> str:
        """One readable JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def ratio_of(ours: Sequence[Lap], theirs: Sequence[Lap]) -> Ratio:
    """Median and quartiles of the laps' ratios."""
    ratios = sorted(a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True))
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if ratios[1:] else ratios * 3
    return Ratio(median, low, high)


def ratios_of(laps: Mapping[str, Sequence[Lap]], first: str) -> dict[str, Ratio]:
    """The first side's seconds over each other one's."""
    return {name: ratio_of(laps[first], theirs) for name, theirs in laps.items() if name != first}


def seen_by(race: Race, first: str, others: Sequence[str], precision: str) -> Race:
    """The same laps with another side first, that of this precision, beside these others."""
    laps = {name: race.laps[name] for name in (first, *others)}
    ratios = ratios_of(laps, first)
    against_bare = ratios.get("bare")
    return msgspec.structs.replace(
        race,
        precision=precision,
        laps=laps,
        ratios=ratios,
        ratio=against_bare.median if against_bare else None,
        gflops=None,
        product_gflops=None,
    )


def machine() -> dict[str, str]:
    """Processor and system, and no name or path of the machine."""
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: installed(name) for name in PACKAGES}


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def today() -> str:
    return datetime.now(UTC).date().isoformat()
