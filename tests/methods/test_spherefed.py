"""SphereFed, by hand. Letters as in its file."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contracts import ENCODER, World
from one_weight import values, weights
from pluribus.client import Client, Parts
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.spherefed import SphereFed, direction
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest, select
from pluribus.training import Training
from pluribus.turn import Turn
from toy import CLASSES, FEATURES, PEOPLE, Net, history, place

WORLD = World(training=Training(lr=0.5, batch=8), moves=frozenset({"head.weight"}))
ROUND = Stage("round", 1, 3)
MOMENTS = Stage("moments", 4, 3, everyone=True)
NOTHING: Tensors = {}
ROUNDS = history(place(SphereFed(), training=WORLD.training), number=3)
LAST = ROUNDS[-1].server.shared


@dataclass(frozen=True)
class Narrow:
    """Two features for four classes."""

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        network: Any = nn.Sequential(OrderedDict(encoder=nn.Linear(shape[0], 2), head=nn.Linear(2, classes)))
        network.features, network.classes, network.shape = 2, classes, shape
        return network


def seated(
    client: str = "c0", message: Tensors = NOTHING, stage: Stage = ROUND, model: Any = Net()
) -> Client:
    return place(SphereFed(), model=model).seat(Turn(1, stage, client, message, 0, {}))


def of_two(u: Tensor, w: Tensor) -> Parts:
    """φ(x) = u x, and a head of these rows."""
    encoder, head = nn.Linear(*reversed(u.shape), bias=False), nn.Linear(*reversed(w.shape), bias=False)
    encoder.weight.data, head.weight.data = u, w
    return Parts({"encoder": encoder, "head": head}, ("encoder", "head"))


def pooled(shared: Tensors) -> tuple[Tensor, Tensor]:
    """Directions and targets of everybody's data, in float64."""
    z, y = [], []
    for k in PEOPLE:
        client = seated(k, shared)
        with torch.no_grad():
            z.append(direction(client.parts.eval(), client.data.x))
        y.append(client.data.y)
    return torch.cat(z).double(), F.one_hot(torch.cat(y), CLASSES).double()


# (a) the loss and the classifier ------------------------------------------------------------------------


def test_a_the_classifier_is_orthonormal_and_stays_at_home() -> None:
    """C20-L1."""
    client = seated()
    w = client.parts.head.weight

    assert torch.allclose(w @ w.T, torch.eye(CLASSES), atol=1e-6)
    assert w.shape == (CLASSES, FEATURES)
    assert set(client.tensors()) == {"encoder.first.weight", "encoder.first.bias"}


def test_a_no_logit_is_above_one() -> None:
    """C20-L6, features are of length 1."""
    client = seated()
    z = direction(client.parts, client.data.x)

    assert torch.allclose(z.norm(dim=1), torch.ones(len(z)), atol=1e-6)
    assert bool((client.parts.head(z).abs() <= 1 + 1e-6).all())


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 0.8), ("mean", 0.4)])
def test_a_the_loss_by_hand(reduction: Any, expected: float) -> None:
    """Features (3, 4) and (6, 8), W = I, class 0: z = (0.6, 0.8) both times, (0.6 - 1)² + 0.8² = 0.8."""
    parts = of_two(torch.eye(2), torch.eye(2))
    x, y = torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor([0, 0])

    assert SphereFed(reduction=reduction).loss(parts, x, y).item() == pytest.approx(expected)


def test_a_the_loss_is_a_mean_over_the_batch() -> None:
    """0.8 and, on its corner, 0."""
    parts = of_two(torch.eye(2), torch.eye(2))

    loss = SphereFed().loss(parts, torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([0, 1]))

    assert loss.item() == pytest.approx(0.4)


def test_the_loss_written_out() -> None:
    """C20-L4: ‖W z - e_y‖² = ‖W z‖² - 2 w_y·z + 1; where d = C it is 2 - 2 cos(z, w_y)."""
    for model in (Net(), Narrow()):
        client = seated(model=model)
        x, y = client.data.x, client.data.y
        z = direction(client.parts, x)
        logits = client.parts.head(z)
        near = logits.gather(1, y[:, None])[:, 0]

        loss = SphereFed().loss(client.parts, x, y)

        assert torch.allclose(loss, (logits.square().sum(1) - 2 * near + 1).mean(), atol=1e-6)
        square = client.parts.head.weight.shape[0] == client.parts.head.weight.shape[1]
        assert torch.allclose(loss, (2 - 2 * near).mean(), atol=1e-6) is square


def test_turned_together_nothing_changes() -> None:
    """C20-L5: the classifier and the last linear layer of the features by the same rotation."""
    rng = generator("turned")
    turn = torch.linalg.qr(torch.randn(5, 5, generator=rng))[0]
    u, w = torch.randn(5, 3, generator=rng), torch.linalg.qr(torch.randn(5, 5, generator=rng))[0][:4]
    x = torch.randn(7, 3, generator=rng)

    one, two = (
        SphereFed().generic(replace(seated(), parts=parts))
        for parts in (of_two(u, w), of_two(turn @ u, w @ turn.T))
    )

    assert torch.allclose(one["on the sphere"](x), two["on the sphere"](x), atol=1e-6)


