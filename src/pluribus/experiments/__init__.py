"""The catalogue of experiments, and the store of what came of them.

One file a paper.  An experiment exists when its line is here; `pluribus reproduce NAME` runs it.
"""

from ..errors import UnknownName
from .effects import EFFECTS
from .experiment import Cell, Claim, Experiment, Number, Row
from .finished import Finished
from .store import Store
from .work import fill

EXPERIMENTS: dict[str, Experiment] = {f"effects/{name}": one for name, one in EFFECTS.items()}


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Claim",
    "Experiment",
    "Finished",
    "Number",
    "Row",
    "Store",
    "experiment",
    "fill",
]
