"""Masked inputs, from which a network learns to say what is hidden."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

PATCH = 4  # pixels of an image are hidden together, so many by so many


def masked(x: Tensor, ratio: float, rng: torch.Generator) -> Tensor:
    """Each example with exactly this share of its patches at 0, rounded down; others than its neighbour's.

    Of what is no image (n, C, H, W) each number is a patch.
    """
    patch, sides = (PATCH, x.shape[2:]) if x.dim() == 4 else (1, x.shape[1:])
    grid = [math.ceil(side / patch) for side in sides]
    order = torch.rand(len(x), math.prod(grid), generator=rng).argsort(1)
    hidden = math.floor(Fraction(str(ratio)) * order.shape[1])  # of 100 numbers 0.29 is 29, and in floats 28
    seen = (order >= hidden).view(len(x), *grid)
    if x.dim() == 4:
        pixels = seen.repeat_interleave(patch, 1).repeat_interleave(patch, 2)
        seen = pixels[:, None, : x.shape[2], : x.shape[3]]
    return torch.where(seen.to(x.device), x, 0)
