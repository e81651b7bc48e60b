"""Named layers in a row, and where the row is cut into encoder and head.

Pooling stands before ReLU wherever the papers print it after: the largest of some numbers and ReLU
can change places without changing a bit of result or gradient, and ReLU then has a quarter of the work.
"""

from collections import OrderedDict
from collections.abc import Iterable

import torch
from torch import nn

from ..errors import ModelError, SettingError
from .network import Network, Shape, check_input, evaluating
from .projector import projector_layers

Layers = dict[str, nn.Module]


def network(layers: Layers, *, head_layers: int, projector: str = "", shape: Shape, classes: int) -> Network:
    """The layers as a network; its head holds the last `head_layers` linear layers, a projector before it."""
    names = list(layers)
    at = cut(list(layers.values()), head_layers)
    encoder = {name: layers[name] for name in names[:at]}
    head = {name: layers[name] for name in names[at:]}
    features = next(layer.in_features for layer in head.values() if isinstance(layer, nn.Linear))
    between = {"projector": row(projector_layers(projector, features))} if projector else {}
    return Network({"encoder": row(encoder), **between, "head": row(head)}, shape=shape, classes=classes)


def cut(layers: list[nn.Module], head_layers: int) -> int:
    """Where the head begins: at the last linear layers but for the dropout before them, which is its too.

    Features are then what the encoder says, before noise.
    """
    at = [i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear)][-head_layers]
    while isinstance(layers[at - 1], nn.Dropout):
        at -= 1
    return at


def row(layers: Layers) -> nn.Module:
    """The layers one after the other, under their names; one alone stands for itself."""
    return next(iter(layers.values())) if len(layers) == 1 else nn.Sequential(OrderedDict(layers))


def num_out(layers: Layers, shape: Shape) -> int:
    """How many numbers leave the layers for each input of this shape."""
    trunk = nn.Sequential(OrderedDict(layers))
    with evaluating(trunk), torch.no_grad():
        return int(trunk(torch.zeros(2, *shape))[0].numel())


def check_images(model: str, shape: Shape, classes: int, *, smallest: int) -> None:
    """Raises what a user can put right before any layer is made."""
    check_input(shape, classes)
    if min(shape[1:]) < smallest:
        raise ModelError(
            f"{model} needs images of at least {smallest} x {smallest}; got {shape[1]} x {shape[2]}\n"
            "    mlp, logistic and resnet18 take any size, pfl-cnn takes 6 x 6 and larger"
        )


def check_choice(setting: str, value: object, choices: Iterable[object]) -> None:
    """A model's setting is one of a few values."""
    known = list(choices)
    if value not in known:
        raise SettingError(f"{setting} is {value!r}; it should be one of: {', '.join(map(str, known))}")
