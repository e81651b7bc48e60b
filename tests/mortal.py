"""A place whose workers die in the middle of a turn. It stands in a module that a worker can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from pluribus.client import Client, Work
from pluribus.turn import Place, Turn


@dataclass
class LastWork(Work):
    """Work whose first step kills the process, if nobody has died of it before."""

    mark: Path = Path()

    def add(self, loss: Tensor, examples: int) -> None:
        super().add(loss, examples)
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class MortalPlace(Place):
    """In each stage with training, the first turn that has done a step takes its worker with it, once."""

    graves: Path = Path()

    def seat(self, turn: Turn) -> Client:
        client = super().seat(turn)
        if turn.stage.round:  # not while anything is only read
            client.work = LastWork(mark=self.graves / f"{turn.stage.name}-{turn.stage.round}")
        return client


def mortal(place: Place, graves: Path) -> MortalPlace:
    """The same place, with death in it."""
    values: dict[str, Any] = {f.name: getattr(place, f.name) for f in fields(Place)}
    return MortalPlace(**values | {"networks": {}}, graves=graves)
