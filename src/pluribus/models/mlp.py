"""Multilayer perceptron and logistic regression: for small inputs and for thinking."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from torch import nn

from ..errors import SettingError
from .layers import Layers, check_choice, network
from .network import Network, Shape, check_input, is_positive
from .projector import check_projector

WIDEST = 1_000_000


@dataclass(frozen=True)
class MLP:
    """Hidden layers of these widths with ReLU, spelled `mlp:200+100`."""

    hidden: tuple[int, ...] = (200,)
    head_layers: int = 1
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("mlp", self.projector)
        if not self.hidden or not all(is_positive(width) and width <= WIDEST for width in self.hidden):
            raise SettingError(
                f"mlp: hidden is {self.hidden!r}; it should be one or more positive widths, like 200+100, "
                f"of at most {WIDEST:,}\n"
                "    without a hidden layer it is: logistic"
            )
        check_choice("mlp: head_layers", self.head_layers, range(1, len(self.hidden) + 2))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its last `head_layers` linear layers."""
        check_input(shape, classes)
        layers: Layers = {"flatten": nn.Flatten()}
        for number, (inputs, outputs) in enumerate(pairwise((prod(shape), *self.hidden)), start=1):
            layers |= {f"fc{number}": nn.Linear(inputs, outputs), f"relu{number}": nn.ReLU()}
        layers[f"fc{len(self.hidden) + 1}"] = nn.Linear(self.hidden[-1], classes)
        return network(
            layers, head_layers=self.head_layers, projector=self.projector, shape=shape, classes=classes
        )


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression: the encoder only flattens, the head is everything."""

    def build(self, shape: Shape, classes: int) -> Network:
        """One linear layer on the input's numbers."""
        check_input(shape, classes)
        layers: Layers = {"flatten": nn.Flatten(), "fc": nn.Linear(prod(shape), classes)}
        return network(layers, head_layers=1, shape=shape, classes=classes)
