"""The CNN of pfl-research's benchmarks, for comparing speed on its own ground.

Granqvist et al., "pfl-research: simulation framework for accelerating research in Private Federated
Learning", NeurIPS 2024, arXiv:2404.06430; there it is called simple_cnn.

    conv 3x3 to 32 · ReLU · conv 3x3 to 64 · pool 2 · ReLU · dropout 1/4 · linear to 128 · ReLU
      | dropout 1/2 · linear to classes

Weights begin as Glorot & Bengio (2010) say, uniformly.  1,626,442 parameters for 3 x 32 x 32 and 10 classes.
"""

from dataclasses import dataclass

from torch import nn

from .layers import Layers, check_choice, check_images, network, num_out
from .network import Network, Shape
from .projector import check_projector


@dataclass(frozen=True)
class PFLCNN:
    """The CNN of pfl-research's benchmarks."""

    head_layers: int = 1
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("pfl-cnn", self.projector)
        check_choice("pfl-cnn: head_layers", self.head_layers, (1, 2))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its last `head_layers` linear layers."""
        check_images("pfl-cnn", shape, classes, smallest=6)
        layers: Layers = {"conv1": nn.Conv2d(shape[0], 32, 3), "relu1": nn.ReLU()}
        layers |= {"conv2": nn.Conv2d(32, 64, 3), "pool": nn.MaxPool2d(2), "relu2": nn.ReLU()}
        layers |= {"dropout1": nn.Dropout(0.25), "flatten": nn.Flatten()}
        layers |= {"fc1": nn.Linear(num_out(layers, shape), 128), "relu3": nn.ReLU()}
        layers |= {"dropout2": nn.Dropout(0.5), "fc2": nn.Linear(128, classes)}
        for layer in layers.values():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
        return network(
            layers, head_layers=self.head_layers, projector=self.projector, shape=shape, classes=classes
        )
