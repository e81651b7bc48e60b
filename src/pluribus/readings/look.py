"""A look at what a model predicts, as a value: the same in this process, a worker, a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..client import Client
from ..device import computing
from ..examples import Examples
from ..method import OneOf, Predictors
from ..seeds import lent
from ..stage import GENERIC, PERSONAL, WELCOME
from ..state import Tensors
from ..turn import Place, Turn
from .score import Score

Question = Literal["personal", "generic", "welcome"]
Split = Literal["test", "val"]
STAGES = {"personal": PERSONAL, "generic": GENERIC, "welcome": WELCOME}
PIXELS = 2**17  # in a batch: what fits a cache
BATCH_OF_STATISTICS = 128  # where an answer depends on the others in its batch


@dataclass(frozen=True)
class Sight:
    """What came of a look: for each predictor's name, each client's score."""

    number: int
    scores: Mapping[str, Mapping[str, Score]]


@dataclass(frozen=True)
class Look:
    """The first of these clients is seated; what it predicts with is tried on the data of all of them."""

    question: Question
    clients: tuple[str, ...]
    message: Tensors
    kept: Tensors
    split: Split = "test"
    epochs: int = 0  # of a newcomer's own training
    number: int = 0  # among the looks that are done together

    def done_in(self, place: Place) -> Sight:
        first = self.clients[0]
        noise = lent(place.seed, self.question, place.data_of(first).key, "noise")
        with noise, computing(place.device, place.training.precision):
            client = place.seat(Turn(0, STAGES[self.question], first, self.message, 0, self.kept))
            predictors = self.answer(place, client)
            client.parts.eval()
            data = {k: getattr(place.data_of(k), self.split) for k in self.clients}
            return Sight(self.number, scores(predictors, client.parts, data, place.device))

    def size_in(self, place: Place) -> int:
        """How long it takes, beside others: by its examples."""
        return sum(len(getattr(place.data_of(k), self.split)) for k in self.clients)

    def answer(self, place: Place, client: Client) -> Predictors:
        if self.question == "welcome":
            return place.method.welcome(client, self.epochs)
        return place.method.personal(client) if self.question == "personal" else place.method.generic(client)


@torch.inference_mode()
def scores(
    predictors: Predictors, parts: nn.Module, data: Mapping[str, Examples], device: str = "cpu"
) -> dict[str, dict[str, Score]]:
    """For each predictor each client's score; all are tested together unless answers depend on the batch."""
    if not predictors:
        return {}
    if any(isinstance(m, _BatchNorm) and m.running_mean is None for m in parts.modules()):
        pieces = [right(predictors, d, BATCH_OF_STATISTICS, device) for d in data.values()]
    else:
        together, sizes = pooled(data), [len(d) for d in data.values()]
        pieces = list(torch.split(right(predictors, together, batch_of(together), device), sizes, dim=1))
    return {
        name: {k: Score(int(piece[row].sum()), len(data[k])) for k, piece in zip(data, pieces, strict=True)}
        for row, name in enumerate(predictors)
    }


def batch_of(data: Examples) -> int:
    """How many examples are tested at once: 167 of 28 pixels a side, 16 of 96."""
    return max(16, PIXELS // max(1, math.prod(data.inputs.shape[-2:])))


def right(predictors: Predictors, data: Examples, batch: int, device: str = "cpu") -> Tensor:
    """A row for each predictor: of each example whether the prediction is right."""
    pieces = [positions for positions in torch.split(torch.arange(len(data)), batch) if len(positions)]
    batches = (data.batch(positions) for positions in pieces)
    found = [
        torch.stack([said.argmax(1).cpu() == y for said in answers(predictors, x.to(device))])
        for x, y in batches
    ]
    return torch.cat(found or [torch.zeros(len(predictors), 0, dtype=torch.bool)], dim=1)


def answers(predictors: Predictors, x: Tensor) -> list[Tensor]:
    """What each predictor says; those of one pass are asked once."""
    asked = dict.fromkeys(p.answers for p in predictors.values() if isinstance(p, OneOf))
    said = {together: together(x) for together in asked}
    return [said[p.answers][p.which] if isinstance(p, OneOf) else p(x) for p in predictors.values()]


def pooled(data: Mapping[str, Examples]) -> Examples:
    """The examples of several clients as one list; they lie in the same arrays."""
    first = next(iter(data.values()))
    if all(d.inputs is first.inputs for d in data.values()):
        return replace(first, index=torch.cat([d.index for d in data.values()]))
    inputs, labels = (
        torch.cat([getattr(d, name)[d.index] for d in data.values()]) for name in ("inputs", "labels")
    )
    return replace(first, inputs=inputs, labels=labels, index=torch.arange(len(labels)))
