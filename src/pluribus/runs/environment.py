"""Where a run took place: what may change its bits or its speed, and no path of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import torch

PACKAGES = ("pluribus", "torch", "numpy", "safetensors", "msgspec")
COMPUTE = ("torch", "numpy")


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """`versions`, `machine` and `capability` may change a run's bits; the rest is to be found again by."""

    settings_hash: str  # of what the run began with
    versions: dict[str, str]
    machine: str
    capability: str  # the processor's instructions that torch uses
    system: str
    host: str
    cores: int
    threads: int
    commit: str | None
    command: list[str]

    def differs(self, other: Environment) -> list[str]:
        """What may change the bits and is not the same there: `torch 2.13.0, was 2.12.1`."""
        names = ("machine", "capability")
        now = {n: self.versions[n] for n in COMPUTE} | {n: getattr(self, n) for n in names}
        was = {n: other.versions.get(n) for n in COMPUTE} | {n: getattr(other, n) for n in names}
        return [f"{name} {now[name]}, was {was[name]}" for name in now if now[name] != was[name]]


def environment(settings_hash: str) -> Environment:
    """The environment of this process."""
    return Environment(
        settings_hash=settings_hash,
        versions={"python": platform.python_version()} | {name: installed(name) for name in PACKAGES},
        machine=platform.machine(),
        capability=torch.backends.cpu.get_cpu_capability(),
        system=platform.platform(),
        host=platform.node(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        commit=commit(),
        command=[without_path(word) for word in [Path(sys.argv[0]).name, *sys.argv[1:]]],
    )


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def commit() -> str | None:
    """The commit this package was read from, if it is read from a checkout."""
    source = Path(__file__).resolve()
    if not any((parent / ".git").exists() for parent in source.parents):
        return None
    git = ["git", "-C", str(source.parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def without_path(word: str) -> str:
    """A word of the command line; of a path from the root only the last name."""
    option, equals, value = word.rpartition("=")
    return f"{option}{equals}{Path(value).name if Path(value).is_absolute() else value}"
