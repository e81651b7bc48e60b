"""Methods that strain the protocol, on images: convolutions, batch normalisation and dropout."""

from dataclasses import replace

import pytest
import torch

from gate import GATE, QUICK
from pluribus.cohort import Join
from pluribus.examples import Examples
from pluribus.executors.scripted import Scripted
from pluribus.executors.serial import Serial
from pluribus.method import Method
from pluribus.methods import METHODS
from pluribus.methods.fedala import FedALA
from pluribus.methods.fedetf import FedETF
from pluribus.models import FedRIRCNN, PFedPMCNN
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.seeds import generator
from pluribus.training import Training
from pluribus.turn import Place
from toy import Person, hashes, history

CLASSES, CLIENTS, N = 10, 3, 21  # a last batch of one


def images(client: int) -> Examples:
    """Grey images of 28 x 28 as bytes; all clients' lie in the same arrays."""
    index = torch.arange(client * N, (client + 1) * N)
    return Examples(INPUTS, LABELS, index, CLASSES)


INPUTS = torch.randint(
    0, 256, ((CLIENTS + 1) * N, 1, 28, 28), generator=generator("images"), dtype=torch.uint8
)
LABELS = torch.randint(0, CLASSES, ((CLIENTS + 1) * N,), generator=generator("labels"))
PEOPLE = {
    name: Person(name, name, data, data.take(torch.arange(0)), data)
    for name, data in ((f"c{k}", images(k)) for k in range(CLIENTS))
}
NEWCOMER = {"n0": replace(PEOPLE["c0"], id="n0", key="n0", train=images(CLIENTS), test=images(CLIENTS))}


TRIED: dict[str, Method] = {
    **{name: METHODS[name]() for name in ("fedkd", "spherefed", "fesem", "l2gd")},
    "fedala": FedALA(settled=10.0),
    "fedetf": FedETF(cycles=1),
    **{name: QUICK.get(name) or kind() for name, (kind, _) in GATE.items()},
}


def two_cnns(client: str) -> PFedPMCNN:
    return PFedPMCNN(channels=18 if client == "c0" else 20)


def scene(method: Method, model) -> Place:
    return Place(
        method,
        PEOPLE,
        model,
        (1, 28, 28),
        CLASSES,
        Training(lr=0.01, batch=10, momentum=0.5),
        0,
        0,
        newcomers=NEWCOMER,
    )


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("model", [FedRIRCNN(), PFedPMCNN()], ids=["batch norm", "dropout"])
def test_two_rounds_are_finite_repeatable_and_read(name, model):
    method = TRIED[name]
    model = two_cnns if name == "pfedpm" and isinstance(model, PFedPMCNN) else model
    at = scene(method, model)

    rounds = history(at, number=2, join=Join(number=2))
    again = history(scene(method, model), number=2, join=Join(number=2), executor=Scripted(seed=3))

    assert [hashes(now) for now in rounds] == [hashes(now) for now in again]
    assert not any(now.refused for now in rounds)
    now = rounds[-1]
    for tensors in (now.server.shared, now.server.memory, *(held.kept for held in now.held.values())):
        assert all(bool(torch.isfinite(t).all()) for t in tensors.values())
    readings = evaluate(at, now, Serial()) | welcome(at, now, Serial(), epochs=1)
    assert readings == evaluate(at, now, Serial()) | welcome(at, now, Serial(), epochs=1)
    assert set(readings.scores[readings.named("personal")]) == set(PEOPLE)
