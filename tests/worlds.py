"""The toy network, cut elsewhere."""

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from toy import Net


def layers(shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
    """The toy network's encoder and head, initialised as there."""
    network = Net().build(shape, classes)
    return network.get_submodule("encoder"), network.get_submodule("head")


@dataclass(frozen=True)
class NoHead:
    """All in the encoder; the head is there, and empty."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(encoder=nn.Sequential(*layers(shape, classes)), head=nn.Identity()))


@dataclass(frozen=True)
class AllHead:
    """All in the head; the encoder is there, and empty."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(encoder=nn.Identity(), head=nn.Sequential(*layers(shape, classes))))


@dataclass(frozen=True)
class Swapped:
    """The first block is called head and the last one encoder."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        first, last = layers(shape, classes)
        return nn.Sequential(OrderedDict(head=first, encoder=last))


@dataclass(frozen=True)
class ThreeParts:
    """A projector between encoder and head."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        first, last = layers(shape, classes)
        return nn.Sequential(OrderedDict(encoder=first, projector=nn.Linear(8, 8), head=last))


@dataclass(frozen=True)
class Double:
    """The toy network in float64."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return Net().build(shape, classes).double()
