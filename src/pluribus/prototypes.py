"""Prototypes: for each class the mean of its features, which some methods send in place of weights.

They are named tensors, a row for each class there is:

    class       (m,)    the labels, each once
    prototype   (m, d)  the mean feature of each
    count       (m,)    of how many examples
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from .client import Client
from .errors import MethodError
from .state import Tensors


def of_features(features: Tensor, y: Tensor) -> dict[str, Tensor]:
    """C_j = mean of the features of class j, summed in float64."""
    classes = y.unique()  # type: ignore[no-untyped-call]
    same = (classes[:, None] == y).double()
    counts = same.sum(1)
    mean = same @ features.flatten(1).double() / counts[:, None]
    single = torch.promote_types(features.dtype, torch.float32)
    return {"class": classes, "prototype": mean.to(single), "count": counts.long()}


@torch.no_grad()
def of_data(client: Client) -> dict[str, Tensor]:
    """Over all examples of the client, in evaluation mode."""
    client.parts.eval()
    features = [client.parts.features(x) for x, _ in client.in_order()]
    return of_features(torch.cat(features), client.data.y.to(client.device))


def of_last_epoch(seen: Sequence[tuple[Tensor, Tensor]], epochs: int) -> dict[str, Tensor]:
    """Over the batches (features, labels) of the last of so many epochs, as they were in training."""
    features, y = zip(*seen[-(len(seen) // epochs) :], strict=True)
    return of_features(torch.cat(features), torch.cat(y))


def mean_by_class(
    sent: Sequence[Tensors], before: Tensors, weights: Literal["sample", "uniform", "literal"]
) -> dict[str, Tensor]:
    """For each class the mean of what its owners sent; of a class that nobody sent, what was before.

    Owners count by their examples (sample) or alike (uniform).  `literal` divides the mean by their number
    once more.
    """
    if len(sizes := {one["prototype"].shape[1] for one in [*sent, before] if one}) > 1:
        raise MethodError(
            f"prototypes need features of one size from everybody; there are {sorted(sizes)}"
            "\n    networks may differ between clients, but not in what reaches their heads"
        )
    every = {name: torch.cat([one[name] for one in sent]) for name in sent[0]}
    classes = every["class"].unique()  # type: ignore[no-untyped-call]
    owns = (classes[:, None] == every["class"]).double()
    weight = owns if weights == "uniform" else owns * every["count"]
    mean = weight @ every["prototype"].double() / weight.sum(1, keepdim=True)
    if weights == "literal":
        mean = mean / owns.sum(1, keepdim=True)
    new = {"class": classes, "prototype": mean.to(every["prototype"].dtype)}
    if "count" in every:
        new["count"] = (owns @ every["count"].double()).long()
    silent = ~torch.isin(before["class"], classes) if before else None
    return new if silent is None else {n: torch.cat([t, before[n][silent]]) for n, t in new.items()}


def rows_of(y: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """For each label whether it is among these classes, and in which row."""
    found, row = (y[:, None] == classes).max(1)
    return found, row
