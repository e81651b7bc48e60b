"""FedAvg, by hand. Letters as in its file."""

from dataclasses import replace

import pytest
import torch

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import One, values, weights
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, history, place
from worlds import Double

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD)
ROUND = Stage("round", 1, 1)


def test_a_two_epochs_from_what_was_received_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², η = 0.1; w = 3 was received, w = 2 was built.
    3 - 0.1 (3 - 5) = 3.2,    3.2 - 0.1 (3.2 - 5) = 3.38
    """
    outcome = one_weight.turn(FedAvg(epochs=2), One(w=2.0), target=5.0, head=3.0)

    assert values(outcome.tensors) == pytest.approx({"head": 3.38}, abs=1e-12)
    assert outcome.kept == {}


def test_a_the_loss_is_the_mean_over_the_batch() -> None:
    """Targets 5 and 9: the slope at 3 is ((3 - 5) + (3 - 9)) / 2 = -4, and 3 + 0.4 = 3.4."""
    at = one_weight.place(FedAvg(), One(), a=[5.0, 9.0])

    outcome = at.take(Turn(1, ROUND, "a", weights(head=3.0), 0, {}))

    assert values(outcome.tensors) == pytest.approx({"head": 3.4}, abs=1e-12)


def test_b_clients_weigh_by_their_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5, whatever was shared before."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = FedAvg().aggregate(Server(weights(head=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 5.0}


def test_b_weights_are_those_of_the_cohort_and_not_of_everybody() -> None:
    """With one client a round, what it sends is what is shared next."""
    rounds = history(place(FedAvg()), number=2, join=Join(number=1))

    again = place(FedAvg()).take(
        Turn(2, replace(ROUND, round=2, rounds=2), rounds[1].cohort[0], rounds[0].server.shared, 0, {})
    )
    assert digest(rounds[1].server.shared) == digest(again.tensors or {})


@pytest.mark.parametrize(("question", "stage"), [("personal", PERSONAL), ("generic", GENERIC)])
def test_c_everybody_predicts_with_what_was_received(question: str, stage: Stage) -> None:
    at = one_weight.place(FedAvg(), One(w=2.0), a=[5.0])
    message = FedAvg().message(Server(weights(head=4.0)), "a", stage)
    client = at.seat(Turn(0, stage, "a", message, 0, {}))

    predictors = getattr(FedAvg(), question)(client)

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert list(predictors) == ["network"]
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([0.5], dtype=torch.float64))
    )


def test_one_full_batch_step_of_all_is_one_step_on_the_pooled_data() -> None:
    """C2-L1, to 1e-10 in float64."""
    clients = {
        k: replace(p, train=replace(p.train, inputs=p.train.inputs.double())) for k, p in PEOPLE.items()
    }
    at = place(FedAvg(), clients=clients, model=Double(), training=Training(lr=0.1, batch=1000))

    now = history(at, number=1, join=Join())[-1]

    network = at.build(Double()).parts
    x, y = (torch.cat([getattr(p.train, name) for p in clients.values()]) for name in ("x", "y"))
    torch.autograd.backward(torch.nn.functional.cross_entropy(network(x), y))
    for name, p in network.named_parameters():
        assert p.grad is not None
        assert torch.allclose(now.server.shared[name], p.detach() - 0.1 * p.grad, rtol=0, atol=1e-10)


def test_one_client_alone_is_local() -> None:
    """C2-L2 and U9, to the bit."""
    alone = {"c0": PEOPLE["c0"]}

    together, local = history(place(FedAvg(), clients=alone)), history(place(Local(), clients=alone))

    assert [digest(now.server.shared) for now in together] == [digest(now.held["c0"].kept) for now in local]


def test_equal_clients_are_one_client() -> None:
    """C2-L3: equal data, equal random keys."""
    equal = {f"c{k}": replace(PEOPLE["c0"], id=f"c{k}") for k in range(3)}

    three = history(place(FedAvg(), clients=equal), join=Join())[-1].server.shared
    one = history(place(FedAvg(), clients={"c0": PEOPLE["c0"]}))[-1].server.shared

    assert all(torch.allclose(three[n], one[n], rtol=1e-6, atol=1e-7) for n in one)


def test_no_epochs_leave_everything_unchanged() -> None:
    """C2-L4: the mean of equal tensors is that tensor."""
    at = place(FedAvg(epochs=0))

    assert {digest(now.server.shared) for now in history(at)} == {digest(at.built("c0").initial)}


def test_a_newcomer_tunes_everything() -> None:
    """4 - 0.1 (4 - 5) = 4.1 after an epoch, 4 after none."""
    client = one_weight.place(FedAvg(), One(), a=[5.0]).seat(Turn(0, PERSONAL, "a", weights(head=4.0), 0, {}))
    FedAvg().welcome(client, 0)
    before = values(client.parts.state_dict())

    FedAvg().welcome(client, 1)

    assert before == {"head": 4.0}
    assert values(client.parts.state_dict()) == pytest.approx({"head": 4.1}, abs=1e-12)