def test_a_features_of_length_zero_stay_zero() -> None:
    parts = of_two(torch.zeros(2, 2), torch.eye(2))
    x = torch.ones(1, 2)

    assert direction(parts, x).tolist() == [[0.0, 0.0]]
    assert SphereFed().loss(parts, x, torch.tensor([0])).item() == 1.0


def test_a_a_step_of_the_encoder_and_none_of_the_classifier() -> None:
    """One full batch: φ - η ∇L, also with weight decay, which would shrink W; two epochs are two steps."""
    training = Training(lr=0.1, batch=1000, weight_decay=0.1)
    at = place(SphereFed(), training=training)
    built = at.built("c0")
    network, data = at.build(Net()).parts, PEOPLE["c0"].train

    outcome = at.take(Turn(1, ROUND, "c0", select(built.initial, "encoder"), 0, {}, watch=True))

    loss = F.mse_loss(network.head(direction(network, data.x)), F.one_hot(data.y, CLASSES).float()) * CLASSES
    params = dict(network.encoder.named_parameters(prefix="encoder"))
    for (name, p), g in zip(params.items(), torch.autograd.grad(loss, list(params.values())), strict=True):
        assert torch.allclose((outcome.tensors or {})[name], p - 0.1 * (g + 0.1 * p), atol=1e-6)
    assert outcome.trained is not None
    assert torch.equal(outcome.trained["head.weight"], built.initial["head.weight"])
    twice = place(SphereFed(epochs=2), training=training).take(Turn(1, ROUND, "c0", {}, 0, {}))
    assert twice.samples == 2 * outcome.samples


def test_a_with_too_few_features_a_projection_comes_before() -> None:
    """Two features, four classes: four features, and W a rotation; the projection is shared and learns."""
    client = seated(model=Narrow())
    w = client.parts.head.weight
    before = client.tensors()

    SphereFed().improve(client)

    assert torch.allclose(w @ w.T, torch.eye(CLASSES), atol=1e-6)
    assert {n.split(".")[0] for n in before} == {"encoder", "projection"}
    assert all(not torch.equal(client.tensors()[n], t) for n, t in before.items())
    z = torch.nn.functional.normalize(client.parts.projection(client.parts.encoder(client.data.x)), dim=1)
    assert torch.equal(direction(client.parts, client.data.x), z)
    now = history(place(SphereFed(), model=Narrow()), number=1)[-1]
    assert now.server.shared["head.weight"].shape == (CLASSES, CLASSES)
    assert "projection" not in place(SphereFed()).built("c0").parts


# (b) to (d) the server and the calibration --------------------------------------------------------------


