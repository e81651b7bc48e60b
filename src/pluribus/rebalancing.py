"""Rebalanced examples: as many of each class that there is, some of them copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .examples import Examples


def balanced(y: Tensor, each: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Positions of so many examples of each class, drawn: of originals, none twice, and of those to copy.

    A class with enough has no copies; of one with fewer all are originals, and the rest copies of some.
    """
    members = [(y == c).nonzero().flatten() for c in y.unique()]  # type: ignore[no-untyped-call]
    originals = [m[torch.randperm(len(m), generator=rng)[:each]] for m in members]
    missing = [each - len(chosen) for chosen in originals]
    copied = [m[torch.randint(len(m), (n,), generator=rng)] for m, n in zip(members, missing, strict=True)]
    return torch.cat(originals), torch.cat(copied)


def with_copies(
    data: Examples, originals: Tensor, copied: Tensor, change: Callable[[Tensor], Tensor] | None
) -> Examples:
    """The examples at the first positions as they are, and copies of those at the others.

    Copies of 8-bit images are changed.
    """
    rows, copies = data.index[torch.cat([originals, copied])], slice(len(originals), None)
    inputs = data.inputs[rows]
    if change and len(copied) and inputs.dtype == torch.uint8:
        inputs[copies] = change(inputs[copies])
    return replace(data, inputs=inputs, labels=data.labels[rows], index=torch.arange(len(rows)))
