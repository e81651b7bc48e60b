"""Methods that do harm to their worker. They stand in a module that a worker can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pluribus.client import Client
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.state import Tensors


@dataclass(frozen=True, kw_only=True)
class Deadly(FedPer):
    """FedPer whose client c1 kills its worker, so many times."""

    folder: str
    times: int = 1

    def train(self, client: Client) -> Tensors:
        marks = Path(self.folder) / f"{client.stage.round}"
        marks.mkdir(exist_ok=True)
        if client.id == "c1" and (seen := len(list(marks.iterdir()))) < self.times:
            (marks / str(seen)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train(client)


class Failing(FedAvg):
    def train(self, client: Client) -> Tensors:
        raise ZeroDivisionError("on purpose")


class Orphaned(FedAvg):
    """FedAvg whose first turn kills the process that its worker was forked from."""

    def train(self, client: Client) -> Tensors:
        os.kill(os.getppid(), signal.SIGKILL)
        return super().train(client)
