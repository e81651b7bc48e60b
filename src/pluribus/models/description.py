"""What a model is made of: its parts, their sizes, and what a prediction costs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from .network import Model, Network, Shape, blank, evaluating


@dataclass(frozen=True)
class DescribedPart:
    """One part: how many parameters, and whether it holds batch normalisation or dropout."""

    name: str
    parameters: int
    batch_norm: bool
    dropout: bool


@dataclass(frozen=True)
class Description:
    """A network in numbers; buffers are not counted."""

    shape: Shape
    classes: int
    features: int
    parameters: int
    multiply_adds: int
    activations: int
    parts: tuple[DescribedPart, ...]


def describe(model: Model, shape: Shape, classes: int) -> Description:
    """The model's network for such inputs in numbers; no weight is made for it, no random number drawn."""
    with torch.device("meta"):
        return describe_network(model.build(shape, classes))


def describe_network(network: Network) -> Description:
    """The network in numbers."""
    return Description(
        shape=network.shape,
        classes=network.classes,
        features=network.features,
        parameters=num_parameters(network),
        multiply_adds=multiply_adds(network),
        activations=activations(network),
        parts=tuple(describe_part(name, part) for name, part in network.parts.items()),
    )


def describe_part(name: str, part: nn.Module) -> DescribedPart:
    return DescribedPart(name, num_parameters(part), has_batch_norm(part), has_dropout(part))


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def has_batch_norm(module: nn.Module) -> bool:
    return any(isinstance(m, _BatchNorm) for m in module.modules())


def has_dropout(module: nn.Module) -> bool:
    return any(isinstance(m, _DropoutNd) for m in module.modules())


def multiply_adds(network: Network) -> int:
    """Multiply-adds of one prediction, in convolutions and linear layers; training takes three times that."""
    total = 0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        assert isinstance(layer.weight, Tensor)
        total += out[0].numel() * layer.weight[0].numel()

    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with watched(layers, count), evaluating(network), torch.no_grad():
        network(blank(network))
    return total


def activations(network: Network) -> int:
    """Numbers that leave the layers for one input: what training holds until the way back."""
    total = 0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        total += out[0].numel()

    layers = [m for m in network.modules() if not any(True for _ in m.children())]
    with watched(layers, count), evaluating(network), torch.no_grad():
        network(blank(network))
    return total


@contextmanager
def watched(
    layers: Sequence[nn.Module], count: Callable[[nn.Module, object, Tensor], None]
) -> Iterator[None]:
    """Inside, `count` sees what leaves each of these layers."""
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
