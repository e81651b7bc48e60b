"""FedBABU, by hand. Letters as in its file."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import one_weight
from contracts import ENCODER, World
from one_weight import Two, values, weights
from pluribus.client import Client, cross_entropy
from pluribus.executors.serial import Serial
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedbabu import FedBABU
from pluribus.methods.fedrep import FedRep
from pluribus.readings.evaluate import evaluate
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest, select
from pluribus.training import Training
from pluribus.turn import Turn
from toy import Net, hashes, history, place
from worlds import ThreeParts

WORLD = World(down=ENCODER, up=ENCODER)
QUICK = FedBABU(tune_epochs=1)  # the same lines, a fifth of the time
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
TUNED = {  # φ and h after one and after two epochs
    "full": [(2.0 - 0.1 * 3 * 1, 3.0 - 0.1 * 2 * 1), (1.7672, 2.8408)],
    "head": [(2.0, 2.8), (2.0, 2.68)],
    "body": [(1.7, 3.0), (1.67, 3.0)],
}


@dataclass(frozen=True, kw_only=True)
class HeadAtRateZero(FedAvg):
    """FedAvg, whose optimiser holds the head too, at a learning rate of 0."""

    def train(self, client: Client) -> Tensors:
        optimiser = client.optimiser("encoder")
        optimiser.add_param_group({"params": client.parameters("head"), "lr": 0.0})
        with client.learning():
            for x, y in client.batches(self.epochs, "encoder"):
                client.descend(optimiser, cross_entropy(client.parts, x, y), len(y))
        return client.tensors()


def test_a_the_body_learns_against_the_head_as_built_by_hand() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1; u = 2 received, v = 3 built.
    u: 2   - 0.1 · 3 (2   · 3 - 5) = 1.7
    u: 1.7 - 0.1 · 3 (1.7 · 3 - 5) = 1.67
    """
    outcome = one_weight.turn(FedBABU(epochs=2), Two(u=9.0, v=3.0), encoder=2.0)

    assert values(outcome.tensors) == pytest.approx({"encoder": 1.67}, abs=1e-12)
    assert outcome.kept == {}


