"""ResNet-18: against the published drawing, and under torchvision's names."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pluribus.errors import ModelError
from pluribus.models import ResNet18, from_torchvision
from pluribus.seeds import lent


def torchvision_names():
    """The names in torchvision's file, in its order."""
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    names = ["conv1.weight", *(f"bn1.{t}" for t in norm)]
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            for n in (1, 2):
                names += [
                    f"layer{layer}.{block}.conv{n}.weight",
                    *(f"layer{layer}.{block}.bn{n}.{t}" for t in norm),
                ]
            if layer > 1 and block == 0:
                names += [
                    f"layer{layer}.0.downsample.0.weight",
                    *(f"layer{layer}.0.downsample.1.{t}" for t in norm),
                ]
    return [*names, "fc.weight", "fc.bias"]


def published(state, x, *, stem):
    """The network as He et al. draw it, on torchvision's names, in evaluation."""

    def norm(x, name):
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, state[f"{name}.weight"], state[f"{name}.bias"])

    def conv(x, name, **how):
        return F.conv2d(x, state[f"{name}.weight"], **how)

    if stem == "7x7":
        x = F.max_pool2d(F.relu(norm(conv(x, "conv1", stride=2, padding=3), "bn1")), 3, stride=2, padding=1)
    else:
        x = F.relu(norm(conv(x, "conv1", padding=1), "bn1"))
    for layer, block in [(n, b) for n in (1, 2, 3, 4) for b in (0, 1)]:
        at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
        z = F.relu(norm(conv(x, f"{at}.conv1", stride=stride, padding=1), f"{at}.bn1"))
        z = norm(conv(z, f"{at}.conv2", padding=1), f"{at}.bn2")
        around = f"{at}.downsample.0.weight" in state
        x = F.relu(
            z + (norm(conv(x, f"{at}.downsample.0", stride=stride), f"{at}.downsample.1") if around else x)
        )
    return F.linear(x.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def moved_statistics(network):
    """Normalisation that does something: statistics and affine parameters away from 0 and 1."""
    with lent("statistics"), torch.no_grad():
        for m in network.modules():
            if isinstance(m, nn.BatchNorm2d):
                for tensor in (m.weight, m.bias, m.running_mean, m.running_var):
                    tensor.add_(torch.rand_like(tensor))
    return network.eval()


def as_in_torchvision(network):
    return dict(zip(torchvision_names(), network.state_dict().values(), strict=True))


@pytest.mark.parametrize("stem", ["7x7", "3x3"])
def test_it_computes_what_the_paper_draws(stem):
    network = moved_statistics(ResNet18(stem=stem).build((3, 32, 32), 10))
    x = torch.randn(2, 3, 32, 32)

    with torch.no_grad():
        z, drawn = network(x), published(as_in_torchvision(network), x, stem=stem)

    assert torch.allclose(z, drawn, rtol=1e-4, atol=1e-4)


def test_torchvisions_file_fills_it_completely_in_its_order():
    there = ResNet18().build((3, 32, 32), 10)
    here = ResNet18().build((3, 32, 32), 10)
    file = as_in_torchvision(there)

    state = from_torchvision(file)
    here.load_state_dict(state)

    assert len(file) == 122
    assert list(state) == list(here.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(here.parameters(), there.parameters(), strict=True))


@pytest.mark.parametrize("name", ["encoder.conv1.weight", "layer5.0.conv1.weight", "classifier.weight", ""])
def test_a_file_of_something_else_is_refused(name):
    with pytest.raises(ModelError, match=f"'{name}' is no tensor of torchvision's resnet18"):
        from_torchvision({name: torch.zeros(1)})


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (ResNet18(), [8, 4, 2, 1]),
        (ResNet18(strides=(1, 4)), [8, 4, 2, 1]),
        (ResNet18(stem="3x3"), [32, 16, 8, 4]),
    ],
)
def test_images_shrink_from_layer_to_layer(model, sizes):
    with torch.device("meta"):
        network, x = model.build((3, 32, 32), 10), torch.zeros(2, 3, 32, 32)

    seen = []
    for name, layer in network.encoder.named_children():
        x = layer(x)
        seen += [x.shape[-1]] if name.startswith("layer") else []

    assert seen == sizes


def test_strides_are_those_of_convolution_and_pooling_in_this_order():
    encoder = ResNet18(strides=(1, 4)).build((3, 32, 32), 10).encoder

    assert encoder.conv1.stride == (1, 1)
    assert encoder.maxpool.stride == 4


def test_convolutions_begin_with_hes_spread():
    """3 x 3 from 256 to 512 channels: standard deviation √(2 / (512 · 9)) = 0.020833."""
    network = ResNet18().build((3, 32, 32), 10)

    spread = float(network.encoder.layer4[0].conv1.weight.detach().std())

    assert abs(spread - 0.020833) < 0.0001
