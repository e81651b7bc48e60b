"""Networks that methods put beside the parts of a model, as large as those ask for."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from torch import nn


def two_layers(features: int) -> nn.Sequential:
    """From features to as many others."""
    return nn.Sequential(nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, features))


def twice_as_wide(body: Sequence[nn.Module], features: int) -> nn.Sequential:
    """A copy of these parts in a row, ending in a linear map to twice as many features."""
    parts = copy.deepcopy(list(body))
    layers = [layer for part in parts for layer in (part if type(part) is nn.Sequential else [part])]
    if isinstance(layers[-1], nn.Linear):
        return nn.Sequential(*layers[:-1], nn.Linear(layers[-1].in_features, 2 * features))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 2 * features))


def generator(shape: tuple[int, ...], features: int) -> nn.Sequential:
    """From features to an input of this shape: two deconvolutions, or a linear map where they do not fit."""
    p = (shape[-1] - 12) // 4  # two deconvolutions make 4 p + 12 of p
    if p < 1 or shape[1:] != (4 * p + 12, 4 * p + 12):
        return nn.Sequential(nn.Linear(features, math.prod(shape)), nn.Unflatten(1, shape))
    up = nn.ConvTranspose2d(64, 32, 5, 2, output_padding=1), nn.ReLU()
    last = nn.ConvTranspose2d(32, shape[0], 5, 2, output_padding=1)
    return nn.Sequential(nn.Linear(features, 64 * p * p), nn.Unflatten(1, (64, p, p)), *up, last)
