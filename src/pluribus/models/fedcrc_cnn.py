"""FedCRC's CNN: four narrow convolutions and one linear layer, the "4convNet" of FedBABU's code.

    4 x (conv 3x3 to 64, padding 1 · norm · pool 2 · ReLU) | linear to classes

115,658 parameters for 3 x 32 x 32 and 10 classes.  The paper says "four convolutional and one fully
connected layer" and nothing about normalisation.  `norm=batch` is FedBABU's: batch statistics, also
when predicting, so there is no running mean to average or keep, and a prediction depends on the other
examples of its batch.  `norm=gn` is GroupNorm with 16 channels a group, `norm=none` leaves it out.
"""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from .layers import Layers, check_choice, check_images, network, num_out
from .network import Network, Shape
from .projector import check_projector

WIDTH = 64


@dataclass(frozen=True)
class FedCRCCNN:
    """FedCRC's four-layer CNN."""

    norm: Literal["batch", "gn", "none"] = "batch"
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("fedcrc-cnn", self.projector)
        check_choice("fedcrc-cnn: norm", self.norm, ("batch", "gn", "none"))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its only linear layer."""
        check_images("fedcrc-cnn", shape, classes, smallest=16)
        layers: Layers = {}
        for block in range(1, 5):
            layers |= self.block(block, shape[0] if block == 1 else WIDTH)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = nn.Linear(num_out(layers, shape), classes)
        return network(layers, head_layers=1, projector=self.projector, shape=shape, classes=classes)

    def block(self, number: int, channels: int) -> Layers:
        """The layers of one block, named by its number."""
        layers = {"conv": nn.Conv2d(channels, WIDTH, 3, padding=1), **self.normalisation()}
        layers |= {"pool": nn.MaxPool2d(2), "relu": nn.ReLU()}
        return {f"{name}{number}": layer for name, layer in layers.items()}

    def normalisation(self) -> Layers:
        if self.norm == "none":
            return {}
        if self.norm == "gn":
            return {"gn": nn.GroupNorm(4, WIDTH)}
        return {"bn": nn.BatchNorm2d(WIDTH, track_running_stats=False)}
