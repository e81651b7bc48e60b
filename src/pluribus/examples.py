"""Labelled examples: a list of positions in arrays that live once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scale:
    """How stored bytes become inputs: (x / 255 - mean) / std, channel by channel."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __call__(self, images: Tensor) -> Tensor:
        shape = (1, -1, *(1,) * (images.dim() - 2))
        mean, std = torch.tensor(self.mean).view(shape), torch.tensor(self.std).view(shape)
        return images.float().sub_(255 * mean).div_(255 * std)


@dataclass(frozen=True)
class Examples:
    """Inputs are uint8 images (N, C, H, W), scaled batch by batch, or float tensors, taken as they are."""

    inputs: Tensor
    labels: Tensor
    index: Tensor
    classes: int
    scale: Scale = Scale()
    through: tuple[str, ...] = ()  # parts that the inputs have been through already

    def __len__(self) -> int:
        return len(self.index)

    @property
    def y(self) -> Tensor:
        """All labels, in order."""
        return self.labels[self.index]

    @property
    def x(self) -> Tensor:
        """All inputs, in order, ready for a network. Large: prefer `batch`."""
        return self.batch(torch.arange(len(self)))[0]

    @property
    def counts(self) -> Tensor:
        """How many examples there are of each class."""
        return torch.bincount(self.y, minlength=self.classes)

    def batch(
        self, positions: Tensor, change: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Inputs and labels at these positions, ready for a network; images are changed, then scaled."""
        rows = self.index[positions]
        x = self.inputs[rows]
        if change is not None and x.dtype == torch.uint8:
            x = change(x)
        return (self.scale(x) if x.dtype == torch.uint8 else x), self.labels[rows]

    def take(self, positions: Tensor) -> Examples:
        """The examples at these positions; repetitions are allowed."""
        return replace(self, index=self.index[positions])
