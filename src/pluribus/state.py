"""Named tensors: the only thing that is kept, sent or summed.

A name without a slash is a tensor of a part: `encoder.conv1.weight`.  A name with a slash is the
method's own: `control/encoder.conv1.weight`, `census/threshold`.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
BLOCK = 65_536


def part_of(name: str) -> str:
    """The part a tensor's name begins with: `encoder` of `encoder.conv1.weight`."""
    return name.split(".", 1)[0]


def of_parts(tensors: Tensors) -> dict[str, Tensor]:
    """The entries that belong to parts."""
    return {n: t for n, t in tensors.items() if "/" not in n}


def select(tensors: Tensors, *parts: str) -> dict[str, Tensor]:
    """The entries of these parts, under their full names."""
    return {n: t for n, t in tensors.items() if "/" not in n and part_of(n) in parts}


def under(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """The same tensors as the method's own, each name behind `prefix/`."""
    return {f"{prefix}/{n}": t for n, t in tensors.items()}


def within(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """What `under(prefix, ...)` put there, under its old names; empty if it put nothing."""
    cut = len(prefix) + 1
    return {n[cut:]: t for n, t in tensors.items() if n.startswith(f"{prefix}/")}


def zeros_like(tensors: Tensors) -> dict[str, Tensor]:
    return {n: torch.zeros_like(t) for n, t in tensors.items()}


def copied(tensors: Tensors) -> dict[str, Tensor]:
    """The same values in memory of their own, wherever they lie now."""
    return {n: t.detach().to("cpu", copy=True) for n, t in tensors.items()}


def add(a: Tensors, b: Tensors, scale: float = 1.0) -> dict[str, Tensor]:
    """a + scale · b, over the names of a."""
    return {n: torch.add(t, b[n], alpha=scale) for n, t in a.items()}


def mix(a: Tensors, b: Tensors, weight: float) -> dict[str, Tensor]:
    """(1 - weight) · a + weight · b, in float64: exactly a at 0, exactly b at 1."""
    return {n: torch.lerp(t.double(), b[n].double(), weight).to(t.dtype) for n, t in a.items()}


def average(states: Sequence[Tensors], weights: Sequence[float]) -> dict[str, Tensor]:
    """The weighted mean, summed in the order given, in float64."""
    total = float(sum(weights))
    mean: dict[str, Tensor] = {}
    for name, first in states[0].items():
        acc = torch.zeros_like(first, dtype=torch.float64)
        for state, weight in zip(states, weights, strict=True):
            add_scaled(acc, state[name], float(weight))
        mean[name] = acc.div_(total).to(first.dtype)
    return mean


def add_scaled(acc: Tensor, tensor: Tensor, weight: float) -> None:
    """acc += weight · tensor, in float64; in blocks that fit a cache, where both lie in one piece."""
    if not (acc.is_contiguous() and tensor.is_contiguous()):
        acc.add_(tensor.double(), alpha=weight)
        return
    for whole, piece in zip(*(torch.split(t.view(-1), BLOCK) for t in (acc, tensor)), strict=True):
        whole.add_(piece.double(), alpha=weight)


def square_distance(a: Tensors, b: Tensors) -> float:
    """Σ (a - b)² over the names of a, in float64."""
    return float(sum((t.double() - b[n].double()).square().sum() for n, t in a.items()))


def num_bytes(tensors: Tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors.values())


def num_scalars(tensors: Tensors) -> int:
    return sum(t.numel() for t in tensors.values())


def not_finite(tensors: Tensors) -> list[str]:
    """The names of those that hold a NaN or an infinity."""
    return [n for n, t in tensors.items() if t.is_floating_point() and not is_finite(t)]


def is_finite(tensor: Tensor) -> bool:
    """A finite sum has finite terms; an infinite one may yet have them, and each is looked at."""
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def digest(tensors: Tensors) -> str:
    """SHA-256 over names, types, shapes and bytes; equal means equal to the bit."""
    h = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name].detach().cpu().contiguous()
        h.update(f"{name} {t.dtype} {tuple(t.shape)}\n".encode())
        h.update(t.reshape(-1).view(torch.uint8).numpy().data if t.numel() else b"")
    return h.hexdigest()
