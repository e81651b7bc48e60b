"""Personalised federated learning: one model that serves everybody, and for each client one of its own.

The public names. They are imported when they are first used: `pluribus --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client as Client
    from .data.dataset import Dataset as Dataset
    from .data.division import Division as Division
    from .data.division import divide as divide
    from .data.federation import Federation as Federation
    from .data.federation import federate as federate
    from .engine import Conduct as Conduct
    from .engine import Round as Round
    from .engine import rounds as rounds
    from .errors import PluribusError as PluribusError
    from .executors.processes import Processes as Processes
    from .executors.serial import Serial as Serial
    from .method import Method as Method
    from .methods import METHODS as METHODS
    from .models.naming import parts as parts
    from .models.network import Network as Network
    from .readings.evaluate import Readings as Readings
    from .readings.evaluate import evaluate as evaluate
    from .readings.evaluate import welcome as welcome
    from .runs.run import resume as resume
    from .runs.run import run as run
    from .settings import Settings as Settings
    from .study import Study as Study
    from .study import prepare as prepare
    from .training import Training as Training
    from .turn import Place as Place

_WHERE = {
    "client": ["Client"],
    "data.dataset": ["Dataset"],
    "data.division": ["Division", "divide"],
    "data.federation": ["Federation", "federate"],
    "engine": ["Conduct", "Round", "rounds"],
    "errors": ["PluribusError"],
    "executors.processes": ["Processes"],
    "executors.serial": ["Serial"],
    "method": ["Method"],
    "methods": ["METHODS"],
    "models.naming": ["parts"],
    "models.network": ["Network"],
    "readings.evaluate": ["Readings", "evaluate", "welcome"],
    "runs.run": ["resume", "run"],
    "settings": ["Settings"],
    "study": ["Study", "prepare"],
    "training": ["Training"],
    "turn": ["Place"],
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted(_MODULE)  # noqa: PLE0605  # a sorted list of the names above


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(import_module(f".{_MODULE[name]}", __name__), name)
    raise AttributeError(f"module 'pluribus' has no attribute '{name}'")


def __dir__() -> list[str]:
    return list(__all__)
