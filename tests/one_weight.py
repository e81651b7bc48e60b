"""Networks of one weight or two, whose loss is a parabola: a step of training is arithmetic on paper.

One:   L(w) = ½ c (w - a)²         the head is w; c, the curvature, is 1 unless a test says otherwise
Two:   L(u, v) = ½ (u·v - a)²      the encoder is u, the head is v

Examples are their targets a, all of class 0.  Of two logits (0, z) the cross entropy for class 0 is
log(1 + exp z); with z = log(exp(q) - 1) it is q, for any q > 0.  Everything is float64.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pluribus.examples import Examples
from pluribus.method import Method
from pluribus.stage import Stage
from pluribus.state import Tensors
from pluribus.training import Training
from pluribus.turn import Model, Outcome, Place, Turn
from toy import Person

FIRST = Stage("round", 1, 2)
STEP = Training(lr=0.1, batch=1000)  # one full batch an epoch: an epoch is a step


def logits(loss: Tensor) -> Tensor:
    """Two logits of which class 0 has this cross entropy."""
    return torch.stack([torch.zeros_like(loss), torch.log(torch.expm1(loss))], 1)


class Parabola(nn.Module):
    """Its input is a; its loss ½ c (w - a)²."""

    def __init__(self, w: float, curvature: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([w], dtype=torch.float64))
        self.curvature = curvature

    def forward(self, a: Tensor) -> Tensor:
        return logits(self.curvature / 2 * (self.weight - a[:, 0]) ** 2)


class Carrier(nn.Module):
    """Its input is a; its output u and a."""

    def __init__(self, u: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([u], dtype=torch.float64))

    def forward(self, a: Tensor) -> Tensor:
        return torch.stack([self.weight.expand(len(a)), a[:, 0]], 1)


class Product(nn.Module):
    """Its input is u and a; its loss ½ (u·v - a)²."""

    def __init__(self, v: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([v], dtype=torch.float64))

    def forward(self, ua: Tensor) -> Tensor:
        return logits((ua[:, 0] * self.weight - ua[:, 1]) ** 2 / 2)


@dataclass(frozen=True)
class One:
    w: float = 2.0
    curvature: float = 1.0

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(head=Parabola(self.w, self.curvature)))


@dataclass(frozen=True)
class Two:
    u: float = 2.0
    v: float = 3.0

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(encoder=Carrier(self.u), head=Product(self.v)))


def aiming_at(client: str, targets: Sequence[float]) -> Person:
    """A client whose examples are these targets."""
    inputs = torch.tensor(targets, dtype=torch.float64)[:, None]
    data = Examples(inputs, torch.zeros(len(targets), dtype=torch.long), torch.arange(len(targets)), 2)
    return Person(client, client, data, data.take(torch.arange(0)), data)


def place(method: Method, model: Model, *, training: Training = STEP, **targets: Sequence[float]) -> Place:
    """`place(FedAvg(), One(), a=[5])`: one client, called a, whose only target is 5."""
    clients = {client: aiming_at(client, each) for client, each in targets.items()}
    return Place(method, clients, model, (1,), 2, training, 0, 0)


def turn(
    method: Method,
    model: Model,
    *,
    target: float = 5.0,
    kept: Tensors | None = None,
    stage: Stage = FIRST,
    training: Training = STEP,
    **received: float,
) -> Outcome:
    """One turn of a client with one target; what it receives is given as `head=2.0`."""
    at = place(method, model, training=training, a=[target])
    return at.take(Turn(1, stage, "a", weights(**received), 0, kept or {}))


def weights(**parts: float) -> dict[str, Tensor]:
    """`weights(head=2.0)` is {"head.weight": 2.0}."""
    return {f"{part}.weight": torch.tensor([value], dtype=torch.float64) for part, value in parts.items()}


def values(tensors: Mapping[str, Tensor] | None) -> dict[str, Any]:
    """The other way round: {"head": 2.0}."""
    return {name.removesuffix(".weight"): t.item() for name, t in (tensors or {}).items()}
