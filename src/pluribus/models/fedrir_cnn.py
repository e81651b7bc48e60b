"""FedRIR's CNN: two convolutions with batch normalisation and a linear map to 512 features.

    conv 5x5 to 32 · BN · pool 2 · ReLU · conv 5x5 to 64 · BN · pool 2 · ReLU
      · linear to 512 | linear to classes

The encoder is FedRIR's global feature extractor; nothing follows its linear layer, as in the
authors' code, so features may be negative.  577,088 parameters for 1 x 28 x 28, and 5,130 in the head
that the methods compared with FedRIR put on top for 10 classes.
"""

from dataclasses import dataclass

from torch import nn

from .layers import Layers, check_images, network, num_out
from .network import Network, Shape
from .projector import check_projector


@dataclass(frozen=True)
class FedRIRCNN:
    """FedRIR's global feature extractor, with a linear head."""

    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("fedrir-cnn", self.projector)

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before the last linear layer."""
        check_images("fedrir-cnn", shape, classes, smallest=16)
        layers: Layers = {"conv1": nn.Conv2d(shape[0], 32, 5), "bn1": nn.BatchNorm2d(32)}
        layers |= {"pool1": nn.MaxPool2d(2), "relu1": nn.ReLU()}
        layers |= {"conv2": nn.Conv2d(32, 64, 5), "bn2": nn.BatchNorm2d(64)}
        layers |= {"pool2": nn.MaxPool2d(2), "relu2": nn.ReLU()}
        layers |= {"flatten": nn.Flatten()}
        layers |= {"fc1": nn.Linear(num_out(layers, shape), 512)}
        layers |= {"fc2": nn.Linear(512, classes)}
        return network(layers, head_layers=1, projector=self.projector, shape=shape, classes=classes)
