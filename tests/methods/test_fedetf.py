"""FedETF, by hand. Letters as in its file."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contracts import ENCODER, World
from gate.by_hand import seated
from one_weight import values, weights
from pluribus.client import Client, Parts
from pluribus.errors import MethodError
from pluribus.method import Server, Upload
from pluribus.methods.fedetf import FedETF, Temperature, scores, simplex
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from toy import CLASSES, FEATURES, history, place

PAYLOAD = ENCODER + 4 * (FEATURES * CLASSES + CLASSES + 1)
WORLD = World(down=PAYLOAD, up=PAYLOAD)
QUICK = FedETF(cycles=1)
ROUND = Stage("round", 1, 3)
FULL_BATCH = Training(lr=0.1, batch=1000)
MOVING = ("encoder", "projection", "temperature")


def corners(size: int, classes: int) -> Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return simplex(size, classes)


def of_two(beta: float = 2.0) -> Parts:
    """φ and g leave their input as it is; classes are at (1, 0) and (-1, 0)."""
    encoder, projection, head = nn.Linear(2, 2, bias=False), nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    encoder.weight.data = projection.weight.data = torch.eye(2)
    projection.bias.data = torch.zeros(2)
    head.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    parts = {"encoder": encoder, "head": head, "projection": projection, "temperature": Temperature(beta)}
    return Parts(parts, ("encoder", "head"))


# the simplex --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "classes"), [(4, 4), (9, 4), (2, 2)])
def test_a_corners_are_of_length_one_and_equally_far_from_each_other(size: int, classes: int) -> None:
    """C21-L1: MᵀM = C/(C-1) I - 1/(C-1), columns sum to 0."""
    m = corners(size, classes)

    gram = (classes * torch.eye(classes) - torch.ones(classes, classes)) / (classes - 1)
    assert m.shape == (size, classes)
    assert torch.allclose(m.T @ m, gram, atol=1e-6)
    assert torch.allclose(m.sum(1), torch.zeros(size), atol=1e-6)


def test_at_its_corner_a_class_has_beta_and_all_others_their_share_of_minus_beta() -> None:
    """C21-L6: β = 3, C = 4: 3 on y and -1 elsewhere."""
    m = corners(4, 4)

    o = Temperature(3.0)(m.T @ m)

    assert torch.allclose(o, 4 * torch.eye(4) - torch.ones(4, 4), atol=1e-5)


def test_no_score_is_beyond_beta() -> None:
    """C21-L3, for β = 7 and -7."""
    client = seated(place(FedETF(beta=7.0)))
    for beta in (7.0, -7.0):
        client.load({"temperature.weight": torch.tensor([beta])})
        found = scores(client.parts, client.data.x)
        assert 1 < found.abs().max() <= 7 + 1e-5


def test_turned_together_nothing_changes() -> None:
    """C21-L5: M and g, weight and bias, by the same rotation."""
    client = seated(place(FedETF()))
    turn = torch.linalg.qr(torch.randn(4, 4, generator=generator("turn")))[0]
    before = scores(client.parts, client.data.x)
    g = client.parts["projection"]

    with torch.no_grad():
        g.weight.copy_(turn @ g.weight)
        g.bias.copy_(turn @ g.bias)
        client.parts["head"].weight.copy_(client.parts["head"].weight @ turn.T)

    assert torch.allclose(scores(client.parts, client.data.x), before, atol=1e-6)


def test_the_simplex_has_as_many_numbers_as_classes_or_as_asked() -> None:
    assert place(FedETF()).built("c0").parts["head"].weight.shape == (CLASSES, CLASSES)
    assert place(FedETF(size=9)).built("c0").parts["head"].weight.shape == (CLASSES, 9)
    with pytest.raises(MethodError, match="size is 3; a simplex of 4 classes needs 4 or more"):
        place(FedETF(size=3)).built("c0")


def test_scores_by_hand() -> None:
    """(3, 4) → (0.6, 0.8): β = 2 times ±0.6; what has no length has no direction."""
    found = scores(of_two(), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))

    assert found[0].tolist() == pytest.approx([1.2, -1.2])
    assert found[1].tolist() == [0.0, 0.0]


# (a) and (b) the rounds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("gamma", "prior"), [(1.0, math.log(3)), (2.0, 2 * math.log(3)), (0.0, 0.0)])
def test_a_the_balanced_loss_by_hand(gamma: float, prior: float) -> None:
    """Three examples of class 0, one of class 1, all at (3, 4): o = (1.2, -1.2), and γ ln 3 on class 0."""
    client = four((0, 0, 0, 1))
    one, two = (
        F.cross_entropy(torch.tensor([[1.2 + prior, -1.2]]), torch.tensor([y])).item() for y in (0, 1)
    )

    FedETF(gamma=gamma).balanced(client, 1)

    assert client.work.loss == pytest.approx((3 * one + two) / 4, rel=1e-5)


def four(labels: tuple[int, ...]) -> Client:
    """A client whose examples all are (3, 4), with these labels of two classes."""
    client = seated(place(FedETF(), training=FULL_BATCH))
    n = len(labels)
    data = replace(
        client.data,
        inputs=torch.tensor([[3.0, 4.0]]).repeat(n, 1),
        labels=torch.tensor(labels),
        index=torch.arange(n),
        classes=2,
    )
    return replace(client, parts=of_two(), data=data, fixed=frozenset({"head"}))


def test_a_a_class_without_examples_counts_as_one() -> None:
    """ln 4 on class 0 and ln 1 on class 1: there is a loss, and it moves something."""
    client = four((0, 0, 0, 0))
    before = client.parts["projection"].weight.clone()

    FedETF().balanced(client, 1)

    loss = F.cross_entropy(torch.tensor([[1.2 + math.log(4), -1.2]]), torch.tensor([0]))
    assert client.work.loss == pytest.approx(loss.item(), rel=1e-5)
    assert not torch.equal(client.parts["projection"].weight, before)


def test_with_equal_counts_the_loss_is_cross_entropy() -> None:
    """C21-L4."""
    client = four((0, 1, 0, 1))
    x, y = client.data.x, client.data.y
    plain = F.cross_entropy(scores(client.parts, x), y).item()

    FedETF().balanced(client, 1)

    assert client.work.loss == pytest.approx(plain, rel=1e-5)


def test_a_everything_but_the_simplex_moves_at_once() -> None:
    """One full batch, with weight decay, which would shrink M: each by its slope; two epochs, two steps."""
    training = Training(lr=0.1, batch=1000, weight_decay=0.1)
    at = place(FedETF(), training=training)
    client = seated(at)
    x, y = client.data.x, client.data.y
    moving = {n: p for n, p in client.parts.named_parameters() if n.startswith(MOVING)}
    loss = F.cross_entropy(scores(client.parts, x) + client.data.counts.clamp(min=1).log(), y)
    slopes = torch.autograd.grad(loss, list(moving.values()))
    expected = {n: p - 0.1 * (g + 0.1 * p) for (n, p), g in zip(moving.items(), slopes, strict=True)}
    expected = {n: t.detach().clone() for n, t in expected.items()}

    outcome = at.take(Turn(1, ROUND, "c0", {}, 0, {}, watch=True))

    sent = outcome.tensors or {}
    assert sent.keys() == expected.keys()
    assert all(torch.allclose(sent[n], t, atol=1e-6) for n, t in expected.items())
    assert outcome.trained is not None
    assert torch.equal(outcome.trained["head.weight"], at.built("c0").initial["head.weight"])
    twice = place(FedETF(epochs=2), training=training).take(Turn(1, ROUND, "c0", {}, 0, {}))
    assert twice.samples == 2 * outcome.samples


def test_the_simplex_is_the_same_for_ever_and_does_not_travel() -> None:
    """C21-L2, to the bit, and the temperature begins at β."""
    at = place(FedETF(beta=5.0))
    initial = at.built("c0").initial
    for now in history(at, number=3, watch=1):
        assert "head.weight" not in now.server.shared
        for trained in now.trained.values():
            assert torch.equal(trained["head.weight"], initial["head.weight"])
    assert initial["temperature.weight"].tolist() == [5.0]
    assert place(FedETF()).built("c0").initial["temperature.weight"].tolist() == [1.0]


def test_b_networks_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(temperature=2.0), 1), "b": Upload(weights(temperature=6.0), 3)}

    server = FedETF().aggregate(Server(weights(temperature=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"temperature": 5.0}


# (c) to (e) who predicts --------------------------------------------------------------------------------

SHARED = history(place(FedETF()), number=2)[-1].server.shared


def at_home(stage: Stage, training: Training = Training(lr=0.1, batch=8)) -> Client:
    return seated(place(FedETF(), training=training), message=SHARED, stage=stage)


def test_c_anybody_predicts_without_counts() -> None:
    client = at_home(GENERIC)

    (predict,) = FedETF().generic(client).values()

    v = F.normalize(client.parts["projection"](client.parts["encoder"](client.data.x)), dim=1)
    o = client.parts["temperature"].weight * (v @ client.parts["head"].weight.T)
    assert torch.allclose(predict(client.data.x), o, atol=1e-6)


def test_without_tuning_everybody_predicts_alike() -> None:
    """C21-L7."""
    client = at_home(PERSONAL)
    before = digest(client.parts.state_dict())

    (mine,) = FedETF(cycles=0).personal(client).values()

    assert digest(client.parts.state_dict()) == before
    (everybodys,) = FedETF().generic(client).values()
    assert torch.equal(mine(client.data.x), everybodys(client.data.x))


@pytest.mark.parametrize("reuse", [True, False])
def test_d_tuning_written_out(reuse: bool) -> None:
    """Full batches: an epoch of (a), then twice 3 steps of M at 0.1 and 3 of g at 0.05 with momentum."""
    method = FedETF(cycles=2)
    client = at_home(PERSONAL, replace(FULL_BATCH, reuse=reuse))

    method.personal(client)
    found = {n: t.clone() for n, t in client.parts.state_dict().items()}

    by_hand = at_home(PERSONAL, FULL_BATCH)
    x, y, parts = by_hand.data.x, by_hand.data.y, by_hand.parts
    method.balanced(by_hand, 1)
    for _ in range(2):
        for _ in range(3):
            w = parts["head"].weight
            (slope,) = torch.autograd.grad(F.cross_entropy(scores(parts, x), y), [w])
            w.data -= 0.1 * slope
        g = list(parts["projection"].parameters())
        speed = [torch.zeros_like(p) for p in g]
        for _ in range(3):
            slopes = torch.autograd.grad(F.cross_entropy(scores(parts, x), y), g)
            for i, (p, s) in enumerate(zip(g, slopes, strict=True)):
                speed[i] = 0.9 * speed[i] + s + 5e-4 * p.detach()
                p.data -= 0.05 * speed[i]
    for name, tensor in parts.state_dict().items():
        assert torch.allclose(found[name], tensor, atol=2e-6), name


def test_d_it_has_rates_of_its_own() -> None:
    """At 0 the part stays."""
    for settings, still in (({"etf_lr": 0.0}, "head"), ({"projection_lr": 0.0}, "projection")):
        method: Any = FedETF(cycles=1, **settings)
        client = at_home(PERSONAL)
        method.personal(client)
        found = {n: t.clone() for n, t in client.parts.state_dict().items()}
        alone = at_home(PERSONAL)
        method.balanced(alone, 1)

        for name, tensor in alone.parts.state_dict().items():
            tuned = name.startswith(("head", "projection")) and not name.startswith(still)
            assert torch.equal(found[name], tensor) is not tuned, name


def test_d_what_is_tuned_is_thrown_away() -> None:
    now = history(place(QUICK), number=2)[-1]

    assert all(not held.kept for held in now.held.values())
    assert digest(now.server.shared) == digest(SHARED)


def test_d_it_begins_with_as_many_epochs_as_a_turn() -> None:
    client = at_home(PERSONAL)

    FedETF(cycles=1, epochs=4).personal(client)

    assert client.work.samples == len(client.data) * (4 + 3 + 3)


@pytest.mark.parametrize(("epochs", "seen"), [(0, 0), (5, 5 + 2 * 6)])
def test_e_a_newcomer_is_tuned_after_its_own_epochs(epochs: int, seen: int) -> None:
    client = at_home(WELCOME)

    (predict,) = FedETF(cycles=2).welcome(client, epochs).values()

    assert client.work.samples == len(client.data) * seen
    assert torch.equal(predict(client.data.x), scores(client.parts, client.data.x))


@pytest.mark.parametrize(("name", "value"), [("gamma", 0), ("cycles", 0)])
def test_a_degenerate_setting_is_said(name: str, value: int) -> None:
    (sentence,) = replace(FedETF(), **{name: value}).dull()

    assert sentence.startswith(f"{name} = {value}: ")
