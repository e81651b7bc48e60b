"""A dataset: images as bytes, labels, and what is known about its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from .. import state
from ..errors import DataError, UnknownName
from ..examples import Scale

ScaleName = Literal["half", "statistics", "none"]
ROWS_AT_A_TIME = 2048


@dataclass(frozen=True, eq=False)
class Dataset:
    """The first `official` rows are the official training set, the others the official test set."""

    name: str
    inputs: Tensor = field(repr=False)  # uint8 (N, C, H, W)
    labels: Tensor = field(repr=False)  # int64 (N,)
    classes: tuple[str, ...]
    official: int
    groups: Mapping[str, Tensor] = field(repr=False)  # "writer", "domain": int64 per row
    digest: str
    statistics: Scale | None = None  # of the official training rows, where they were measured before

    def __post_init__(self) -> None:
        if wrong := disagreement(self):
            raise DataError(f"dataset '{self.name}': {wrong}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one input."""
        return tuple(self.inputs.shape[1:])

    def scale(self, how: ScaleName = "half") -> Scale:
        """How bytes become inputs: -1 to 1 (half), mean 0 and deviation 1 (statistics), or 0 to 1 (none)."""
        channels = self.shape[0]
        match how:
            case "half":
                return Scale((0.5,) * channels, (0.5,) * channels)
            case "none":
                return Scale((0.0,) * channels, (1.0,) * channels)
            case "statistics":
                return self.statistics or measured(self.inputs, self.official)
        raise UnknownName("scale", how, ("half", "statistics", "none"))


def from_tensors(
    name: str,
    inputs: Tensor,
    labels: Tensor,
    *,
    classes: tuple[str, ...],
    official: int,
    groups: Mapping[str, Tensor] | None = None,
    statistics: Scale | None = None,
) -> Dataset:
    """The dataset of these tensors, with the digest of their contents."""
    known = dict(groups or {})
    digest = content_digest(inputs, labels, known)
    return Dataset(name, inputs, labels, classes, official, known, digest, statistics)


def content_digest(inputs: Tensor, labels: Tensor, groups: Mapping[str, Tensor]) -> str:
    """SHA-256 over everything that is in a dataset."""
    return state.digest({"inputs": inputs, "labels": labels, **state.under("group", groups)})


def measured(inputs: Tensor, rows: int) -> Scale:
    """Mean and deviation of each channel over the first rows (all, if none), exact: bytes are counted."""
    return scale_of(
        torch.stack([channel_counts(inputs[: rows or len(inputs)], c) for c in range(inputs.shape[1])])
    )


def scale_of(counts: Tensor) -> Scale:
    """Mean and deviation of each channel, from how often (channels x 256) each value occurs in it."""
    values = torch.arange(256, dtype=torch.float64) / 255
    total = counts.sum(dim=1)
    mean = (counts * values).sum(dim=1) / total
    spread = ((counts * (values - mean[:, None]).square()).sum(dim=1) / total).sqrt()
    return Scale(tuple(mean.tolist()), tuple(value or 1.0 for value in spread.tolist()))


def channel_counts(inputs: Tensor, channel: int) -> Tensor:
    """How often each of the 256 values occurs in this channel."""
    counts = torch.zeros(256, dtype=torch.int64)
    for start in range(0, len(inputs), ROWS_AT_A_TIME):
        values = inputs[start : start + ROWS_AT_A_TIME, channel]
        counts += torch.bincount(values.flatten(), minlength=256)
    return counts


def disagreement(dataset: Dataset) -> str:
    """What does not fit together; empty if all does."""
    inputs, labels, rows = dataset.inputs, dataset.labels, len(dataset.labels)
    if inputs.dtype != torch.uint8 or inputs.dim() != 4 or not rows:
        return f"inputs are {inputs.dtype} {tuple(inputs.shape)}; they should be uint8 (N, C, H, W), N > 0"
    if labels.dtype != torch.int64 or labels.dim() != 1 or len(inputs) != rows:
        return f"labels are {labels.dtype} {tuple(labels.shape)}; they should be int64 ({len(inputs)},)"
    if int(labels.min()) < 0 or int(labels.max()) >= len(dataset.classes):
        span = f"{int(labels.min())} to {int(labels.max())}"
        return f"labels go from {span}, but there are {len(dataset.classes)} classes"
    if not 0 <= dataset.official <= rows:
        return f"official is {dataset.official}, but there are {rows} rows"
    odd = [n for n, g in dataset.groups.items() if g.dtype != torch.int64 or g.shape != labels.shape]
    return f"groups without one int64 per row: {', '.join(odd)}" if odd else ""
