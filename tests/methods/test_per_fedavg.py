"""Per-FedAvg, by hand. Letters as in its file."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn import functional as F

import one_weight
from contracts import ENCODER, HEAD, World
from gate.by_hand import FULL_BATCH, loss_of, near, seated
from one_weight import One, Two, values, weights
from pluribus.client import Client
from pluribus.method import Server, Upload
from pluribus.methods.per_fedavg import PerFedAvg
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, add, copied, digest
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import FEATURES, Net, place

WORLD = World(resting={"alpha": 0.0, "beta": 0.0}, down=ENCODER + HEAD, up=ENCODER + HEAD)
QUICK = PerFedAvg(beta=0.05, steps=3)
ROUND = Stage("round", 1, 1)
BOTH = ("first-order", "hessian-free")
ONE = PerFedAvg(alpha=0.1, beta=0.2, steps=1)
HF = replace(ONE, gradient="hessian-free")


def client_of(method: PerFedAvg, **changes: Any) -> Client:
    return seated(place(method, **{"training": FULL_BATCH, **changes}))


def now(client: Client) -> dict[str, Tensor]:
    return copied(dict(client.parts.named_parameters()))


# the meta-step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gradient", "steps", "w"), [(BOTH[0], 1, 3.26), (BOTH[0], 2, 3.9908)])
def test_a_c_first_order_steps_by_hand(gradient: Any, steps: int, w: float) -> None:
    """
    C7-L5: L = ½ 3 (w - 5)², α = 0.1, β = 0.2: w ← w - β · 3 (1 - 3 α) (w - 5).
    From 2:  w' = 2 + 0.1 · 9 = 2.9, g = 3 (2.9 - 5) = -6.3,  w = 2    + 0.2 · 6.3   = 3.26
             and again from 3.26: 3.26 + 0.2 · 3 · 0.7 · 1.74                        = 3.9908
    """
    outcome = one_weight.turn(replace(ONE, steps=steps), One(w=9.0, curvature=3.0), head=2.0)

    assert values(outcome.tensors) == pytest.approx({"head": w}, abs=1e-12)
    assert outcome.kept == {}


@pytest.mark.parametrize("delta", [1e-3, 0.1, 0.7])
def test_b_on_a_parabola_the_hessian_is_exact_whatever_delta_by_hand(delta: float) -> None:
    """C7-L2: g - α · 3 g = -6.3 · 0.7 = -4.41, so w = 2 + 0.2 · 4.41 = 2.882, to 1e-9."""
    outcome = one_weight.turn(replace(HF, delta=delta), One(w=9.0, curvature=3.0), head=2.0)

    assert values(outcome.tensors)["head"] == pytest.approx(2.882, abs=1e-9)


def test_b_the_error_falls_with_the_square_of_delta() -> None:
    """C7-L3: on ½ (u·v - 5)², whose fourth derivative is not 0, half the δ leaves a quarter of the error."""
    exact = exact_step(2.0, 1.5)

    errors = []
    for delta in (0.04, 0.02, 0.01):
        sent = values(one_weight.turn(replace(HF, delta=delta), Two(), encoder=2.0, head=1.5).tensors)
        errors.append(abs(sent["encoder"] - exact[0]) + abs(sent["head"] - exact[1]))

    assert all(one / two == pytest.approx(4, rel=0.02) for one, two in pairwise(errors))


def exact_step(u: float, v: float) -> list[float]:
    """w - β (I - α H(w)) ∇L(w - α ∇L(w))."""

    def after(w: Tensor) -> Tensor:
        slope = grad(parabola)(w)
        return parabola(w - 0.1 * slope)

    w = torch.tensor([u, v], dtype=torch.float64)
    return (w - 0.2 * grad(after)(w)).tolist()


def parabola(w: Tensor) -> Tensor:
    return (w[0] * w[1] - 5) ** 2 / 2


@pytest.mark.parametrize("gradient", BOTH)
def test_a_b_a_step_of_a_network_is_the_slope_of_the_loss_after_a_step(gradient: Any) -> None:
    """One full batch, by torch.func; first order leaves the second derivative out."""
    method = PerFedAvg(alpha=0.3, beta=1.0, steps=1, gradient=gradient, delta=1e-2)
    client = client_of(method)
    w, x, y = now(client), client.data.x, client.data.y

    def ahead(v: Mapping[str, Tensor]) -> dict[str, Tensor]:
        g = grad(loss_of)(v, x, y)
        return {n: t - 0.3 * g[n] for n, t in v.items()}

    exact = grad(lambda v: loss_of(ahead(v), x, y))(w)
    first_order = grad(loss_of)(ahead(w), x, y)

    method.train(client)

    moved = add(w, now(client), -1)
    assert not near(first_order, exact, atol=2e-3)
    assert near(moved, exact, atol=2e-3) == (gradient == "hessian-free")
    assert near(moved, first_order, atol=1e-6) == (gradient == "first-order")


@pytest.mark.parametrize(("gradient", "each"), [(BOTH[0], 2), (BOTH[1], 3)])
def test_c_without_inner_steps_it_is_gradient_descent_on_every_second_batch(gradient: Any, each: int) -> None:
    """C7-L1: α = 0, β = 0.2, four steps: D' is the second batch of each step's two, or three."""
    method = PerFedAvg(alpha=0.0, beta=0.2, steps=4, gradient=gradient)
    training = Training(lr=9.0, batch=5, momentum=0.9, weight_decay=0.1)
    client = client_of(method, training=training)
    w = now(client)
    for x, y in list(islice(client.batches(9), 4 * each))[1::each]:
        w = add(w, grad(loss_of)(w, x, y), -0.2)

    sent = method.train(client)

    assert near(sent, w)
    assert client.work.samples == 5 * 4 * (2 if each == 2 else 4), "the third batch is looked at twice"


def test_c_the_batches_of_a_step_are_used_in_their_order() -> None:
    """The first leads ahead, at the second g is found, the third is that of the correction."""
    method = PerFedAvg(alpha=0.3, beta=1.0, steps=1, gradient="hessian-free", delta=1e-2)
    client = client_of(method, training=Training(lr=0.1, batch=5))
    w = now(client)
    (one, two, three) = islice(client.batches(1), 3)
    g1 = grad(loss_of)(w, *one)
    g = grad(loss_of)({n: t - 0.3 * g1[n] for n, t in w.items()}, *two)
    plus, minus = (grad(loss_of)(add(w, g, d), *three) for d in (1e-2, -1e-2))

    method.train(client)

    expected = {n: w[n] - (g[n] - 0.3 * (plus[n] - minus[n]) / 0.02) for n in w}
    assert near(now(client), expected, atol=1e-5)


def test_c_a_client_with_less_data_than_a_step_takes_begins_anew() -> None:
    """One batch an epoch: all batches of all steps are that one."""
    client = client_of(replace(HF, steps=3))

    HF.train(client)

    assert client.work.samples == 45 * 4


def test_running_statistics_move_in_the_pass_at_the_inner_weights_only() -> None:
    """They end as after one pass at w - α ∇L(w), with either gradient, and are not touched in reading."""
    for method in (ONE, HF):
        one, two = (client_of(method, model=Net(norm=True)) for _ in range(2))
        expected = buffers_ahead(two)

        method.train(one)
        trained = copied(dict(one.parts.named_buffers()))
        method.personal(one)

        assert near(trained, expected)
        assert digest(dict(one.parts.named_buffers())) == digest(trained)


def buffers_ahead(client: Client) -> Tensors:
    """After one pass in training mode at w - α ∇L(w)."""
    before = copied(dict(client.parts.named_buffers()))
    client.parts.train()
    loss = F.cross_entropy(client.parts(client.data.x), client.data.y)
    slopes = torch.autograd.grad(loss, list(client.parts.parameters()))
    names = [n for n, _ in client.parts.named_parameters()]
    client.load({**add(now(client), dict(zip(names, slopes, strict=True)), -0.1), **before})
    client.parts(client.data.x)
    return copied(dict(client.parts.named_buffers()))


@dataclass(frozen=True)
class Dropping:
    """The toy network with dropout behind the encoder."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net().build(shape, classes)
        first, last = network.get_submodule("encoder"), network.get_submodule("head")
        return nn.Sequential(OrderedDict(encoder=nn.Sequential(first, nn.Dropout(0.5)), head=last))


