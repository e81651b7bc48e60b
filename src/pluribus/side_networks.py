"""Networks that methods put beside the parts of a model, as large as those ask for, and how they begin."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .errors import MethodError


def usual_projector(features: int) -> nn.Sequential:
    """DualFed's: two linear layers, each normalised, ReLU after the first; half as wide between them."""
    half = max(1, features // 2)
    inner = nn.Linear(features, half), nn.ReLU(), nn.BatchNorm1d(half)
    return nn.Sequential(nn.Flatten(), *inner, nn.Linear(half, features), nn.BatchNorm1d(features))


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


def relation_module(features: int, map: tuple[int, ...]) -> nn.Sequential:
    """Sung et al.'s (2018): a convolution over two features, two linear layers, a score between 0 and 1.

    The two are channels of a vector or, if `map` says channels, height and width, twice as many of a map.
    """
    size = map[1:] or (features,)
    if len(map) not in (0, 3) or math.prod(map or size) != features or min(size) < 2:
        raise MethodError(
            f"PFedPM's relation module sees a feature as {'x'.join(str(n) for n in map or size)}; {features} "
            "numbers reach the head\n    map=20+4+4 would be 20 channels of 4 x 4, of 2 x 2 or more; empty "
            "is a vector of 2 numbers or more"
        )
    seen: tuple[nn.Module, ...]
    if map:
        first = nn.Flatten(), nn.Unflatten(1, (2 * map[0], *size)), nn.Conv2d(2 * map[0], 64, 3, padding=1)
        seen = (*first, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
    else:
        seen = nn.Conv1d(2, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2)
    left = 64 * math.prod(n // 2 for n in size)
    return nn.Sequential(*seen, nn.Flatten(), nn.Linear(left, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())


def relate(relation: nn.Module, f: Tensor, known: Tensor) -> Tensor:
    """How well each of the features goes with each of the prototypes."""
    size = (len(f), *known.shape)
    pairs = torch.stack([f.to(known)[:, None].expand(size), known.expand(size)], dim=2)
    scores: Tensor = relation(pairs.flatten(0, 1))
    return scores.view(len(f), len(known))


def say_nothing(head: nn.Module) -> None:
    """Makes the last layer of this head 0, and so its output."""
    layers = [list(m.parameters()) for m in head.modules()]
    for p in next(filter(None, reversed(layers)), []):
        nn.init.zeros_(p)
