"""FedRep, by hand. Letters as in its file."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import one_weight
from contracts import ENCODER, World
from one_weight import Two, values, weights
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.method import Part, Server, Upload, children, fixed_part, shared_part
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedrep import FedRep
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, Stage
from pluribus.state import Tensors, digest, select
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, Net, history, place
from worlds import ThreeParts

WORLD = World(down=ENCODER, up=ENCODER)
QUICK = FedRep(head_epochs=2)  # the same lines, a fifth of the time
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)


@dataclass(frozen=True, kw_only=True)
class HeadStaysAsBuilt(FedAvg):
    """FedBABU's federated phase in small."""

    def build(self, network: nn.Module) -> Mapping[str, Part]:
        return {n: fixed_part(m) if n == "head" else shared_part(m) for n, m in children(network).items()}

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs, train=["encoder"])
        return client.tensors()


def test_a_then_b_the_head_first_and_then_the_body_by_hand() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1; u = 2 received, v = 3 its own.
    (a)  v: 3   - 0.1 · 2 (2 · 3   - 5) = 2.8
         v: 2.8 - 0.1 · 2 (2 · 2.8 - 5) = 2.68
    (b)  u: 2   - 0.1 · 2.68 (2 · 2.68 - 5) = 2 - 0.268 · 0.36 = 1.90352
    """
    outcome = one_weight.turn(
        FedRep(head_epochs=2, body_epochs=1), Two(u=9.0, v=9.0), kept=weights(head=3.0), encoder=2.0
    )

    assert values(outcome.kept) == pytest.approx({"head": 2.68}, abs=1e-12)
    assert values(outcome.tensors) == pytest.approx({"encoder": 1.90352}, abs=1e-12)


def test_c_bodies_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}

    server = FedRep().aggregate(Server(weights(encoder=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"encoder": 5.0}


def test_d_a_client_predicts_with_the_received_body_and_its_own_head() -> None:
    """½ (2 · 4 - 5)² = 4.5."""
    at = one_weight.place(FedRep(), Two(u=9.0, v=9.0), a=[5.0])
    message = FedRep().message(Server(weights(encoder=2.0)), "a", PERSONAL)
    client = at.seat(Turn(0, PERSONAL, "a", message, 0, weights(head=4.0)))

    predictors = FedRep().personal(client)

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([4.5], dtype=torch.float64))
    )
    assert FedRep().generic(client) == {}


def test_the_head_phase_leaves_the_body_alone_to_the_bit() -> None:
    """C11-L1, with momentum and weight decay."""
    at = place(FedRep(head_epochs=2, body_epochs=0), training=ROUGH)

    now = history(at, number=2)[-1]

    assert digest(now.server.shared) == digest(select(at.built("c0").initial, "encoder"))
    assert all(digest(h.kept) != digest(select(at.built("c0").initial, "head")) for h in now.held.values())


def test_the_body_phase_leaves_the_head_alone_to_the_bit() -> None:
    """C11-L1, with momentum and weight decay."""
    at = place(FedRep(head_epochs=0, body_epochs=2), training=ROUGH)

    now = history(at, number=2)[-1]

    assert {digest(h.kept) for h in now.held.values()} == {digest(select(at.built("c0").initial, "head"))}
    assert digest(now.server.shared) != digest(select(at.built("c0").initial, "encoder"))


def test_without_head_epochs_it_is_fedbabus_federated_phase() -> None:
    """C11-L2, to the bit: the head stays as built."""
    rep = history(place(FedRep(head_epochs=0), training=ROUGH))
    babu = history(place(HeadStaysAsBuilt(), training=ROUGH))

    for one, two in zip(rep, babu, strict=True):
        assert digest(one.server.shared) == digest(select(two.server.shared, "encoder"))


def test_without_body_epochs_each_head_is_a_linear_probe() -> None:
    """C11-L3, to the bit: steps on the head over features computed once."""
    at = place(FedRep(head_epochs=2, body_epochs=0))
    rounds = history(at, number=2, join=Join())
    initial = at.built("c0").initial

    network, data = at.build(Net()).parts, PEOPLE["c3"].train
    features = network.features(data.x).detach()
    for t in (1, 2):
        rng = generator(0, "round", t, "c3", "head")
        for _ in range(2):
            for positions in torch.split(torch.randperm(len(data), generator=rng), 8):
                loss = nn.functional.cross_entropy(network.head(features[positions]), data.y[positions])
                gradients = torch.autograd.grad(loss, list(network.head.parameters()))
                with torch.no_grad():
                    for p, g in zip(network.head.parameters(), gradients, strict=True):
                        p.add_(g, alpha=-0.1)

    assert {digest(now.server.shared) for now in rounds} == {digest(select(initial, "encoder"))}
    assert digest(rounds[-1].held["c3"].kept) == digest(select(network.state_dict(), "head"))


def test_the_body_travels_and_nothing_else() -> None:
    """C11-L4: 4 (6 · 8 + 8) = 224 bytes."""
    for now in history(place(FedRep(head_epochs=1)), number=2):
        assert set(now.up.values()) == set(now.down.values()) == {224}


def test_the_body_is_all_before_the_head() -> None:
    at = place(FedRep(head_epochs=1), model=ThreeParts())

    now = history(at, number=1, join=Join())[-1]

    initial = at.built("c0").initial
    assert {n.partition(".")[0] for n in now.server.shared} == {"encoder", "projector"}
    assert all(not torch.equal(t, initial[n]) for n, t in now.server.shared.items())


def test_running_statistics_of_the_body_move_while_the_head_learns() -> None:
    """The card's third deviation: training mode in (a), as in the authors' code."""
    at = place(FedRep(head_epochs=1, body_epochs=0), model=Net(norm=True))
    initial = at.built("c0").initial

    shared = history(at, number=1)[-1].server.shared

    moved = {n for n, t in shared.items() if not torch.equal(t, initial[n])}
    assert moved == {"encoder.norm.running_mean", "encoder.norm.running_var"}


def test_a_newcomer_tunes_the_head_on_the_received_body() -> None:
    """v: 9 - 0.1 · 2 (2 · 9 - 5) = 6.4; u stays 2."""
    client = one_weight.place(FedRep(), Two(u=9.0, v=9.0), a=[5.0]).seat(
        Turn(0, PERSONAL, "a", weights(encoder=2.0), 0, {})
    )

    FedRep().welcome(client, 1)

    assert values(client.parts.state_dict()) == pytest.approx({"encoder": 2.0, "head": 6.4}, abs=1e-12)


def test_a_body_that_never_moves_is_said() -> None:
    assert FedRep(body_epochs=0).dull() == ["body_epochs = 0: the body never moves"]