def test_b_both_probes_see_the_same_dropout() -> None:
    """With a tiny δ two masks that differ would divide their difference by it: the step would be enormous."""
    method = PerFedAvg(alpha=0.1, beta=1.0, steps=1, gradient="hessian-free", delta=1e-3)
    client = client_of(method, model=Dropping())
    w = now(client)

    method.train(client)

    longest = max(float(t.abs().max()) for t in add(w, now(client), -1).values())
    assert 0 < longest < 1
    assert FEATURES == 8, "of which half are dropped, each time others"


# server and predictions -------------------------------------------------------------------------------


def test_d_every_client_counts_the_same() -> None:
    """(2 + 6) / 2 = 4, with one example and with three."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = PerFedAvg().aggregate(Server(weights(head=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 4.0}


def received(method: PerFedAvg, stage: Stage) -> Client:
    at: Place = one_weight.place(method, One(w=9.0), a=[5.0])
    return at.seat(Turn(0, stage, "a", weights(head=2.0), 0, {}))


@pytest.mark.parametrize(("steps", "w"), [(0, 2.0), (1, 2.3), (2, 2.57)])
def test_e_personal_is_so_many_steps_away_by_hand(steps: int, w: float) -> None:
    """α = 0.1, L = ½ (w - 5)²: 2 + 0.1 · 3 = 2.3, 2.3 + 0.1 · 2.7 = 2.57."""
    method = replace(ONE, personal_steps=steps)
    client = received(method, PERSONAL)

    (predict,) = method.personal(client).values()

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(predict(x), one_weight.logits(torch.tensor([(w - 5) ** 2 / 2]).double()))
    assert values(client.parts.state_dict()) == pytest.approx({"head": w}, abs=1e-12)


@pytest.mark.parametrize(("epochs", "w"), [(0, 2.0), (1, 2.3), (2, 2.57)])
def test_e_a_newcomer_takes_as_many_steps_as_it_has_epochs(epochs: int, w: float) -> None:
    client = received(ONE, WELCOME)

    ONE.welcome(client, epochs)

    assert values(client.parts.state_dict()) == pytest.approx({"head": w}, abs=1e-12)


def test_e_a_step_is_on_one_batch_and_not_on_all_data() -> None:
    client = client_of(replace(ONE, personal_steps=2), training=Training(lr=9.0, batch=5))

    replace(ONE, personal_steps=2).personal(client)

    assert client.work.samples == 10


def test_e_generic_is_what_was_received() -> None:
    """½ (2 - 5)² = 4.5."""
    (predict,) = ONE.generic(received(ONE, GENERIC)).values()

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(predict(x), one_weight.logits(torch.tensor([4.5]).double()))


def test_without_inner_steps_personal_is_generic() -> None:
    """C7-L4, to the bit."""
    client = client_of(PerFedAvg(alpha=0.0, personal_steps=3))
    before = now(client)

    PerFedAvg(alpha=0.0, personal_steps=3).personal(client)

    assert digest(now(client)) == digest(before)


def test_degenerate_settings_are_said() -> None:
    said = PerFedAvg(alpha=0, beta=0, steps=0, personal_steps=0).dull()

    assert said == [
        "alpha = 0: without inner steps w is trained as it is, and P is G",
        "beta = 0: w never moves",
        "steps = 0: w never moves",
        "personal_steps = 0: P is G",
    ]
