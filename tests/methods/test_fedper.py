"""FedPer, by hand. Letters as in its file."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch

import one_weight
from contracts import ENCODER, World
from one_weight import Two, values, weights
from pluribus.cohort import Join
from pluribus.errors import ModelError
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from pluribus.usual import all_shared_but
from toy import PEOPLE, history, place
from worlds import NoHead, Swapped, ThreeParts

WORLD = World(down=ENCODER, up=ENCODER)
ROUND = Stage("round", 1, 1)


@dataclass(frozen=True, kw_only=True)
class BodyOfOnesOwn(FedPer):
    """LG-FedAvg in small: the other half stays."""

    build = all_shared_but("encoder")


def test_a_both_move_at_once_from_the_received_body_and_the_own_head() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1; u = 2 received, v = 3 its own; d = u·v - 5 = 1.
    u: 2 - 0.1 · 3 · 1 = 1.7,    v: 3 - 0.1 · 2 · 1 = 2.8
    and once more, d = 1.7 · 2.8 - 5 = -0.24:
    u: 1.7 + 0.1 · 2.8 · 0.24 = 1.7672,    v: 2.8 + 0.1 · 1.7 · 0.24 = 2.8408
    """
    once, twice = (
        one_weight.turn(FedPer(epochs=e), Two(u=9.0, v=9.0), kept=weights(head=3.0), encoder=2.0)
        for e in (1, 2)
    )

    assert values(once.tensors) == pytest.approx({"encoder": 1.7}, abs=1e-12)
    assert values(once.kept) == pytest.approx({"head": 2.8}, abs=1e-12)
    assert values(twice.tensors) == pytest.approx({"encoder": 1.7672}, abs=1e-12)
    assert values(twice.kept) == pytest.approx({"head": 2.8408}, abs=1e-12)


def test_b_bodies_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}

    server = FedPer().aggregate(Server(weights(encoder=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"encoder": 5.0}


def test_c_a_client_predicts_with_the_received_body_and_its_own_head() -> None:
    """½ (2 · 4 - 5)² = 4.5."""
    at = one_weight.place(FedPer(), Two(u=9.0, v=9.0), a=[5.0])
    message = FedPer().message(Server(weights(encoder=2.0)), "a", PERSONAL)
    client = at.seat(Turn(0, PERSONAL, "a", message, 0, weights(head=4.0)))

    predictors = FedPer().personal(client)

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([4.5], dtype=torch.float64))
    )
    assert FedPer().generic(client) == {}


def test_a_network_without_a_head_says_how_to_name_one() -> None:
    with pytest.raises(ModelError, match=r"FedPer needs the part \['head'\]; this network has \['0', '1'\]"):
        FedPer().build(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)))


def test_with_an_empty_head_it_is_fedavg() -> None:
    """C10-L1, to the bit, also with momentum."""
    training = Training(lr=0.1, batch=8, momentum=0.9)

    personal, plain = (history(place(m, model=NoHead(), training=training)) for m in (FedPer(), FedAvg()))

    assert [digest(now.server.shared) for now in personal] == [digest(now.server.shared) for now in plain]


def test_with_the_names_of_the_parts_exchanged_the_other_half_stays() -> None:
    """C10-L3, to the bit: a personal body is a personal head in a network named the other way round."""

    def other(name: str) -> str:
        part, _, rest = name.partition(".")
        return {"encoder": "head", "head": "encoder"}[part] + "." + rest

    swapped = history(place(FedPer(), model=Swapped()))
    plain = history(place(BodyOfOnesOwn()))

    for one, two in zip(swapped, plain, strict=True):
        assert digest({other(n): t for n, t in one.server.shared.items()}) == digest(two.server.shared)
        for k, held in two.held.items():
            assert digest({other(n): t for n, t in one.held[k].kept.items()}) == digest(held.kept)


def test_heads_of_clients_that_were_not_asked_do_not_move() -> None:
    """C10-L4."""
    for before, now in pairwise(history(place(FedPer()))):
        for client in PEOPLE.keys() - set(now.cohort):
            assert now.held.of(client) is before.held.of(client)


def test_the_body_travels_and_nothing_else() -> None:
    """C10-L5: 4 (6 · 8 + 8) = 224 bytes."""
    for now in history(place(FedPer()), number=2):
        assert set(now.up.values()) == set(now.down.values()) == {224}


def test_all_before_the_head_is_shared() -> None:
    now = history(place(FedPer(), model=ThreeParts()), number=1, join=Join())[-1]

    assert {n.partition(".")[0] for n in now.server.shared} == {"encoder", "projector"}
    assert {n.partition(".")[0] for held in now.held.values() for n in held.kept} == {"head"}


def test_a_newcomer_tunes_the_head_on_the_received_body() -> None:
    """v: 9 - 0.1 · 2 (2 · 9 - 5) = 6.4; u stays 2."""
    client = one_weight.place(FedPer(), Two(u=9.0, v=9.0), a=[5.0]).seat(
        Turn(0, PERSONAL, "a", weights(encoder=2.0), 0, {})
    )

    FedPer().welcome(client, 1)

    assert values(client.parts.state_dict()) == pytest.approx({"encoder": 2.0, "head": 6.4}, abs=1e-12)
