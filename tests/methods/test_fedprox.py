"""FedProx, by hand. Letters as in its file."""

from dataclasses import replace

import pytest
import torch

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import One, values, weights
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedprox import FedProx
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, hashes, history, place
from worlds import Double

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD)
ROUND = Stage("round", 1, 1)


def test_a_the_pull_passes_through_momentum_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², μ = 0.5, η = 0.1, momentum 0.5; w = 2 was received, w = 7 was built.
    slope -3 + 0.5 · 0      = -3        velocity -3                       w = 2.3
    slope -2.7 + 0.5 · 0.3  = -2.55     velocity 0.5 (-3) - 2.55 = -4.05  w = 2.705
    slope -2.295 + 0.3525   = -1.9425   velocity -2.025 - 1.9425          w = 2.705 + 0.39675 = 3.10175
    """
    training = Training(lr=0.1, momentum=0.5, batch=1000)
    after = [
        one_weight.turn(FedProx(epochs=e, mu=0.5), One(w=7.0), training=training, head=2.0) for e in (1, 2, 3)
    ]

    assert [values(o.tensors)["head"] for o in after] == pytest.approx([2.3, 2.705, 3.10175], abs=1e-12)


def test_a_plain_steps_follow_the_closed_form() -> None:
    """C3-L3: w_k - w* = (1 - η (c + μ))^k (w_0 - w*) with w* = (c a + μ w_0) / (c + μ), to 1e-10."""
    curvature, mu, lr, target, start = 3.0, 0.7, 0.05, 5.0, 2.0
    best = (curvature * target + mu * start) / (curvature + mu)
    for k in (1, 2, 5, 20):
        outcome = one_weight.turn(
            FedProx(epochs=k, mu=mu),
            One(curvature=curvature),
            target=target,
            training=Training(lr=lr, batch=1),
            head=start,
        )

        expected = best + (1 - lr * (curvature + mu)) ** k * (start - best)
        assert values(outcome.tensors)["head"] == pytest.approx(expected, abs=1e-10)


def test_a_the_pull_takes_in_every_parameter() -> None:
    """u = 2 and v = 3 received, a = 5, μ = 0.5, η = 0.1; the second step, from u = 1.7, v = 2.8, d = -0.24:
    u: 1.7 - 0.1 (2.8 · -0.24 + 0.5 · -0.3) = 1.7822,    v: 2.8 - 0.1 (1.7 · -0.24 + 0.5 · -0.2) = 2.8508
    """
    outcome = one_weight.turn(FedProx(epochs=2, mu=0.5), one_weight.Two(), encoder=2.0, head=3.0)

    assert values(outcome.tensors) == pytest.approx({"encoder": 1.7822, "head": 2.8508}, abs=1e-12)


def test_a_the_pull_is_the_sum_over_all_weights_of_a_real_network() -> None:
    """Two full batches: w_1 = w_0 - η ∇L(w_0) and w_2 = w_1 - η (∇L(w_1) + μ (w_1 - w_0))."""
    clients = {
        "c0": replace(
            PEOPLE["c0"], train=replace(PEOPLE["c0"].train, inputs=PEOPLE["c0"].train.inputs.double())
        )
    }
    at = place(
        FedProx(epochs=2, mu=0.7), clients=clients, model=Double(), training=Training(lr=0.1, batch=1000)
    )
    initial, network, data = at.built("c0").initial, at.build(Double()).parts, clients["c0"].train

    def slopes() -> dict[str, torch.Tensor]:
        loss = torch.nn.functional.cross_entropy(network(data.x), data.y)
        names, params = zip(*network.named_parameters(), strict=True)
        return dict(zip(names, torch.autograd.grad(loss, params), strict=True))

    sent = at.take(Turn(1, ROUND, "c0", initial, 0, {})).tensors or {}

    one = {n: initial[n] - 0.1 * g for n, g in slopes().items()}
    network.load_state_dict(one)
    two = {n: one[n] - 0.1 * (g + 0.7 * (one[n] - initial[n])) for n, g in slopes().items()}
    assert all(torch.allclose(sent[n], two[n], rtol=0, atol=1e-10) for n in two)


def test_b_clients_weigh_by_their_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = FedProx().aggregate(Server(weights(head=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 5.0}


@pytest.mark.parametrize(("question", "stage"), [("personal", PERSONAL), ("generic", GENERIC)])
def test_c_everybody_predicts_with_what_was_received(question: str, stage: Stage) -> None:
    at = one_weight.place(FedProx(), One(w=2.0), a=[5.0])
    message = FedProx().message(Server(weights(head=4.0)), "a", stage)

    predictors = getattr(FedProx(), question)(at.seat(Turn(0, stage, "a", message, 0, {})))

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([0.5], dtype=torch.float64))
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_the_pull_it_is_fedavg(momentum: float) -> None:
    """C3-L1, to the bit."""
    training = Training(lr=0.1, batch=8, momentum=momentum, weight_decay=1e-3)

    prox = history(place(FedProx(epochs=2, mu=0.0), training=training))
    plain = history(place(FedAvg(epochs=2), training=training))

    assert [hashes(now) for now in prox] == [hashes(now) for now in plain]


def test_with_a_single_step_it_is_fedavg_whatever_the_pull() -> None:
    """C3-L2, to the bit: at the first step nothing has moved yet."""
    training = Training(lr=0.1, batch=1000)

    prox, plain = (history(place(m, training=training)) for m in (FedProx(mu=10.0), FedAvg()))

    assert [hashes(now) for now in prox] == [hashes(now) for now in plain]


def test_with_several_steps_the_pull_is_felt() -> None:
    assert hashes(history(place(FedProx(mu=1.0)))[-1]) != hashes(history(place(FedAvg()))[-1])


def test_a_larger_pull_leaves_the_optimum_nearer_to_where_it_began() -> None:
    """C3-L4: |w* - w_0| = |a - w_0| / (1 + μ); with η = 1 / (1 + μ) a step ends in w*."""
    moved = []
    for mu in (0.0, 0.1, 1.0, 10.0, 1e6):
        outcome = one_weight.turn(
            FedProx(epochs=1, mu=mu), One(), training=Training(lr=1 / (1 + mu), batch=1), head=2.0
        )
        moved.append(values(outcome.tensors)["head"] - 2.0)

    assert moved == pytest.approx([3.0, 3 / 1.1, 1.5, 3 / 11, 3 / (1 + 1e6)], abs=1e-10)


def test_a_pull_of_nothing_is_said_to_be_fedavg() -> None:
    assert FedProx(mu=0).dull() == ["mu = 0: without the pull this is FedAvg"]
    assert FedProx().dull() == []