def test_b_bodies_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}

    server = FedBABU().aggregate(Server(weights(encoder=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"encoder": 5.0}


def seated(method: FedBABU, stage: Stage) -> Client:
    """φ = 2 received, h = 3 built, target 5."""
    return one_weight.place(method, Two(u=9.0, v=3.0), a=[5.0]).seat(
        Turn(0, stage, "a", weights(encoder=2.0), 0, {})
    )


def test_c_generic_is_the_received_body_with_the_head_as_built() -> None:
    """½ (2 · 3 - 5)² = ½."""
    predictors = FedBABU().generic(seated(FedBABU(), GENERIC))

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(predictors["network"](x), one_weight.logits(torch.tensor([0.5]).double()))


@pytest.mark.parametrize("tune", TUNED)
@pytest.mark.parametrize("epochs", [1, 2])
def test_d_personal_is_a_copy_tuned_by_hand(tune: Any, epochs: int) -> None:
    """
    L = ½ (u·v - 5)², η = 0.1, from u = 2, v = 3; d = u·v - 5 = 1.
    full   u: 2 - 0.1 · 3 = 1.7, v: 3 - 0.1 · 2 = 2.8, d = -0.24; u: 1.7 + 0.0672, v: 2.8 + 0.0408
    head   v: 2.8;  2.8 - 0.1 · 2 · 0.6 = 2.68
    body   u: 1.7;  1.7 - 0.1 · 3 · 0.1 = 1.67
    """
    method = FedBABU(tune=tune, tune_epochs=epochs)
    client = seated(method, PERSONAL)

    predictors = method.personal(client)

    u, v = TUNED[tune][epochs - 1]
    assert values(client.parts.state_dict()) == pytest.approx({"encoder": u, "head": v}, abs=1e-12)
    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(
        predictors["fine-tuned"](x), one_weight.logits(torch.tensor([(u * v - 5) ** 2 / 2]).double())
    )


@pytest.mark.parametrize(("epochs", "u", "v"), [(0, 2.0, 3.0), (1, 1.7, 2.8)])
def test_d_a_newcomer_does_the_same_for_its_epochs(epochs: int, u: float, v: float) -> None:
    client = seated(FedBABU(), WELCOME)

    FedBABU().welcome(client, epochs)

    assert values(client.parts.state_dict()) == pytest.approx({"encoder": u, "head": v}, abs=1e-12)


def test_d_fine_tuning_has_an_optimiser_of_its_own_where_moments_are_kept() -> None:
    """Momentum of the body's training does not reach the copy."""
    method = FedBABU(tune="body", tune_epochs=1)
    training = Training(lr=0.1, momentum=0.9, batch=1000, keep_moments=True)
    at = one_weight.place(method, Two(u=9.0, v=3.0), training=training, a=[5.0])
    kept = at.take(Turn(1, ROUND, "a", weights(encoder=4.0), 0, {})).kept
    client = at.seat(Turn(0, PERSONAL, "a", weights(encoder=2.0), 0, kept))

    method.personal(client)

    assert any("moments" in name for name in kept)
    assert values(client.parts.state_dict())["encoder"] == pytest.approx(1.7, abs=1e-12)


def test_the_head_is_the_same_everywhere_and_for_ever() -> None:
    """C13-L1, to the bit, with momentum and weight decay; and after P was read (C13-L5)."""
    at = place(FedBABU(tune_epochs=1), training=ROUGH)
    rounds = history(at, watch=1, keep_trained=True)
    evaluate(at, rounds[-1], Serial())

    initial = digest(select(at.built("c0").initial, "head"))
    client = at.seat(Turn(0, GENERIC, "c1", rounds[-1].server.shared, 0, {}))
    trained = [t for now in rounds for t in now.trained.values()]
    assert trained
    assert {digest(select(t, "head")) for t in trained} == {initial}
    assert digest(select(client.parts.state_dict(), "head")) == initial


def test_it_is_fedrep_without_head_epochs() -> None:
    """C13-L2, to the bit."""
    babu = history(place(FedBABU(epochs=2), training=ROUGH))
    rep = history(place(FedRep(head_epochs=0, body_epochs=2), training=ROUGH))

    assert [digest(n.server.shared) for n in babu] == [digest(n.server.shared) for n in rep]


def test_it_is_fedavg_whose_head_learns_at_rate_zero() -> None:
    """C13-L3, to the bit."""
    babu = history(place(FedBABU(epochs=2), training=ROUGH))
    plain = history(place(HeadAtRateZero(epochs=2), training=ROUGH))

    for one, two in zip(babu, plain, strict=True):
        assert digest(one.server.shared) == digest(select(two.server.shared, "encoder"))


def test_without_tuning_personal_is_generic() -> None:
    """C13-L4, to the bit; and a warning says so."""
    method = FedBABU(tune_epochs=0)
    at = place(method)
    now = history(at, number=2)[-1]
    x = at.data_of("c1").test.x

    tuned, plain = (
        next(iter(answer(at.seat(Turn(0, PERSONAL, "c1", now.server.shared, 0, {}))).values()))(x).detach()
        for answer in (method.personal, method.generic)
    )

    assert torch.equal(tuned, plain)
    assert method.dull() == ["tune_epochs = 0: P is G"]


def test_reading_the_personal_models_changes_no_round() -> None:
    """C13-L5: though each of them is trained."""
    at = place(FedBABU(tune_epochs=2))
    now = history(at, number=2)[-1]
    before = hashes(now)

    readings = evaluate(at, now, Serial())

    assert hashes(now) == before
    assert readings.accuracy("personal") != readings.accuracy("generic")
    assert hashes(history(at, number=2)[-1]) == before


def test_the_body_travels_and_nothing_else() -> None:
    """C13-L6: 4 (6 · 8 + 8) = 224 bytes."""
    for now in history(place(FedBABU()), number=2):
        assert set(now.up.values()) == set(now.down.values()) == {224}


def test_the_body_is_all_before_the_head() -> None:
    at = place(FedBABU(), model=ThreeParts())

    shared = history(at, number=1)[-1].server.shared

    assert {n.partition(".")[0] for n in shared} == {"encoder", "projector"}
    assert all(not torch.equal(t, at.built("c0").initial[n]) for n, t in shared.items())


def test_running_statistics_of_the_body_are_averaged() -> None:
    at = place(FedBABU(), model=Net(norm=True), training=replace(ROUGH, lr=0.0))

    shared = history(at, number=1)[-1].server.shared

    moved = {n for n, t in shared.items() if not torch.equal(t, at.built("c0").initial[n])}
    assert moved == {"encoder.norm.running_mean", "encoder.norm.running_var"}


def test_d_features_are_computed_once_where_only_the_head_is_tuned() -> None:
    """Two epochs of six batches are twelve passes; or one of all, after two to see whether one will do."""
    method = FedBABU(tune="head", tune_epochs=2)
    passes, tuned = [], []
    for reuse in (True, False):
        at = place(method, training=Training(lr=0.1, batch=8, reuse=reuse))
        client = at.seat(Turn(0, PERSONAL, "c0", {}, 0, {}))
        seen: list[int] = []
        client.parts.encoder.register_forward_hook(lambda *_, seen=seen: seen.append(1))
        method.personal(client)
        passes.append(len(seen))
        tuned.append(client.parts.head.weight.detach().clone())

    assert passes == [3, 12]
    assert torch.allclose(*tuned, atol=1e-6)
    assert not torch.equal(tuned[0], place(method).built("c0").initial["head.weight"])
