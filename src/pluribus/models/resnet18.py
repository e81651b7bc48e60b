"""ResNet-18: eight residual blocks of two convolutions.

He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, arXiv:1512.03385.

    stem · 2 blocks of 64 · 2 of 128 · 2 of 256 · 2 of 512 · mean over the image | linear to classes

`stem=7x7` is the published one, a convolution and a pooling, each of stride 2 (`strides=2+2`).  pFedPM
gives half its clients `strides=1+4`: other networks inside, the same number of features.  `stem=3x3` is
the usual one for 32 x 32 images: stride 1 and no pooling, about fifteen times the work.
The encoder has 11,176,512 parameters on three channels (11,168,832 with the small stem), the head 513 a
class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from ..errors import ModelError, SettingError
from .efficientnet_lite0 import weights_in
from .layers import Layers, check_choice, network, row
from .network import Network, Shape, check_input, is_positive
from .projector import check_projector


@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 with the published stem or the one for small images."""

    stem: Literal["7x7", "3x3"] = "7x7"
    strides: tuple[int, int] = (2, 2)
    weights: str = ""  # torchvision's file resnet18-*.pth; empty: at random
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("resnet18", self.projector)
        check_choice("resnet18: stem", self.stem, ("7x7", "3x3"))
        if [is_positive(stride) for stride in self.strides] != [True, True]:
            raise SettingError(
                f"resnet18: strides is {self.strides!r}; it should be two positive numbers: 2+2"
            )
        if self.stem == "3x3" and self.strides != (2, 2):
            raise SettingError(
                "resnet18: strides belong to the 7x7 stem; the 3x3 stem has stride 1, no pooling"
            )
        if self.weights and self.stem == "3x3":
            raise SettingError("resnet18: weights were learned with the 7x7 stem; the 3x3 stem has none")

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its only linear layer; convolutions begin as He et al. (2015) say."""
        check_input(shape, classes)
        layers = self.stem_layers(shape[0])
        for number, (inputs, outputs) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), start=1):
            stride = 1 if number == 1 else 2
            first, second = Block(inputs, outputs, stride), Block(outputs, outputs, 1)
            layers[f"layer{number}"] = nn.Sequential(first, second)
        layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
        for module in row(layers).modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        layers["fc"] = nn.Linear(512, classes)
        made = network(layers, head_layers=1, projector=self.projector, shape=shape, classes=classes)
        if self.weights and made.get_parameter("head.weight").device.type != "meta":
            load(made, Path(self.weights).expanduser())
        return made

    def stem_layers(self, channels: int) -> Layers:
        """The stem's layers."""
        if self.stem == "3x3":
            return {"conv1": conv(channels, 64, 3), "bn1": nn.BatchNorm2d(64), "relu": nn.ReLU()}
        convolution, pooling = self.strides
        layers: Layers = {
            "conv1": conv(channels, 64, 7, convolution),
            "bn1": nn.BatchNorm2d(64),
            "relu": nn.ReLU(),
        }
        return layers | {"maxpool": nn.MaxPool2d(3, stride=pooling, padding=1)}


class Block(nn.Module):
    """Two convolutions, and a way around them that shrinks the image where they do."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        same = stride == 1 and inputs == outputs
        around = () if same else (conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.downsample = nn.Sequential(*around)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(inner + self.downsample(x))
        return out


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image's size at stride 1, without bias: batch normalisation follows."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


def load(network: Network, path: Path) -> None:
    """Torchvision's weights into the encoder, and into the head where the classes are as many."""
    state = {**network.state_dict(), **from_torchvision(weights_in(path))}
    if state["head.weight"].shape[0] != network.classes:
        state |= {n: t for n, t in network.state_dict().items() if n.startswith("head.")}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ModelError(
            f"the weights in '{path}' do not fit\n    {reason}\n    they are for images in colour"
        ) from error


def from_torchvision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of torchvision's ResNet-18 file under the names they have here."""
    return {named_here(name): tensor for name, tensor in state.items()}


def named_here(name: str) -> str:
    """`encoder.conv1.weight` for `conv1.weight`, `head.weight` for `fc.weight`."""
    first, _, rest = name.partition(".")
    if first == "fc":
        return f"head.{rest}"
    if first not in ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4"):
        raise ModelError(
            f"'{name}' is no tensor of torchvision's resnet18\n"
            "    its names begin with conv1, bn1, layer1 to layer4, fc"
        )
    return f"encoder.{name}"
