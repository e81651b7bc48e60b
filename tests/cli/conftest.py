"""The command line called in this process: what it ends with, and what it says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pluribus.cli import main

SMALL = (
    "--data",
    "digits",
    "--clients",
    "4",
    "--model",
    "mlp:16",
    "--rounds",
    "2",
)  # a run of less than a second


@dataclass(frozen=True)
class Said:
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def pluribus(capfd, tmp_path, monkeypatch) -> Callable[..., Said]:
    """`pluribus("run", "fedavg")`, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Said(code, *capfd.readouterr())

    return call
