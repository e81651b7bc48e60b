"""FedBN, by hand. Letters as in its file."""

from typing import Any

import pytest
import torch
from torch import nn

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import Two, values, weights
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedbn import FedBN, of_batch_norm
from pluribus.models import model
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, Net, history, place

NORM = {f"encoder.norm.{n}" for n in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}
WORLD = World(
    model=Net(norm=True),
    down=ENCODER + HEAD,
    up=ENCODER + HEAD,
    moves=frozenset(NORM - {"encoder.norm.weight", "encoder.norm.bias"}),
)
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)


def test_a_everything_moves_at_once_by_hand() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1, u = 2, v = 3:  u: 2 - 0.3 = 1.7,  v: 3 - 0.2 = 2.8;  d = -0.24:
    u: 1.7 + 0.1 · 2.8 · 0.24 = 1.7672,  v: 2.8 + 0.1 · 1.7 · 0.24 = 2.8408
    """
    outcome = one_weight.turn(FedBN(epochs=2), Two(u=9.0, v=9.0), encoder=2.0, head=3.0)

    assert values(outcome.tensors) == pytest.approx({"encoder": 1.7672, "head": 2.8408}, abs=1e-12)


def test_a_batch_normalisation_learns_and_stays() -> None:
    at = place(FedBN(), model=Net(norm=True))
    initial = at.built("c0").initial

    outcome = at.take(Turn(1, ROUND, "c0", {}, 0, {}))

    assert outcome.kept.keys() == NORM
    assert outcome.tensors is not None
    assert outcome.tensors.keys() == initial.keys() - NORM
    for name, tensor in {**outcome.kept, **outcome.tensors}.items():
        assert not torch.equal(tensor, initial[name]), name


@pytest.mark.parametrize(("by", "expected"), [("examples", 5.0), ("uniform", 4.0)])
def test_b_clients_weigh_by_examples_or_alike(by: Any, expected: float) -> None:
    """(1 · 2 + 3 · 6) / 4 = 5, or (2 + 6) / 2 = 4."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = FedBN(weights=by).aggregate(Server(weights(head=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": expected}


def test_c_a_client_predicts_with_what_is_shared_and_its_own_normalisation() -> None:
    """C19-L2: after the download its normalisation is what it was, to the bit."""
    at = place(FedBN(), model=Net(norm=True))
    now = history(at, number=3, join=Join())[-1]
    kept, message = now.held["c0"].kept, FedBN().message(now.server, "c0", PERSONAL)

    client = at.seat(Turn(0, PERSONAL, "c0", message, 0, kept))

    for name, tensor in client.parts.state_dict().items():
        assert torch.equal(tensor, kept[name] if name in NORM else message[name]), name
    (predict,) = FedBN().personal(client).values()
    assert predict is client.parts
    assert FedBN().generic(client) == {}


def test_d_a_newcomer_measures_its_statistics_and_then_trains_everything() -> None:
    at = place(FedBN(), model=Net(norm=True))
    shared = history(at, number=1)[-1].server.shared
    client = at.seat(Turn(0, WELCOME, "c0", shared, 0, {}))
    with torch.no_grad():
        inner = nn.Sequential(client.parts.encoder.first, client.parts.encoder.relu)(client.data.x)

    FedBN().welcome(client, 0)
    measured = {n: t.clone() for n, t in client.parts.state_dict().items()}
    FedBN().welcome(client, 1)

    assert torch.allclose(measured["encoder.norm.running_mean"], inner.mean(0), atol=1e-6)
    assert torch.allclose(measured["encoder.norm.running_var"], inner.var(0), atol=1e-6)
    assert all(torch.equal(t, measured[n]) for n, t in shared.items())
    for name, parameter in client.parts.named_parameters():
        assert not torch.equal(parameter, measured[name]), name


def test_without_batch_normalisation_it_is_fedavg() -> None:
    """C19-L1, to the bit; and it is said."""
    bn, plain = (history(place(m, training=ROUGH)) for m in (FedBN(epochs=2), FedAvg(epochs=2)))

    assert [digest(now.server.shared) for now in bn] == [digest(now.server.shared) for now in plain]
    assert all(held.kept == {} for held in bn[-1].held.values())
    says = [FedBN().lacking(place(FedBN(), model=Net(norm=n)).built("c0").parts) for n in (False, True)]
    assert says == [["no batch normalisation, so that this is FedAvg"], []]


def test_normalisation_never_travels() -> None:
    """C19-L3: 4 (P - P_bn) bytes: 224 + 144, without the 64 of scale and shift."""
    for now in history(place(FedBN(), model=Net(norm=True)), number=2):
        assert set(now.up.values()) == set(now.down.values()) == {224 + 144}


def test_statistics_differ_where_data_do_and_all_receive_the_same() -> None:
    """C19-L4."""
    now = history(place(FedBN(), model=Net(norm=True)), number=1, join=Join())[-1]

    means = [held.kept["encoder.norm.running_mean"] for held in now.held.values()]
    assert all(not torch.equal(means[0], other) for other in means[1:])
    assert {digest(FedBN().message(now.server, k, ROUND)) for k in PEOPLE} == {digest(now.server.shared)}


def test_it_is_known_by_type_wherever_it_stands() -> None:
    """The twenty of ResNet-18, those on the way around a block too; groups and layers are shared."""
    with torch.device("meta"):
        network = model("resnet18:projector=256").build((3, 64, 64), 7)

    own = of_batch_norm(network)

    assert len(own) == 22 * 5
    assert sum(p.numel() for n, p in network.named_parameters() if n in own) == 11_136
    assert "encoder.layer2.0.downsample.1.weight" in own
    assert of_batch_norm(nn.Sequential(nn.GroupNorm(1, 2), nn.LayerNorm(2), nn.Linear(2, 2))) == {}
    assert set(of_batch_norm(nn.BatchNorm1d(2, track_running_stats=False))) == {"weight", "bias"}
