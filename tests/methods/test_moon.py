"""MOON, by hand. Letters as in its file."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import one_weight
from contracts import ENCODER, World
from one_weight import STEP, weights
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.examples import Examples
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.moon import MOON, contrast, still
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.state import Tensors, digest, select, under, within
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import Net, Person, hashes, history, place
from worlds import Double, Projected

HEAD = 4 * ((8 * 8 + 8) + (8 * 256 + 256) + (256 * 4 + 4))
WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD)
ROUND = Stage("round", 1, 1)
PLAIN = MOON(projection=0)
FULL_BATCH = Training(lr=0.1, batch=1000)
NOTHING: Tensors = {}


class Features(nn.Module):
    """Whatever comes in, its features are its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([9.0, 9.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.expand(len(x), 2)


@dataclass(frozen=True)
class Silent:
    """Its head is 0 and says nothing of the features, so that these feel the contrast alone."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        head = nn.Linear(2, classes).double()
        nn.init.zeros_(head.weight)
        return nn.Sequential(OrderedDict(encoder=Features(), head=head))


def features(u: float, v: float) -> dict[str, Tensor]:
    weight = torch.tensor([u, v], dtype=torch.float64)
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}
    return {"encoder.weight": weight, **{n: t.double() for n, t in head.items()}}


def silent(method: MOON, kept: Tensors, steps: int = 1) -> list[float]:
    """Features after so many steps from (1, 0) as received; each class has one example."""
    data = Examples(torch.zeros(2, 1).double(), torch.tensor([0, 1]), torch.arange(2), 2)
    clients = {"a": Person("a", "a", data, data.take(torch.arange(0)), data)}
    at = Place(replace(method, epochs=steps), clients, Silent(), (1,), 2, STEP, 0, 0)
    outcome = at.take(Turn(1, ROUND, "a", features(1.0, 0.0), 0, kept))
    return (outcome.tensors or {})["encoder.weight"].tolist()


def test_a_b_features_turn_away_from_those_of_last_time_by_hand() -> None:
    """
    z = z_g = (1, 0), z_p = (0, 1): s_g = 1, s_p = 0, and the slope of s_p by z is (0, 1), of s_g (0, 0).
    That of ℓ = log(1 + e^{(s_p - s_g)/τ}), τ = 0.5, is 2 σ(-2) (0, 1), with σ(-2) = 1 / (1 + e²).
    μ = 5, η = 0.1:  z = (1, b), b = -0.1 · 5 · 2 / (1 + e²) = -1 / (1 + e²)
    """
    u, v = silent(PLAIN, under("previous", features(0.0, 3.0)))

    assert (u, v) == (1.0, pytest.approx(-1 / (1 + exp(2)), abs=1e-12))


def test_a_b_a_second_step_is_held_by_what_was_received_by_hand() -> None:
    """
    z = (1, b), r = 1 + b²: s_g = r^-½, s_p = b r^-½;  slopes (b², -b) r^-1½ and (-b, 1) r^-1½.
    z_g is still (1, 0), and z_p (0, 1), whatever z does.
    """
    b = -1 / (1 + exp(2))
    r = 1 + b**2
    pull = 0.1 * 5 * 2 / (1 + exp(-2 * (b - 1) / r**0.5)) / r**1.5

    found = silent(PLAIN, under("previous", features(0.0, 3.0)), steps=2)

    assert found == pytest.approx([1 - pull * (-b - b**2), b - pull * (1 + b)], abs=1e-12)


@pytest.mark.parametrize(("mu", "tau"), [(1.0, 0.5), (5.0, 1.0), (0.0, 0.5)])
def test_a_weight_and_temperature_by_hand(mu: float, tau: float) -> None:
    """b = -η μ σ(-1/τ) / τ."""
    _, v = silent(replace(PLAIN, mu=mu, tau=tau), under("previous", features(0.0, 3.0)))

    assert v == pytest.approx(-0.1 * mu / tau / (1 + exp(1 / tau)), abs=1e-12)


def test_b_who_was_never_here_is_pulled_nowhere() -> None:
    """C6-L2: z_p = z_g, so ℓ = log 2 and its slope is 0."""
    assert silent(PLAIN, {}, steps=3) == [1.0, 0.0]


def test_b_a_first_round_is_fedavgs_to_1e_6_and_its_loss_log_2_higher() -> None:
    """C6-L2."""
    moon, plain = (
        history(place(m, training=FULL_BATCH), number=1, join=Join())[-1] for m in (PLAIN, FedAvg())
    )

    assert all(torch.allclose(moon.server.shared[n], t, atol=1e-6) for n, t in plain.server.shared.items())
    assert moon.loss == pytest.approx(plain.loss + 5 * log(2))


def test_b_models_held_still_learn_nothing_and_measure_nothing() -> None:
    """C6-L4: no parameter takes a gradient, and running statistics are read and not written."""
    at = place(MOON(), model=Net(norm=True))
    client = at.seat(Turn(1, ROUND, "c0", {}, 0, {}))
    client.parts.train()
    before = {n: t + 1 for n, t in client.parts.state_dict().items()}

    frozen = still(client.parts, before)
    frozen(client.data.x)

    assert not any(p.requires_grad for p in frozen.parameters())
    assert not any(m.training for m in frozen.modules())
    assert digest(frozen.state_dict()) == digest(before)
    assert all(m.training for m in client.parts.modules())
    assert digest(client.parts.state_dict()) == digest(at.built("c0").initial)


def test_c_the_model_is_kept_as_it_was_trained() -> None:
    rounds = history(place(MOON(), model=Net(norm=True)), number=3, watch=1, keep_trained=True)

    for now in rounds:
        for client, trained in now.trained.items():
            assert digest(within("previous", now.held[client].kept)) == digest(trained)


def test_c_who_was_away_is_pulled_from_its_own_last_model() -> None:
    """The same message after a gap or at once: only what was kept counts."""
    at = place(MOON())
    first = at.take(Turn(1, ROUND, "c0", {}, 0, {}))
    other = {n: t + 1 for n, t in first.kept.items()}

    again, changed = (at.take(Turn(9, Stage("round", 9, 9), "c0", {}, 0, k)) for k in (first.kept, other))

    assert digest(again.tensors or {}) != digest(changed.tensors or {})


def test_d_models_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = MOON().aggregate(Server(weights(head=9.0)), uploads, ROUND, generator("aggregate"))

    assert one_weight.values(server.shared) == {"head": 5.0}


@pytest.mark.parametrize(("question", "stage"), [("personal", PERSONAL), ("generic", GENERIC)])
def test_e_everybody_predicts_with_what_was_received(question: str, stage: Stage) -> None:
    at = place(MOON())
    now = history(at, number=1)[-1]
    client = at.seat(Turn(0, stage, "c0", now.server.shared, 0, now.held.of("c0").kept))

    (predict,) = getattr(MOON(), question)(client).values()

    assert torch.allclose(predict(client.data.x), written_out(now.server.shared, client.data.x)[1])


# the projection ---------------------------------------------------------------------------------------


def written_out(w: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """z and logits of the toy network with a projection."""
    f = F.relu(x @ w["encoder.first.weight"].T + w["encoder.first.bias"])
    inner = F.relu(f @ w["head.projection.1.weight"].T + w["head.projection.1.bias"])
    z = inner @ w["head.projection.3.weight"].T + w["head.projection.3.bias"]
    return z, z @ w["head.last.weight"].T + w["head.last.bias"]


def test_a_z_leaves_the_projection_and_a_step_is_that_of_the_written_out_loss() -> None:
    """One full batch from w as built; what was kept is another model."""
    at = place(MOON(), training=FULL_BATCH)
    w = {n: t.clone().requires_grad_() for n, t in at.built("c0").initial.items()}
    noise = generator("previous")
    last = {n: t.detach() + 0.3 * torch.randn(t.shape, generator=noise) for n, t in w.items()}
    x, y = at.data_of("c0").train.x, at.data_of("c0").train.y
    z, logits = written_out(w, x)
    s_g, s_p = (F.cosine_similarity(z, written_out(m, x)[0].detach()) for m in (w, last))
    both = torch.stack([s_g, s_p], 1) / 0.5
    loss = F.cross_entropy(logits, y) + 5 * F.cross_entropy(both, torch.zeros_like(y))
    slopes = dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))

    outcome = at.take(Turn(1, ROUND, "c0", {}, 0, under("previous", last)))

    sent = outcome.tensors or {}
    assert sent.keys() == w.keys()
    assert all(torch.allclose(sent[n], t.detach() - 0.1 * slopes[n], atol=1e-5) for n, t in w.items())


def test_the_projection_has_the_papers_layers_and_the_networks_type() -> None:
    built = place(MOON(), model=Double()).built("c0").initial

    assert {n: tuple(t.shape) for n, t in select(built, "head").items() if n.endswith("weight")} == {
        "head.projection.1.weight": (8, 8),
        "head.projection.3.weight": (256, 8),
        "head.last.weight": (4, 256),
    }
    assert {t.dtype for t in built.values()} == {torch.float64}


@pytest.mark.parametrize(("method", "model"), [(PLAIN, Net()), (MOON(), Projected())])
def test_without_one_or_with_the_networks_own_z_is_what_reaches_the_head(method: MOON, model: Any) -> None:
    at = place(method, model=model)
    client = at.seat(Turn(1, ROUND, "c0", {}, 0, {}))
    x = client.data.x

    z, logits = method.seen(client.parts, x)

    assert torch.equal(z, client.parts.features(x))
    assert torch.equal(logits, client.parts(x))
    assert list(select(at.built("c0").initial, "head")) == ["head.weight", "head.bias"]
    assert method.lacking(client.parts) == []


def test_a_projection_that_others_do_not_have_is_said() -> None:
    (sentence,) = MOON().lacking(place(MOON()).built("c0").parts)

    assert "projection=0" in sentence


# laws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Net(), Net(norm=True)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_the_contrast_it_is_fedavg(model: Net, momentum: float) -> None:
    """C6-L1, to the bit, on the same architecture; the models held still disturb nothing."""
    training = Training(lr=0.1, batch=8, momentum=momentum)

    moon, plain = (
        history(place(m, model=model, training=training)) for m in (replace(PLAIN, mu=0.0), FedAvg())
    )

    assert shared(moon) == shared(plain)


def shared(rounds: list[Round]) -> list[str]:
    return [hashes(now)[0] for now in rounds]


def test_with_it_rounds_differ_from_the_second_on() -> None:
    assert shared(history(place(PLAIN)))[-1] != shared(history(place(FedAvg())))[-1]


@given(seed=st.integers(0, 10**6), tau=st.floats(0.05, 5), scale=st.floats(0.01, 100))
def test_the_contrast_has_bounds(seed: int, tau: float, scale: float) -> None:
    """C6-L3: log(1 + e^{-2/τ}) ≤ ℓ ≤ log(1 + e^{2/τ})."""
    z, z_g, z_p = torch.randn(3, 5, 4, generator=generator("z", seed), dtype=torch.float64) * scale

    found = float(contrast(z, z_g, z_p, tau))

    assert log(1 + exp(-2 / tau)) - 1e-9 <= found <= log(1 + exp(2 / tau)) + 1e-9


def test_the_bounds_are_met_and_equals_give_log_2() -> None:
    z = torch.tensor([[1.0, 2.0]], dtype=torch.float64)

    assert float(contrast(z, z, -z, 0.5)) == pytest.approx(log(1 + exp(-4)))
    assert float(contrast(z, -z, z, 0.5)) == pytest.approx(log(1 + exp(4)))
    assert float(contrast(z, -z, -z, 0.5)) == pytest.approx(log(2))


def test_a_very_cold_contrast_is_finite() -> None:
    z = torch.ones(2, 3)

    assert float(contrast(z, -z, z, 1e-3)) == pytest.approx(2000)


def test_a_contrast_of_no_weight_is_said_to_be_fedavg() -> None:
    assert MOON(mu=0).dull() == ["mu = 0: without the contrast this is FedAvg"]
