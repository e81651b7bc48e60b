"""PFLlib's two-layer CNN, on which most personalised methods are compared today.

Zhang et al., "PFLlib: A Beginner-Friendly and Comprehensive Personalized Federated Learning Library
and Benchmark", JMLR 2025, arXiv:2312.04992; there it is called FedAvgCNN.

    conv 5x5 to 32 · pool 2 · ReLU · conv 5x5 to 64 · pool 2 · ReLU · linear to 512 · ReLU | linear to classes

582,026 parameters for 1 x 28 x 28 and 10 classes.
"""

from dataclasses import dataclass

from torch import nn

from .layers import Layers, check_choice, check_images, network, num_out
from .network import Network, Shape
from .projector import check_projector


@dataclass(frozen=True)
class PFLlibCNN:
    """PFLlib's two-layer CNN."""

    head_layers: int = 1
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("pfllib-cnn", self.projector)
        check_choice("pfllib-cnn: head_layers", self.head_layers, (1, 2))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its last `head_layers` linear layers."""
        check_images("pfllib-cnn", shape, classes, smallest=16)
        layers: Layers = {"conv1": nn.Conv2d(shape[0], 32, 5), "pool1": nn.MaxPool2d(2), "relu1": nn.ReLU()}
        layers |= {"conv2": nn.Conv2d(32, 64, 5), "pool2": nn.MaxPool2d(2), "relu2": nn.ReLU()}
        layers |= {"flatten": nn.Flatten()}
        layers |= {"fc1": nn.Linear(num_out(layers, shape), 512), "relu3": nn.ReLU()}
        layers |= {"fc2": nn.Linear(512, classes)}
        return network(
            layers, head_layers=self.head_layers, projector=self.projector, shape=shape, classes=classes
        )
