"""LG-FedAvg, by hand. Letters as in its file."""

from typing import Any

import pytest
import torch

import one_weight
from contracts import HEAD, World
from one_weight import Two, values, weights
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.methods.lg_fedavg import LGFedAvg
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from toy import Net, history, place
from worlds import AllHead, Swapped, ThreeParts

WORLD = World(down=HEAD, up=HEAD)
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)


def test_a_both_move_at_once_from_the_own_body_and_the_received_head() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1; u = 2 its own, v = 3 received:  u: 2 - 0.1 · 3 = 1.7,  v: 3 - 0.1 · 2 = 2.8
    and once more, d = 1.7 · 2.8 - 5 = -0.24:  u: 1.7 + 0.0672 = 1.7672,  v: 2.8 + 0.0408 = 2.8408
    """
    outcome = one_weight.turn(LGFedAvg(epochs=2), Two(u=9.0, v=9.0), kept=weights(encoder=2.0), head=3.0)

    assert values(outcome.tensors) == pytest.approx({"head": 2.8408}, abs=1e-12)
    assert values(outcome.kept) == pytest.approx({"encoder": 1.7672}, abs=1e-12)


@pytest.mark.parametrize(("by", "expected"), [("examples", 5.0), ("uniform", 4.0)])
def test_b_heads_weigh_by_examples_or_alike(by: Any, expected: float) -> None:
    """(1 · 2 + 3 · 6) / 4 = 5, or (2 + 6) / 2 = 4."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = LGFedAvg(weights=by).aggregate(Server(weights(head=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": expected}


def test_c_a_client_predicts_with_its_own_body_and_the_received_head() -> None:
    """½ (2 · 4 - 5)² = 4.5."""
    at = one_weight.place(LGFedAvg(), Two(u=9.0, v=9.0), a=[5.0])
    message = LGFedAvg().message(Server(weights(head=4.0)), "a", PERSONAL)
    client = at.seat(Turn(0, PERSONAL, "a", message, 0, weights(encoder=2.0)))

    (predict,) = LGFedAvg().personal(client).values()

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(predict(x), one_weight.logits(torch.tensor([4.5], dtype=torch.float64)))
    assert LGFedAvg().generic(client) == {}


def test_d_a_newcomer_trains_a_body_before_the_received_head() -> None:
    """u: 2 - 0.1 · 3 (2 · 3 - 5) = 1.7; v stays 3; without epochs u stays as built."""
    client = one_weight.place(LGFedAvg(), Two(u=2.0, v=9.0), a=[5.0]).seat(
        Turn(0, WELCOME, "a", weights(head=3.0), 0, {})
    )

    for epochs, expected in ((0, {"encoder": 2.0, "head": 3.0}), (1, {"encoder": 1.7, "head": 3.0})):
        LGFedAvg().welcome(client, epochs)
        assert values(client.parts.state_dict()) == pytest.approx(expected, abs=1e-12)


def test_with_the_names_of_the_parts_exchanged_it_is_fedper() -> None:
    """C18-L1, to the bit."""

    def other(name: str) -> str:
        part, _, rest = name.partition(".")
        return {"encoder": "head", "head": "encoder"}[part] + "." + rest

    lg = history(place(LGFedAvg(), model=Swapped(), training=ROUGH))
    per = history(place(FedPer(), training=ROUGH))

    for one, two in zip(lg, per, strict=True):
        assert digest({other(n): t for n, t in one.server.shared.items()}) == digest(two.server.shared)
        for k, held in two.held.items():
            assert digest({other(n): t for n, t in one.held[k].kept.items()}) == digest(held.kept)


def test_with_everything_in_the_head_it_is_fedavg() -> None:
    """C18-L2, to the bit."""
    lg, plain = (history(place(m, model=AllHead(), training=ROUGH)) for m in (LGFedAvg(), FedAvg()))

    assert [digest(now.server.shared) for now in lg] == [digest(now.server.shared) for now in plain]


def test_the_head_travels_and_no_body_ever() -> None:
    """C18-L3 and C18-L4: 4 (8 · 4 + 4) = 144 bytes; all before the head stays, statistics too."""
    for model in (Net(norm=True), ThreeParts()):
        for now in history(place(LGFedAvg(), model=model), number=2, join=Join()):
            assert {n.partition(".")[0] for n in now.server.shared} == {"head"}
            assert set(now.up.values()) == set(now.down.values()) == {144}
            assert "head" not in {n.partition(".")[0] for n in now.held["c0"].kept}
