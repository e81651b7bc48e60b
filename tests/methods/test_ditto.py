"""Ditto, by hand. Letters as in its file."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import One, Two, values, weights
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.ditto import Ditto
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest
from pluribus.training import Training
from pluribus.turn import Turn
from toy import Net, history, place

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD)
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
X = torch.tensor([[5.0]], dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class LocalWithThoseBatches(Local):
    """Local, with the batches of Ditto's own model."""

    def train(self, client: Client) -> None:
        client.fit(epochs=self.epochs, phase="personal")


def unnamed(kept: Tensors) -> Tensors:
    """A client's own model, under the names of what travels."""
    return {n.replace("_personal.", "."): t for n, t in kept.items()}


def loss_of(predictor: Any) -> float:
    """½ (w - 5)² of the weight that predicts so."""
    zero, z = predictor(X).detach()[0]
    return float(torch.log1p(torch.exp(z - zero)))


def test_a_b_the_common_model_and_ones_own_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², λ = 0.5, η = 0.1; w = 2 received, v = 3 its own, 9 was built.
    (a)  w: 2    - 0.1 (-3)                  = 2.3
    (b)  v: 3    - 0.1 (-2    + 0.5 · 1)     = 3.15          towards 2, not 2.3
         v: 3.15 - 0.1 (-1.85 + 0.5 · 1.15)  = 3.2775
    """
    outcome = one_weight.turn(
        Ditto(lam=0.5, personal_epochs=2), One(w=9.0), kept=weights(head_personal=3.0), head=2.0
    )

    assert values(outcome.tensors) == pytest.approx({"head": 2.3}, abs=1e-12)
    assert values(outcome.kept) == pytest.approx({"head_personal": 3.2775}, abs=1e-12)


def test_b_the_pull_passes_through_momentum_and_takes_in_every_part_by_hand() -> None:
    """
    L = ½ (u·v - 5)², λ = 0.5, η = 0.1, momentum 0.5; u = v = 1 received, u = 2 and v = 3 its own: d = 1.
    slopes   u: 3   · 1     + 0.5 · 1   = 3.5         v: 2    · 1     + 0.5 · 2   = 3
    steps    u: 2    - 0.1 · 3.5 = 1.65               v: 3    - 0.1 · 3 = 2.7           d = -0.545
    slopes   u: 2.7 · -0.545 + 0.5 · 0.65 = -1.1465   v: 1.65 · -0.545 + 0.5 · 1.7 = -0.04925
    steps    u: 1.65 - 0.1 (1.75 - 1.1465) = 1.58965  v: 2.7  - 0.1 (1.5 - 0.04925) = 2.554925
    """
    outcome = one_weight.turn(
        Ditto(epochs=0, lam=0.5, personal_epochs=2),
        Two(u=9.0, v=9.0),
        training=Training(lr=0.1, momentum=0.5, batch=1000),
        kept=weights(encoder_personal=2.0, head_personal=3.0),
        encoder=1.0,
        head=1.0,
    )

    assert values(outcome.tensors) == {"encoder": 1.0, "head": 1.0}
    assert values(outcome.kept) == pytest.approx(
        {"encoder_personal": 1.58965, "head_personal": 2.554925}, abs=1e-12
    )


def test_c_the_common_models_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = Ditto().aggregate(Server(weights(head=100.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 5.0}


def test_d_personal_is_ones_own_and_generic_is_what_was_received() -> None:
    """½ (3 - 5)² = 2 and ½ (2 - 5)² = 4.5."""
    at = one_weight.place(Ditto(), One(w=9.0), a=[5.0])
    client = at.seat(Turn(0, PERSONAL, "a", weights(head=2.0), 0, weights(head_personal=3.0)))

    assert loss_of(Ditto().personal(client)["own network"]) == pytest.approx(2)
    assert loss_of(Ditto().generic(client)["network"]) == pytest.approx(4.5)


@pytest.mark.parametrize(("epochs", "v"), [(0, 2.0), (1, 2.3), (2, 2.555)])
def test_d_a_newcomers_own_model_starts_as_the_common_one(epochs: int, v: float) -> None:
    """λ = 0.5: 2 - 0.1 (-3) = 2.3;  2.3 - 0.1 (-2.7 + 0.5 · 0.3) = 2.555; w stays 2."""
    at = one_weight.place(Ditto(lam=0.5), One(w=9.0), a=[5.0])
    client = at.seat(Turn(0, WELCOME, "a", weights(head=2.0), 0, {}))

    predictors = Ditto(lam=0.5).welcome(client, epochs)

    assert values(client.parts.state_dict()) == pytest.approx({"head": 2.0, "head_personal": v}, abs=1e-12)
    assert loss_of(predictors["own network"]) == pytest.approx((v - 5) ** 2 / 2)


@pytest.mark.parametrize("lam", [0.0, 3.0])
def test_the_common_model_does_not_feel_the_pull(lam: float) -> None:
    """C9-L1, to the bit: it is FedAvg's, whatever λ."""
    ditto = history(place(Ditto(epochs=2, lam=lam), training=ROUGH))
    plain = history(place(FedAvg(epochs=2), training=ROUGH))

    assert [digest(now.server.shared) for now in ditto] == [digest(now.server.shared) for now in plain]