def test_b_encoders_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}

    server = SphereFed().aggregate(Server(weights(encoder=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"encoder": 5.0}


def test_c_the_moments_by_hand() -> None:
    """
    z = (0.6, 0.8) of class 1 and (0, 1) of class 0.
    A = (0.36, 0.48; 0.48, 0.64 + 1), of which the lower half; B, a row a feature: (0, 0.6), (1, 0.8).
    """
    client = seated()
    data = replace(
        client.data,
        inputs=torch.tensor([[3.0, 4.0], [0.0, 2.0]]),
        labels=torch.tensor([1, 0]),
        index=torch.arange(2),
    )
    client = replace(client, parts=of_two(torch.eye(2), torch.eye(2)), data=data)

    sent = SphereFed().moments(client)

    assert sent["moments/a"].tolist() == pytest.approx([0.36, 0.48, 1.64])
    assert sent["moments/b"].flatten().tolist() == pytest.approx([0.0, 0.6, 1.0, 0.8])


def test_c_over_all_its_data_in_evaluation_mode() -> None:
    """300 examples in batches of 128: the trace of A is their number; no running statistics move."""
    first = PEOPLE["c0"]
    many = {"c0": replace(first, train=first.train.take(torch.arange(300) % len(first.train)))}
    at = place(SphereFed(), clients=many, model=Net(norm=True))
    client = at.seat(Turn(1, MOMENTS, "c0", {}, 0, {}))
    before = digest(dict(client.parts.named_buffers()))

    sent = SphereFed().moments(client)

    rows, columns = torch.tril_indices(FEATURES, FEATURES)
    assert sent["moments/a"][rows == columns].sum().item() == pytest.approx(300, rel=1e-5)
    assert digest(dict(client.parts.named_buffers())) == before


def test_d_the_closed_form_by_hand() -> None:
    """
    A = (1, 0; 0, 3) and (1, 1; 1, 1), together (2, 1; 1, 4), trace 6, d = 2, eps = 1/3: ε = 1, (3, 1; 1, 5).
    B = (7, 0; 7, 0) and (0, 14; 0, 0), together (7, 14; 7, 0).  Inverse (5, -1; -1, 3) / 14:
    (28, 70; 14, -14) / 14 = (2, 5; 1, -1), and W its transpose.  Numbers of examples do not count.
    """
    a, b = torch.tensor([1.0, 0.0, 3.0]), torch.tensor([[7.0, 0.0], [7.0, 0.0]])
    uploads = {
        "a": Upload({"moments/a": a, "moments/b": b}, 1),
        "b": Upload({"moments/a": torch.ones(3), "moments/b": torch.tensor([[0.0, 14.0], [0.0, 0.0]])}, 9),
    }

    server = SphereFed(eps=1 / 3).aggregate(Server(weights(encoder=2.0)), uploads, MOMENTS, generator("x"))

    assert values(select(server.shared, "encoder")) == {"encoder": 2.0}
    assert server.shared["head.weight"].flatten().tolist() == pytest.approx([2.0, 1.0, 5.0, -1.0])


def test_calibration_is_least_squares_on_everybodys_data_however_it_is_split() -> None:
    """C20-L2: on everybody's directions at once; and with all data at one client."""
    z, targets = pooled(select(LAST, "encoder"))
    a = z.T @ z
    exact = torch.linalg.solve(
        a + 1e-6 * a.trace() / FEATURES * torch.eye(FEATURES).double(), z.T @ targets
    ).T
    everybody = [seated(k, select(LAST, "encoder"), MOMENTS) for k in PEOPLE]
    x, y = (torch.cat([getattr(c.data, n) for c in everybody]) for n in "xy")
    one = replace(everybody[0].data, inputs=x, labels=y, index=torch.arange(len(y)))
    at_one = SphereFed().moments(replace(seated("c0", select(LAST, "encoder"), MOMENTS), data=one))

    together = SphereFed().calibrated(Server({}), {"a": Upload(at_one, 1)}, MOMENTS, generator("x"))

    plain = torch.linalg.lstsq(z, targets).solution.T
    for w in (LAST["head.weight"], together.shared["head.weight"]):
        assert torch.allclose(z @ w.double().T, z @ exact.T, atol=1e-4)
        assert torch.allclose(z @ w.double().T, z @ plain.T, atol=2e-3)


def test_the_calibrated_classifier_fits_better() -> None:
    """C20-L3."""
    z, targets = pooled(select(LAST, "encoder"))

    errors = [
        F.mse_loss(z @ seated("c0", message).parts.head.weight.detach().double().T, targets)
        for message in (select(LAST, "encoder"), LAST)
    ]

    assert errors[1] < errors[0]


def test_c_and_d_come_once_after_the_last_round_and_cost_little() -> None:
    """Up go 8 · 9 / 2 + 8 · 4 numbers, down 8 · 4; in the rounds the encoder alone."""
    *usual, moments, classifier = ROUNDS

    assert [now.stage.name for now in ROUNDS if now.stage] == ["round"] * 3 + ["moments", "classifier"]
    assert moments.cohort == classifier.cohort == tuple(PEOPLE)
    assert set(moments.up.values()) == {4 * (36 + 32)}
    assert (set(classifier.down.values()), set(classifier.up.values())) == ({4 * 32}, {0})
    assert all(set(now.down.values()) == set(now.up.values()) == {ENCODER} for now in usual)


def test_without_calibration_the_classifier_is_as_built() -> None:
    rounds = history(place(SphereFed(calibrate="no")), number=2, join=Join())

    assert [now.stage.name for now in rounds if now.stage] == ["round"] * 2
    assert not select(rounds[-1].server.shared, "head")


# (e) who predicts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "stage"), [("generic", GENERIC), ("personal", PERSONAL)])
def test_e_everybody_predicts_with_the_calibrated_classifier(question: str, stage: Stage) -> None:
    client = seated("c1", SphereFed().message(ROUNDS[-1].server, "c1", stage), stage)
    x = client.data.x

    (predict,) = getattr(SphereFed(), question)(client).values()

    assert torch.equal(predict(x), direction(client.parts, x) @ LAST["head.weight"].T)


def test_a_newcomer_trains_its_encoder_on_the_same_loss() -> None:
    method = SphereFed(reduction="mean")
    client = seated("c1", LAST, WELCOME)

    method.welcome(client, 2)
    found = {n: t.clone() for n, t in client.parts.state_dict().items()}

    by_hand = seated("c1", LAST, WELCOME)
    by_hand.fit(method.loss, epochs=2)
    assert digest(found) == digest(by_hand.parts.state_dict())
    assert torch.equal(found["head.weight"], LAST["head.weight"])
    assert not torch.equal(found["encoder.first.weight"], LAST["encoder.first.weight"])
