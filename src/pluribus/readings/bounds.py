"""What pFedPM's Theorem 1 says of a learning rate and of λ, with its constants measured on a client.

After E steps of rate η a client's objective ℓ = L + λ R has changed by at most (equation 20)

    -(η - L_1 η² / 2) S + L_1 E η² σ² / 2 + λ L_2 η E G,      S = Σ_e ‖∇ℓ_e‖²

so that it falls if

    η < 2 (S - λ L_2 E G) / (L_1 (S + E σ²))                   lr_bound
    η < 2 (S - λ L_2 E G) / (L_2 E G)                          lr_bound_printed: equation 21
    λ < ‖∇ℓ_1‖² / (L_2 E G)                                    lam_bound: equation 22

Equation 21 as printed does not follow from equation 20; the first line does, and is that of FedProto.

    L_1  the most by which ∇ℓ changed from step to step, over the way that the weights went
    L_2  the same of the features of one example, over the way of the weights before the head
    G    the largest norm of a batch's gradient;  σ²  the mean of its squared distance from ∇ℓ

They are measured on plain steps of the experiment's rate, in evaluation mode, from where the client's next
turn would begin; nothing of the run moves.  Measured along one way they bound the true constants from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from ..client import Client, Parts
from ..engine import Round
from ..errors import MethodError
from ..executors import Executor
from ..executors.serial import Serial
from ..stage import Stage
from ..state import Tensors
from ..turn import Place, Turn


class Pulls(Protocol):
    """A method whose clients pull features to prototypes."""

    lam: float

    def anchors(self, client: Client) -> Tensors: ...

    def loss(self, parts: Parts, f: Tensor, y: Tensor, known: Tensors) -> Tensor: ...


@dataclass(frozen=True)
class Bounds:
    """The constants of one client, and what follows of them."""

    client: str
    steps: int  # E
    descent: float  # S
    first: float  # ‖∇ℓ_1‖²
    smoothness: float  # L_1
    embedding: float  # L_2
    gradient: float  # G
    variance: float  # σ²
    lam: float
    lr: float

    @property
    def drift(self) -> float:
        """L_2 E G: what λ stands before."""
        return self.embedding * self.steps * self.gradient

    @property
    def lr_bound(self) -> float:
        return over(
            2 * (self.descent - self.lam * self.drift),
            self.smoothness * (self.descent + self.steps * self.variance),
        )

    @property
    def lr_bound_printed(self) -> float:
        return over(2 * (self.descent - self.lam * self.drift), self.drift)

    @property
    def lam_bound(self) -> float:
        return over(self.first, self.drift)

    @property
    def as_data(self) -> dict[str, Any]:
        bounds = {name: getattr(self, name) for name in ("lr_bound", "lr_bound_printed", "lam_bound")}
        return {**self.__dict__, **bounds}


def over(one: float, other: float) -> float:
    """Their quotient; where nothing bounds, infinity."""
    return one / other if other else float("inf")


def bounds(place: Place, now: Round, executor: Executor | None = None, *, steps: int = 10) -> list[Bounds]:
    """Of each client that has data, after this round; of so many steps."""
    if not hasattr(place.method, "anchors"):
        raise MethodError(
            f"{type(place.method).__name__} pulls no features to prototypes; fedproto and pfedpm do"
        )
    number = (now.stage.round if now.stage else 0) + 1
    stage = Stage("bounds", number, number)
    probes = [
        Probe(k, place.method.message(now.server, k, stage), now.held.of(k).kept, stage, steps)
        for k, data in place.clients.items()
        if len(data.train)
    ]
    return sorted((executor or Serial()).run(place, probes), key=lambda found: found.client)


@dataclass(frozen=True)
class Probe:
    """Some steps of one client, watched."""

    client: str
    message: Tensors
    kept: Tensors
    stage: Stage
    steps: int

    def size_in(self, place: Place) -> int:
        return len(place.data_of(self.client).train)

    def done_in(self, place: Place) -> Bounds:
        method = cast("Pulls", place.method)
        client = place.seat(Turn(0, self.stage, self.client, self.message, 0, self.kept))
        known, params = method.anchors(client), client.parameters(*client.parts.path)
        client.parts.eval()
        x, y = client.data.x.to(client.device), client.data.y.to(client.device)

        def gradient(x: Tensor, y: Tensor) -> Tensor:
            loss = method.loss(client.parts, client.parts.features(x), y, known)
            return flat(torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True))

        whole, batch, weights, body, features = [], [], [], [], []
        before_head = client.parameters(*client.parts.path[:-1])
        for xs, ys in islice(client.batches(into=client.parts.path), self.steps):
            whole.append(gradient(x, y))
            batch.append(gradient(xs, ys))
            weights.append(flat(params))
            body.append(flat(before_head))
            with torch.no_grad():
                features.append(client.parts.features(x).flatten(1).double())
                for p, g in zip(params, torch.split(batch[-1], [p.numel() for p in params]), strict=True):
                    p.sub_(client.lr * g.view_as(p))
        return Bounds(
            client=self.client,
            steps=len(whole),
            descent=sum(float(g.square().sum()) for g in whole),
            first=float(whole[0].square().sum()) if whole else 0.0,
            smoothness=steepest([(a - b).norm() for a, b in pairwise(whole)], weights),
            embedding=steepest([(a - b).norm(dim=1).max() for a, b in pairwise(features)], body),
            gradient=max((float(g.norm()) for g in batch), default=0.0),
            variance=sum(float((g - w).square().sum()) for g, w in zip(batch, whole, strict=True))
            / max(len(whole), 1),
            lam=method.lam,
            lr=client.lr,
        )


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers in one row, in float64."""
    return torch.cat([t.detach().double().reshape(-1) for t in tensors])


def steepest(changes: Sequence[Tensor], places: Sequence[Tensor]) -> float:
    """The largest change over the way between two places; 0 where nothing moved."""
    ways = [(a - b).norm() for a, b in pairwise(places)]
    return max((float(c / way) for c, way in zip(changes, ways, strict=True) if way), default=0.0)