def test_without_the_pull_ones_own_model_is_locals() -> None:
    """C9-L2, to the bit."""
    ditto = history(place(Ditto(personal_epochs=2, lam=0.0), training=ROUGH), join=Join())
    local = history(place(LocalWithThoseBatches(epochs=2), training=ROUGH))

    for one, two in zip(ditto, local, strict=True):
        for client, held in two.held.items():
            assert digest(unnamed(one.held[client].kept)) == digest(held.kept)


def test_with_the_pull_it_is_not() -> None:
    one, two = (history(place(Ditto(lam=lam)))[-1].held["c0"].kept for lam in (0.0, 1.0))

    assert digest(one) != digest(two)


def test_a_step_that_undoes_all_distance_starts_from_what_was_received() -> None:
    """C9-L3: η λ = 1, so v - η (∇f(v) + λ (v - w)) = w - η ∇f(v) = 2 - 0.1 (3 - 5) = 2.2, to 1e-10."""
    outcome = one_weight.turn(Ditto(epochs=0, lam=10.0), One(), kept=weights(head_personal=3.0), head=2.0)

    assert values(outcome.kept)["head_personal"] == pytest.approx(2.2, abs=1e-10)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_plain_steps_follow_the_closed_form(steps: int) -> None:
    """C9-L4: v_k - v* = (1 - η (c + λ))^k (v_0 - v*),  v* = (c a + λ w) / (c + λ)."""
    c, lam, a, w, v, lr = 3.0, 0.7, 5.0, 2.0, 4.0, 0.05
    best = (c * a + lam * w) / (c + lam)

    outcome = one_weight.turn(
        Ditto(epochs=1, personal_epochs=steps, lam=lam),
        One(curvature=c),
        target=a,
        training=Training(lr=lr, batch=1),
        kept=weights(head_personal=v),
        head=w,
    )

    expected = best + (1 - lr * (c + lam)) ** steps * (v - best)
    assert values(outcome.kept)["head_personal"] == pytest.approx(expected, abs=1e-10)


def test_who_stays_at_home_keeps_its_model_and_who_was_never_there_has_the_first() -> None:
    """C9-L5."""
    at, rounds = place(Ditto()), history(place(Ditto()), number=4)
    for before, now in pairwise(rounds):
        for client in set(before.held) - set(now.cohort):
            assert digest(now.held[client].kept) == digest(before.held[client].kept)

    state = at.seat(Turn(0, PERSONAL, "c0", rounds[-1].server.shared, 0, {})).parts.state_dict()
    initial = at.built("c0").initial
    assert torch.equal(state["head_personal.weight"], initial["head.weight"])
    assert not torch.equal(state["head.weight"], initial["head.weight"])


def test_running_statistics_of_ones_own_model_stay_and_feel_no_pull() -> None:
    """Pitfall b of the sheet: the same at any λ where weights do not move."""
    still = Training(lr=0.0, batch=8)
    names = {f"encoder_personal.norm.running_{what}" for what in ("mean", "var")}
    kept = [
        history(place(Ditto(lam=lam), model=Net(norm=True), training=still), number=1, join=Join())[-1]
        for lam in (0.0, 5.0)
    ]
    statistics = [{n: now.held["c0"].kept[n] for n in names} for now in kept]

    initial = place(Ditto(), model=Net(norm=True)).built("c0").initial
    assert digest(statistics[0]) == digest(statistics[1])
    assert all(not torch.equal(t, initial[n]) for n, t in statistics[0].items())
    assert not any("personal" in name for name in kept[0].server.shared)


def test_degenerate_settings_are_said() -> None:
    assert Ditto(lam=0).dull() == ["lam = 0: without the pull v_k is Local's"]
    assert Ditto(personal_epochs=0).dull() == ["personal_epochs = 0: v_k never moves"]
