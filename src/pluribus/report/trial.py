"""One round of a method among two small clients: a card's parts and bytes are measured, not computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from ..engine import Conduct, Round, rounds
from ..examples import Examples
from ..method import Method, Network, Part
from ..readings.evaluate import why_no_generic
from ..seeds import generator
from ..stage import PERSONAL
from ..training import Training
from ..turn import Model, Place, Turn

EXAMPLES = 4  # of each client, two classes or more


@dataclass(frozen=True)
class Someone:
    """A client with a few examples of noise."""

    id: str
    train: Examples = field(repr=False)

    @property
    def key(self) -> str:
        return self.id

    @property
    def val(self) -> Examples:
        return self.train

    @property
    def test(self) -> Examples:
        return self.train


@dataclass(frozen=True)
class Trial:
    """What one round showed."""

    parts: Mapping[str, Part]
    traffic: tuple[tuple[str, int, int], ...]  # stage, bytes to a client, bytes from it
    predicts: tuple[str, ...]  # names of what a client predicts with; the first is P
    no_generic: str | None

    @property
    def owners(self) -> dict[str, str]:
        """Who owns each part, by its name."""
        return {name: part.owner for name, part in self.parts.items()}


def trial(method: Method, model: Model, shape: tuple[int, ...], classes: int) -> Trial:
    """One round of this method with this model on noise of this shape."""
    place = Place(
        method,
        {k: someone(k, shape, classes) for k in ("a", "b")},
        model,
        shape,
        classes,
        Training(lr=1e-3, batch=EXAMPLES),
        seed=0,
        model_seed=0,
    )
    done = list(rounds(place, Conduct(rounds=1)))
    return Trial(
        method.build(fresh(model, shape, classes)),
        tuple(map(traffic, done)),
        predicts(place, done[-1]),
        why_no_generic(place),
    )


def someone(name: str, shape: tuple[int, ...], classes: int) -> Someone:
    rng = generator("trial", name)
    inputs = torch.randint(0, 256, (EXAMPLES, *shape), generator=rng, dtype=torch.uint8)
    labels = torch.arange(EXAMPLES) % classes
    return Someone(name, Examples(inputs, labels, torch.arange(EXAMPLES), classes))


def fresh(model: Model, shape: tuple[int, ...], classes: int) -> Network:
    """A network without weights: only its form counts."""
    with torch.device("meta"):
        return model.build(shape, classes)


def traffic(now: Round) -> tuple[str, int, int]:
    """The stage, and the most that travelled to and from one client in it."""
    return (
        now.stage.name if now.stage else "",
        max(now.down.values(), default=0),
        max(now.up.values(), default=0),
    )


def predicts(place: Place, now: Round) -> tuple[str, ...]:
    first = next(iter(place.clients))
    message = place.method.message(now.server, first, PERSONAL)
    return tuple(
        place.method.personal(place.seat(Turn(0, PERSONAL, first, message, 0, now.held.of(first).kept)))
    )
