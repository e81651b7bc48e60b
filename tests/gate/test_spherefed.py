"""SphereFed's sphere, its fixed classifier and its calibration, worked out."""

import pytest
import torch
from torch.nn import functional as F

from contracts import ENCODER
from gate.by_hand import run, seated
from gate.spherefed import SphereFed, direction, to_the_corner
from pluribus.errors import MethodError
from pluribus.state import select
from toy import CLASSES, FEATURES, INPUTS, PEOPLE, Net, place

ROUNDS = run("spherefed", number=3)


def pooled(shared):
    """Directions and targets of everybody's data, in float64."""
    at = place(SphereFed())
    z, y = [], []
    for k in PEOPLE:
        client = seated(at, k, message=shared)
        with torch.no_grad():
            z.append(direction(client.parts.eval(), client.data.x))
        y.append(client.data.y)
    return torch.cat(z).double(), F.one_hot(torch.cat(y), CLASSES).double()


def test_the_classifier_is_orthonormal_and_stays_at_home():
    """C20-L1, C20-L6."""
    client = seated(place(SphereFed()))
    w = client.parts.head.weight

    assert torch.allclose(w @ w.T, torch.eye(CLASSES), atol=1e-6)
    assert set(client.tensors()) == {"encoder.first.weight", "encoder.first.bias"}
    z = direction(client.parts, client.data.x)
    assert torch.allclose(z.norm(dim=1), torch.ones(len(z)), atol=1e-6)
    assert bool((client.parts.head(z).abs() <= 1 + 1e-6).all())


def test_the_loss_is_the_squared_error_of_the_corner():
    """C20-L4: ‖W z - e_y‖² = ‖W z‖² - 2 w_y·z + 1, a mean over batch and four classes."""
    client = seated(place(SphereFed()))
    x, y = client.data.x, client.data.y
    logits = client.parts.head(direction(client.parts, x))

    loss = to_the_corner(client.parts, x, y)

    by_hand = logits.square().sum(1) - 2 * logits.gather(1, y[:, None])[:, 0] + 1
    assert torch.allclose(loss, by_hand.mean() / CLASSES, atol=1e-6)


def test_calibration_is_ridge_regression_on_everybodys_data():
    """C20-L2.  Up go 8 · 9 / 2 + 8 · 4 numbers, down 8 · 4, once; before that only the encoder travelled."""
    *usual, calibrate, classifier = ROUNDS
    z, targets = pooled(select(calibrate.server.shared, "encoder"))
    a = z.T @ z

    exact = torch.linalg.solve(a + 1e-6 * a.trace() / FEATURES * torch.eye(FEATURES), z.T @ targets).T

    assert torch.allclose(calibrate.server.shared["head.weight"].double(), exact, atol=1e-3, rtol=1e-3)
    assert calibrate.cohort == classifier.cohort == tuple(PEOPLE)
    assert set(calibrate.up.values()) == {4 * (36 + 32)}
    assert (set(classifier.down.values()), set(classifier.up.values())) == ({4 * 32}, {0})
    assert all(set(now.down.values()) == set(now.up.values()) == {ENCODER} for now in usual)


def test_the_calibrated_classifier_fits_better():
    """C20-L3."""
    shared = ROUNDS[-1].server.shared
    z, targets = pooled(select(shared, "encoder"))

    errors = [
        F.mse_loss(
            z @ seated(place(SphereFed()), message=message).parts.head.weight.detach().double().T, targets
        )
        for message in (select(shared, "encoder"), shared)
    ]

    assert errors[1] < errors[0]


def test_everybody_predicts_with_the_calibrated_classifier():
    shared = ROUNDS[-1].server.shared
    client = seated(place(SphereFed()), "c1", message=shared)
    x = client.data.x

    scores = SphereFed().generic(client)["on the sphere"](x)

    assert torch.equal(scores, direction(client.parts, x) @ shared["head.weight"].T)


def test_more_classes_than_features_is_said():
    with pytest.raises(MethodError, match="as many features as classes; this network has 8 for 9"):
        SphereFed().build(Net().build((INPUTS,), 9))
