"""What tests by hand share: a client in its place, a run in a method's world, the toy network written out."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.method import Upload
from pluribus.stage import Stage
from pluribus.state import Tensors
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import history

from . import GATE

EVERYBODY = Join()
FULL_BATCH = Training(lr=0.1, batch=1000)
ROUND = Stage("round", 1, 1)
NOTHING: Tensors = {}


def seated(
    at: Place,
    client: str = "c0",
    *,
    message: Tensors = NOTHING,
    kept: Tensors = NOTHING,
    stage: Stage = ROUND,
) -> Client:
    return at.seat(Turn(1, stage, client, message, 0, kept))


def run(name: str, **changes: Any) -> list[Round]:
    """The rounds of a gate method in its world, with these changes of method, place or conduct."""
    usual, world = GATE[name]
    method = changes.pop("method", None) or usual()
    at = {n: changes.pop(n) for n in ("model", "training", "clients") if n in changes}
    return history(world.place(method, **at), **changes)


def upload(tensors: Mapping[str, Any], examples: int = 1) -> Upload:
    return Upload({n: torch.as_tensor(t) for n, t in tensors.items()}, examples)


def loss_of(w: Tensors, x: Tensor, y: Tensor) -> Tensor:
    """The toy network's loss, written out."""
    z = torch.relu(x @ w["encoder.first.weight"].T + w["encoder.first.bias"])
    return F.cross_entropy(z @ w["head.weight"].T + w["head.bias"], y)


def near(a: Tensors, b: Tensors, atol: float = 1e-6) -> bool:
    """Whether all of b is in a, but for rounding."""
    return all(torch.allclose(a[n], t, atol=atol) for n, t in b.items())
