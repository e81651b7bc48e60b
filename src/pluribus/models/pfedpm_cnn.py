"""pFedPM's CNN: the small network of FedProto's code, with dropout.

Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022,
arXiv:2105.00243; pFedPM's numbers of sent features show that it uses the same.

    conv 5x5 to 10 · pool 2 · ReLU · conv 5x5 to 20 · dropout of channels · pool 2 · ReLU
      · linear to 50 · ReLU | dropout · linear to classes

21,840 parameters for 1 x 28 x 28 and 10 classes.  `channels` of the second convolution are 18, 20 or 22
where clients differ (pFedPM-mh).  `kernel=3` is the first kernel for FEMNIST: 849,332 parameters for
1 x 128 x 128 and 62 classes.  `head_layers=2` cuts after the convolutions, as in pFedPM's tables for
FedPer and FedRep.  Dropout before a linear layer belongs to the head, so prototypes are free of it.
"""

from dataclasses import dataclass

from torch import nn

from ..errors import SettingError
from .layers import Layers, check_choice, check_images, network, num_out
from .network import Network, Shape, is_positive
from .projector import check_projector


@dataclass(frozen=True)
class PFedPMCNN:
    """FedProto's small CNN, as pFedPM uses it."""

    head_layers: int = 1
    channels: int = 20
    kernel: int = 5
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("pfedpm-cnn", self.projector)
        check_choice("pfedpm-cnn: head_layers", self.head_layers, (1, 2))
        check_choice("pfedpm-cnn: kernel", self.kernel, (3, 5))
        if not is_positive(self.channels):
            raise SettingError(f"pfedpm-cnn: channels is {self.channels!r}; it should be 1 or more")

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its last `head_layers` linear layers."""
        check_images("pfedpm-cnn", shape, classes, smallest=11 + self.kernel)
        layers: Layers = {"conv1": nn.Conv2d(shape[0], 10, self.kernel)}
        layers |= {"pool1": nn.MaxPool2d(2), "relu1": nn.ReLU()}
        layers |= {"conv2": nn.Conv2d(10, self.channels, 5), "dropout1": nn.Dropout2d(0.5)}
        layers |= {"pool2": nn.MaxPool2d(2), "relu2": nn.ReLU()}
        layers |= {"flatten": nn.Flatten()}
        layers |= {"fc1": nn.Linear(num_out(layers, shape), 50), "relu3": nn.ReLU()}
        layers |= {"dropout2": nn.Dropout(0.5), "fc2": nn.Linear(50, classes)}
        return network(
            layers, head_layers=self.head_layers, projector=self.projector, shape=shape, classes=classes
        )
