"""Networks with named parts, and the catalogue of those that have a name."""

from .. import spelling
from .by_client import ByClient, for_clients, read_models, write_models
from .convnet import ConvNet
from .description import (
    DescribedPart,
    Description,
    describe,
    describe_network,
    has_batch_norm,
    has_dropout,
    multiply_adds,
)
from .efficientnet_lite0 import EfficientNetLite0
from .fedcrc_cnn import FedCRCCNN
from .fedrir_cnn import FedRIRCNN
from .mlp import MLP, Logistic
from .naming import parts
from .network import Model, Network, Shape
from .pfedpm_cnn import PFedPMCNN
from .pfl_cnn import PFLCNN
from .pfllib_cnn import PFLlibCNN
from .resnet18 import ResNet18, from_torchvision

MODELS: dict[str, type] = {
    "convnet": ConvNet,
    "efficientnet-lite0": EfficientNetLite0,
    "fedcrc-cnn": FedCRCCNN,
    "fedrir-cnn": FedRIRCNN,
    "logistic": Logistic,
    "mlp": MLP,
    "pfedpm-cnn": PFedPMCNN,
    "pfl-cnn": PFLCNN,
    "pfllib-cnn": PFLlibCNN,
    "resnet18": ResNet18,
}


def model(text: str) -> Model:
    """The model that the text spells: `convnet`, `mlp:200+100`, `resnet18:stem=3x3`."""
    found: Model = spelling.read(text, MODELS, "model")
    return found


__all__ = [
    "MLP",
    "MODELS",
    "PFLCNN",
    "ByClient",
    "ConvNet",
    "DescribedPart",
    "Description",
    "EfficientNetLite0",
    "FedCRCCNN",
    "FedRIRCNN",
    "Logistic",
    "Model",
    "Network",
    "PFLlibCNN",
    "PFedPMCNN",
    "ResNet18",
    "Shape",
    "describe",
    "describe_network",
    "for_clients",
    "from_torchvision",
    "has_batch_norm",
    "has_dropout",
    "model",
    "multiply_adds",
    "parts",
    "read_models",
    "write_models",
]
