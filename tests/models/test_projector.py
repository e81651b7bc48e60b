"""The projector between encoder and head: DualFed's table 5, for every model that has an encoder."""

import pytest
import torch
from torch import nn

from pluribus.models import MODELS, describe, model
from pluribus.seeds import lent

COLOUR = (3, 32, 32)
TABLE_5 = [  # after 512 features: linear in · out + out, and 2 for each normalised number
    ("64", 512 * 64 + 64 + 2 * 64 + 64 * 512 + 512 + 2 * 512, 67_264),
    ("128", 512 * 128 + 128 + 2 * 128 + 128 * 512 + 512 + 2 * 512, 132_992),
    ("256", 512 * 256 + 256 + 2 * 256 + 256 * 512 + 512 + 2 * 512, 264_448),
    ("512", 512 * 512 + 512 + 2 * 512 + 512 * 512 + 512 + 2 * 512, 527_360),
    ("256+256", 264_448 + 256 * 256 + 256 + 2 * 256, 330_752),
    ("256-plain", 512 * 256 + 256 + 256 * 512 + 512, 262_912),
    ("linear", 512 * 512 + 512 + 2 * 512, 263_680),
    ("linear-plain", 512 * 512 + 512, 262_656),
]


def built(text, classes=7):
    with lent("projector"):
        return model(text).build(COLOUR, classes)


@pytest.mark.parametrize(("projector", "by_hand", "published"), TABLE_5)
def test_its_sizes_are_the_published_ones(projector, by_hand, published):
    found = describe(model(f"resnet18:projector={projector}"), COLOUR, 7)

    assert by_hand == published
    assert [(p.name, p.parameters) for p in found.parts] == [
        ("encoder", 11_176_512),
        ("projector", published),
        ("head", 3_591),
    ]
    assert found.features == 512


@pytest.mark.parametrize(("classes", "head"), [(7, 3_591), (10, 5_130), (65, 33_345)])
def test_the_head_behind_it_is_the_same(classes, head):
    found = describe(model("resnet18:projector=256"), COLOUR, classes)

    assert found.parts[-1].parameters == head == 512 * classes + classes


@pytest.mark.parametrize(
    ("projector", "layers"),
    [
        ("256", [nn.Linear, nn.ReLU, nn.BatchNorm1d, nn.Linear, nn.BatchNorm1d]),
        ("256+256", [nn.Linear, nn.ReLU, nn.BatchNorm1d] * 2 + [nn.Linear, nn.BatchNorm1d]),
        ("256-plain", [nn.Linear, nn.ReLU, nn.Linear]),
        ("linear", [nn.Linear, nn.BatchNorm1d]),
    ],
)
def test_its_layers_stand_in_the_published_order(projector, layers):
    network = built(f"resnet18:projector={projector}")

    assert [type(layer) for layer in network.projector] == layers


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"logistic"}))
def test_every_model_with_an_encoder_can_have_one(name):
    found = describe(model(f"{name}:projector=12"), COLOUR, 7)

    assert [part.name for part in found.parts] == ["encoder", "projector", "head"]
    assert found.features == describe(model(name), COLOUR, 7).features


@pytest.mark.parametrize("name", ["resnet18", "pfl-cnn:2", "mlp:20+10"])
def test_encoder_and_head_begin_as_they_would_without_it(name):
    bare = built(name).state_dict()
    behind = built(f"{name}{',' if ':' in name else ':'}projector=12").state_dict()

    assert all(torch.equal(tensor, behind[tensor_name]) for tensor_name, tensor in bare.items())


def test_the_network_is_head_of_projector_of_encoder():
    network = built("resnet18:projector=256").eval()
    x = torch.randn(2, *COLOUR)

    u = network.projector(network.encoder(x))

    assert u.shape == (2, 512)
    assert torch.equal(network(x), network.head(u))


def test_weights_from_a_file_leave_it_as_it_began(tmp_path):
    names = {f"head.{n}": f"fc.{n}" for n in ("weight", "bias")}
    other = {n: t + 1 for n, t in built("resnet18").state_dict().items()}
    file = {names.get(n, n.removeprefix("encoder.")): t for n, t in other.items()}
    torch.save(file, tmp_path / "resnet18.pth")

    begun = built("resnet18:projector=12").state_dict()
    loaded = built(f"resnet18:projector=12,weights={tmp_path / 'resnet18.pth'}").state_dict()

    assert all(torch.equal(tensor, loaded[name]) for name, tensor in begun.items() if "projector" in name)
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in other.items())
