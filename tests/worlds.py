"""The toy network, cut elsewhere."""

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from toy import FEATURES, Net


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


@dataclass(frozen=True)
class Projected:
    """The toy network with a projector of two layers; if asked, all of it normalises batches."""

    norm: bool = False

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net(norm=self.norm).build(shape, classes)
        layers: list[nn.Module] = [nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, FEATURES)]
        layers += [nn.BatchNorm1d(FEATURES)] if self.norm else []
        parts = [network.get_submodule("encoder"), nn.Sequential(*layers), network.get_submodule("head")]
        return nn.Sequential(OrderedDict(zip(("encoder", "projector", "head"), parts, strict=True)))
