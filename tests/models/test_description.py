"""Descriptions: sizes, batch normalisation, dropout and the cost of a prediction."""

import msgspec
import pytest
import torch
from torch import nn

from pluribus.models import (
    DescribedPart,
    describe,
    describe_network,
    has_batch_norm,
    has_dropout,
    model,
    multiply_adds,
    parts,
)

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def test_a_description_in_full():
    """784·20 + 20 parameters and 784·20 multiply-adds in the encoder, 20·10 + 10 and 20·10 in the head.

    784 numbers leave the flattening, 20 the layer, 20 ReLU and 10 the head.
    """
    d = describe(model("mlp:20"), GREY, 10)

    assert d.parts == (
        DescribedPart("encoder", 15_700, False, False),
        DescribedPart("head", 210, False, False),
    )
    assert (d.shape, d.classes, d.features, d.parameters, d.multiply_adds) == (GREY, 10, 20, 15_910, 15_880)
    assert d.activations == 784 + 20 + 20 + 10


@pytest.mark.parametrize(
    ("text", "batch_norm", "dropout"),
    [
        ("convnet", [False, False], [False, False]),
        ("fedrir-cnn", [True, False], [False, False]),
        ("fedcrc-cnn", [True, False], [False, False]),
        ("fedcrc-cnn:gn", [False, False], [False, False]),
        ("pfedpm-cnn", [False, False], [True, True]),
        ("resnet18", [True, False], [False, False]),
    ],
)
def test_batch_normalisation_and_dropout_are_told(text, batch_norm, dropout):
    d = describe(model(text), COLOUR, 10)

    assert [part.batch_norm for part in d.parts] == batch_norm
    assert [part.dropout for part in d.parts] == dropout


@pytest.mark.parametrize(
    ("text", "shape", "millions"),
    [
        ("fedrir-cnn", GREY, 4.27),
        ("fedrir-cnn", COLOUR, 7.82),
        ("fedrir-cnn", (3, 64, 64), 48.8),
        ("convnet", GREY, 7.94),
        ("convnet", COLOUR, 14.7),
        ("fedcrc-cnn", GREY, 9.82),
        ("fedcrc-cnn", COLOUR, 14.2),
        ("pfedpm-cnn", GREY, 0.48),
        ("resnet18", COLOUR, 37.0),
        ("resnet18:3x3", COLOUR, 555),
        ("resnet18", (3, 224, 224), 1810),
        ("pfllib-cnn", GREY, 25.6 / 6),
    ],
)
def test_a_prediction_costs_the_known_multiply_adds(text, shape, millions):
    d = describe(model(text), shape, 10)

    assert d.multiply_adds / 1e6 == pytest.approx(millions, rel=0.005)


def test_multiply_adds_by_hand():
    """6·6 places · 2 channels · 3·3 weights · 3 inputs = 1,944 and 72·4 = 288 in the head, biases free."""
    encoder, head = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten()), nn.Linear(72, 4)
    network = parts(encoder=encoder, head=head, shape=(3, 8, 8), classes=4)

    assert multiply_adds(network) == 1_944 + 288


def test_counting_leaves_no_trace():
    network = model("fedrir-cnn").build(GREY, 10)
    network.encoder.bn1.eval()

    multiply_adds(network)

    assert (network.training, network.encoder.bn1.training) == (True, False)
    assert network.encoder.bn2.num_batches_tracked == 0
    assert not any(m._forward_hooks for m in network.modules())


def test_describing_a_model_draws_no_random_number():
    before = torch.get_rng_state()

    describe(model("pfedpm-cnn"), GREY, 10)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_live_network_is_described_like_its_model():
    value = model("fedcrc-cnn")

    assert describe_network(value.build(COLOUR, 10)) == describe(value, COLOUR, 10)


def test_a_description_can_be_written_as_json():
    d = describe(model("logistic"), (1, 8, 8), 10)

    written = msgspec.json.decode(msgspec.json.encode(d))

    assert written["parts"][1] == {"name": "head", "parameters": 650, "batch_norm": False, "dropout": False}


def test_a_module_may_be_asked_alone():
    network = model("pfedpm-cnn").build(GREY, 10)

    assert (has_batch_norm(network), has_dropout(network)) == (False, True)
