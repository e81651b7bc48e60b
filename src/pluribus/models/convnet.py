"""ConvNet: FedReG's network, two wide convolutions and three linear layers.

FedReG takes it from the code of FedDyn (Acar et al., ICLR 2021, arXiv:2111.04263):

    conv 5x5 to 64 · pool 2 · ReLU · conv 5x5 to 64 · pool 2 · ReLU
      · linear to 384 · ReLU · linear to 192 · ReLU | linear to classes

573,578 parameters for 1 x 28 x 28 and 10 classes.  FedReG says the head is "the last few linear
layers"; here it is the last one, and `head_layers=3` takes all three.
"""

from dataclasses import dataclass

from torch import nn

from .layers import Layers, check_choice, check_images, network, num_out
from .network import Network, Shape
from .projector import check_projector


@dataclass(frozen=True)
class ConvNet:
    """FedReG's ConvNet."""

    head_layers: int = 1
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("convnet", self.projector)
        check_choice("convnet: head_layers", self.head_layers, (1, 2, 3))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its last `head_layers` linear layers."""
        check_images("convnet", shape, classes, smallest=16)
        layers: Layers = {"conv1": nn.Conv2d(shape[0], 64, 5), "pool1": nn.MaxPool2d(2), "relu1": nn.ReLU()}
        layers |= {"conv2": nn.Conv2d(64, 64, 5), "pool2": nn.MaxPool2d(2), "relu2": nn.ReLU()}
        layers |= {"flatten": nn.Flatten()}
        layers |= {"fc1": nn.Linear(num_out(layers, shape), 384), "relu3": nn.ReLU()}
        layers |= {"fc2": nn.Linear(384, 192), "relu4": nn.ReLU()}
        layers |= {"fc3": nn.Linear(192, classes)}
        return network(
            layers, head_layers=self.head_layers, projector=self.projector, shape=shape, classes=classes
        )
