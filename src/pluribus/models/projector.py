"""A projector between encoder and head: as many numbers leave it as reach it.

It is a setting of every model but `logistic`, empty for none:

    projector=256        linear to 256 · ReLU · BN · linear back · BN     DualFed's, after ResNet-18
    projector=256+256    another layer of 256 between, with ReLU and BN
    projector=linear     no hidden layer: linear · BN
    projector=256-plain  any of these without batch normalisation

Zhu et al., "DualFed", MM 2024, compares depths 1, 2 and 3, widths, and leaving out the normalisation.
What is before it, and the head, begin with the weights they have without it.
"""

import re
from itertools import pairwise

from torch import nn

from ..errors import SettingError

WIDEST = 1_000_000
SPELLED = re.compile(r"(linear|[1-9]\d*(?:\+[1-9]\d*)*)(-plain)?")


def check_projector(model: str, text: str) -> None:
    """The setting spells a projector, or is empty."""
    if text and not (SPELLED.fullmatch(text) and all(width <= WIDEST for width in hidden(text))):
        raise SettingError(
            f"{model}: projector is {text!r}; it should be hidden widths of at most {WIDEST:,}, like 256 or "
            "256+256, or 'linear'\n    without batch normalisation: 256-plain; no projector: leave it out"
        )


def hidden(text: str) -> list[int]:
    """The widths of the hidden layers."""
    widths = text.removesuffix("-plain")
    return [] if widths == "linear" else [int(width) for width in widths.split("+")]


def projector_layers(text: str, features: int) -> dict[str, nn.Module]:
    """The projector's layers, by name, for so many features."""
    layers: dict[str, nn.Module] = {}
    widths = [features, *hidden(text), features]
    for number, (inputs, outputs) in enumerate(pairwise(widths), start=1):
        layers[f"fc{number}"] = nn.Linear(inputs, outputs)
        if number < len(widths) - 1:
            layers[f"relu{number}"] = nn.ReLU()
        if not text.endswith("-plain"):
            layers[f"bn{number}"] = nn.BatchNorm1d(outputs)
    return layers
