"""A federation small enough to think about: clients that disagree and differ in size, tiny networks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pluribus.cohort import Join
from pluribus.engine import Conduct, Round, rounds
from pluribus.examples import Examples
from pluribus.executors import Executor
from pluribus.method import Method
from pluribus.seeds import generator
from pluribus.state import digest
from pluribus.store import Store
from pluribus.training import Training
from pluribus.turn import Model, Place

CLASSES, INPUTS, FEATURES = 4, 6, 8
ROUNDS, COHORT = 6, 3


@dataclass(frozen=True)
class Net:
    """Six inputs, eight features, four classes; another layer or batch normalisation if asked."""

    width: int = 0
    norm: bool = False

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: list[tuple[str, nn.Module]] = [
            ("first", nn.Linear(shape[0], self.width or FEATURES)),
            ("relu", nn.ReLU()),
        ]
        layers += [("second", nn.Linear(self.width, FEATURES))] if self.width else []
        layers += [("norm", nn.BatchNorm1d(FEATURES))] if self.norm else []
        network = nn.Sequential(
            OrderedDict(encoder=nn.Sequential(OrderedDict(layers)), head=nn.Linear(FEATURES, classes))
        )
        network.features, network.classes, network.shape = FEATURES, classes, shape  # type: ignore[assignment]
        return network


@dataclass(frozen=True)
class Person:
    """A client's data; its key is its id unless a test renames it."""

    id: str
    key: str
    train: Examples
    val: Examples
    test: Examples


def person(
    client: str,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor] | None = None,
    key: str | None = None,
) -> Person:
    train_, test_ = examples(*train), examples(*(test or train))
    return Person(client, key or client, train_, test_.take(torch.arange(0)), test_)


def examples(x: Tensor, y: Tensor) -> Examples:
    return Examples(x, y, torch.arange(len(y)), CLASSES)


def people(clients: int = 6, n: int = 45) -> dict[str, Person]:
    """Two or three of four classes a client; c0 has n examples, each next one five fewer."""
    rng = generator("toy")
    centres = torch.randn(CLASSES, INPUTS, generator=rng)

    def draw(k: int, size: int) -> tuple[Tensor, Tensor]:
        y = (torch.randint(0, 2 + k % 2, (size,), generator=rng) + k) % CLASSES
        return centres[y] + 0.7 * torch.randn(size, INPUTS, generator=rng), y

    return {f"c{k}": person(f"c{k}", draw(k, n - 5 * k), draw(k, 30)) for k in range(clients)}


PEOPLE = people()


def place(
    method: Method,
    *,
    clients: Mapping[str, Person] = PEOPLE,
    model: Model | Callable[[str], Model] = Net(),
    training: Training = Training(lr=0.1, batch=8),
    seed: int = 0,
    **more: Any,
) -> Place:
    return Place(
        method, clients, model, (INPUTS,), CLASSES, training, seed, more.pop("model_seed", seed), **more
    )


def history(
    at: Place,
    *,
    executor: Executor | None = None,
    after: Round | None = None,
    store: Store | None = None,
    number: int = ROUNDS,
    join: Join = Join(number=COHORT),
    **conduct: Any,
) -> list[Round]:
    """All the rounds of a run."""
    held = Conduct(rounds=number, join=join, **conduct)
    return list(rounds(at, held, executor=executor, after=after, store=store))


def hashes(now: Round) -> tuple[Any, ...]:
    """Everything that must be equal when two runs are."""
    server = now.server
    return (
        digest(server.shared),
        digest(server.memory),
        {k: digest(t) for k, t in server.of.items()},
        {k: (digest(now.held[k].kept)) for k in sorted(now.held)},
    )
