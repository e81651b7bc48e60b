"""The catalogue: sizes as published, settings, smallest images, and what every model can do."""

import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pluribus import spelling
from pluribus.errors import ModelError, PluribusError, SettingError, UnknownName
from pluribus.models import MLP, MODELS, ConvNet, PFedPMCNN, ResNet18, describe, model
from pluribus.seeds import lent

GREY, SMALL, COLOUR, BIG = (1, 28, 28), (1, 8, 8), (3, 32, 32), (3, 64, 64)

# model, input, classes, parameters of the encoder, of the head, features
PUBLISHED = [
    ("convnet", GREY, 10, 573_578 - 1_930, 1_930, 192),
    ("convnet", GREY, 47, 580_719 - 9_071, 9_071, 192),
    ("convnet", COLOUR, 10, 797_962 - 1_930, 1_930, 192),
    ("convnet", COLOUR, 100, 815_332 - 19_300, 19_300, 192),
    ("convnet:2", GREY, 10, 1_664 + 102_464 + 393_600, 73_920 + 1_930, 384),
    ("convnet:3", GREY, 10, 1_664 + 102_464, 393_600 + 73_920 + 1_930, 1024),
    ("convnet:3", COLOUR, 10, 4_864 + 102_464, 614_784 + 73_920 + 1_930, 1600),
    ("fedrir-cnn", GREY, 10, 577_088, 582_218 - 577_088, 512),
    ("fedrir-cnn", COLOUR, 10, 873_600, 878_730 - 873_600, 512),
    ("fedrir-cnn", BIG, 10, 5_592_192, 5_597_322 - 5_592_192, 512),
    ("fedcrc-cnn", COLOUR, 10, 113_088, 2_570, 256),
    ("fedcrc-cnn", GREY, 10, 111_936, 650, 64),
    ("fedcrc-cnn", (1, 32, 32), 10, 111_936, 2_570, 256),
    ("fedcrc-cnn:gn", COLOUR, 10, 113_088, 2_570, 256),
    ("fedcrc-cnn:none", COLOUR, 10, 113_088 - 4 * 128, 2_570, 256),
    ("pfedpm-cnn", GREY, 10, 5_280 + 16_050, 510, 50),
    ("pfedpm-cnn:head_layers=2", GREY, 10, 5_280, 16_050 + 510, 320),
    ("pfedpm-cnn:kernel=3", GREY, 62, 24_332 - 51 * 62, 51 * 62, 50),
    ("pfedpm-cnn:kernel=3", (1, 128, 128), 62, 849_332 - 51 * 62, 51 * 62, 50),
    ("pfedpm-cnn:head_layers=2,kernel=3", (1, 128, 128), 62, 5_120, 844_212, 16_820),
    ("pfedpm-cnn:channels=18", GREY, 10, 260 + 10 * 18 * 25 + 18 + 288 * 50 + 50, 510, 50),
    ("pfedpm-cnn:channels=22", GREY, 10, 260 + 10 * 22 * 25 + 22 + 352 * 50 + 50, 510, 50),
    ("resnet18", COLOUR, 7, 11_176_512, 3_591, 512),
    ("resnet18", (3, 224, 224), 65, 11_176_512, 33_345, 512),
    ("resnet18:strides=1+4", COLOUR, 10, 11_176_512, 5_130, 512),
    ("resnet18:stem=3x3", COLOUR, 100, 11_168_832, 51_300, 512),
    ("pfllib-cnn", GREY, 10, 582_026 - 5_130, 5_130, 512),
    ("pfllib-cnn:2", GREY, 10, 832 + 51_264, 524_800 + 5_130, 1024),
    ("pfl-cnn", COLOUR, 10, 1_626_442 - 1_290, 1_290, 128),
    ("pfl-cnn:2", COLOUR, 10, 896 + 18_496, 1_605_760 + 1_290, 12_544),
    ("mlp", SMALL, 10, 65 * 200, 2_010, 200),
    ("mlp:200+100", SMALL, 10, 65 * 200 + 201 * 100, 1_010, 100),
    ("mlp:200+100,head_layers=3", SMALL, 10, 0, 65 * 200 + 201 * 100 + 1_010, 64),
    ("logistic", SMALL, 10, 0, 650, 64),
]

EVERY = [
    *MODELS,
    "convnet:3",
    "fedcrc-cnn:gn",
    "fedcrc-cnn:none",
    "pfedpm-cnn:2,22",
    "mlp:20+10",
    "resnet18:3x3",
    "convnet:2,12-plain",
    "mlp:20+10,projector=8+6",
    "pfedpm-cnn:projector=linear",
]
SETTINGS = [
    "convnet:head_layers=0", "convnet:4", "pfllib-cnn:3", "pfl-cnn:0", "pfedpm-cnn:3", "pfedpm-cnn:kernel=4",
    "pfedpm-cnn:channels=0", "fedcrc-cnn:layer", "resnet18:5x5", "resnet18:strides=2", "resnet18:strides=0+2",
    "resnet18:stem=3x3,strides=1+4", "mlp:hidden=", "mlp:0", "mlp:20+-1", "mlp:20,head_layers=3", "mlp:ten",
    "resnet18:projector=0", "convnet:projector=wide", "pfllib-cnn:projector=plain", "pfl-cnn:projector=8+",
    "fedrir-cnn:projector=-plain", "fedcrc-cnn:projector=8+linear", "pfedpm-cnn:projector=1000001",
    "efficientnet-lite0:projector=8-bare", "mlp:projector=08",
]  # fmt: skip


@pytest.mark.parametrize("row", PUBLISHED, ids=str)
def test_sizes_are_the_published_ones(row):
    text, shape, classes, encoder, head, features = row

    d = describe(model(text), shape, classes)

    assert [(part.name, part.parameters) for part in d.parts] == [("encoder", encoder), ("head", head)]
    assert (d.parameters, d.features) == (encoder + head, features)


@pytest.mark.parametrize(
    ("shape", "classes", "sizes"),
    [
        (GREY, 10, [1_664, 102_464, 393_600, 73_920, 1_930]),
        (COLOUR, 100, [4_864, 102_464, 614_784, 73_920, 19_300]),
    ],
)
def test_convnet_layers_have_the_published_sizes(shape, classes, sizes):
    network = ConvNet().build(shape, classes)

    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]

    assert [layer.weight.numel() + layer.bias.numel() for layer in layers] == sizes


@pytest.mark.parametrize("text", EVERY)
def test_every_model_learns_in_all_its_parameters_and_gives_flat_features(text):
    with lent("weights"):
        network = model(text).build((1, 16, 18), 3)
    x, y = torch.randn(4, 1, 16, 18), torch.tensor([0, 1, 2, 0])

    F.cross_entropy(network(x), y).backward()

    assert network.encoder(x).shape == (4, network.features)
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in network.parameters())


@pytest.mark.parametrize("text", EVERY)
def test_every_model_is_a_value_that_can_be_spelled_and_sent(text):
    value = model(text)

    assert model(spelling.write(value, MODELS)) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(value) == hash(model(text))


@pytest.mark.parametrize("text", MODELS)
def test_the_global_generator_alone_decides_the_first_weights(text):
    def weights(seed):
        with lent(seed):
            return torch.cat([p.detach().flatten() for p in model(text).build((1, 16, 16), 3).parameters()])

    first, again, other = weights(1), weights(1), weights(2)

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("text", EVERY)
def test_channels_last_and_the_usual_order_give_the_same_numbers(text):
    network = model(text).build((3, 16, 16), 3).eval()
    x = torch.randn(4, 3, 16, 16)

    usual = network(x)
    last = network.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))

    assert torch.allclose(usual, last, rtol=1e-4, atol=1e-5)


def test_an_unknown_model_is_named_with_what_there_is():
    with pytest.raises(UnknownName, match="no model 'covnet'; did you mean 'convnet'"):
        model("covnet")


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_that_cannot_be_are_refused(text):
    with pytest.raises(SettingError, match=text.partition(":")[0]):
        model(text)


@pytest.mark.parametrize(
    ("text", "smallest"),
    [
        ("convnet", 16), ("pfllib-cnn", 16), ("fedrir-cnn", 16), ("fedcrc-cnn", 16), ("pfedpm-cnn", 16),
        ("pfedpm-cnn:kernel=3", 14), ("pfl-cnn", 6),
    ],
)  # fmt: skip
def test_the_smallest_image_works_and_a_smaller_one_is_refused(text, smallest):
    network = model(text).build((1, smallest, smallest), 3)

    assert network(torch.zeros(2, 1, smallest, smallest)).shape == (2, 3)
    with pytest.raises(
        ModelError, match=f"at least {smallest} x {smallest}; got {smallest} x {smallest - 1}"
    ):
        model(text).build((1, smallest, smallest - 1), 3)


@pytest.mark.parametrize(
    ("text", "size"), [("mlp", 1), ("logistic", 1), ("resnet18", 1), ("resnet18:3x3", 1), ("pfl-cnn", 6)]
)
def test_what_the_refusal_proposes_works(text, size):
    with pytest.raises(ModelError, match=text.partition(":")[0]):
        ConvNet().build((1, 8, 8), 3)

    assert model(text).build((1, size, size), 3)(torch.zeros(2, 1, size, size)).shape == (2, 3)


@pytest.mark.parametrize("text", MODELS)
def test_every_model_refuses_impossible_inputs(text):
    for shape, classes in [((28, 28), 10), ((0, 28, 28), 10), (GREY, 1)]:
        with pytest.raises(ModelError):
            model(text).build(shape, classes)


def test_pooling_before_relu_gives_the_same_bits_and_gradients():
    x = torch.randn(3, 4, 8, 8)
    before, after = x.clone().requires_grad_(), x.clone().requires_grad_()

    a, b = F.relu(F.max_pool2d(before, 2)), F.max_pool2d(F.relu(after), 2)
    a.square().sum().backward()
    b.square().sum().backward()

    assert torch.equal(a, b)
    assert torch.equal(before.grad, after.grad)


def published_convnet(n, x):
    x = F.max_pool2d(F.relu(F.conv2d(x, *weights(n.encoder.conv1))), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, *weights(n.encoder.conv2))), 2).flatten(1)
    x = F.relu(F.linear(x, *weights(n.encoder.fc1)))
    x = F.relu(F.linear(x, *weights(n.encoder.fc2)))
    return F.linear(x, *weights(n.head))


def published_pfllib_cnn(n, x):
    x = F.max_pool2d(F.relu(F.conv2d(x, *weights(n.encoder.conv1))), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, *weights(n.encoder.conv2))), 2).flatten(1)
    return F.linear(F.relu(F.linear(x, *weights(n.encoder.fc1))), *weights(n.head))


def published_fedrir_cnn(n, x):
    e = n.encoder
    x = F.max_pool2d(F.relu(e.bn1(F.conv2d(x, *weights(e.conv1)))), 2)
    x = F.max_pool2d(F.relu(e.bn2(F.conv2d(x, *weights(e.conv2)))), 2).flatten(1)
    return F.linear(F.linear(x, *weights(e.fc1)), *weights(n.head))


def published_fedcrc_cnn(n, x):
    for block in range(1, 5):
        conv, bn = getattr(n.encoder, f"conv{block}"), getattr(n.encoder, f"bn{block}")
        x = F.conv2d(x, *weights(conv), padding=1)
        x = F.max_pool2d(F.relu(F.batch_norm(x, None, None, *weights(bn), training=True)), 2)
    return F.linear(x.flatten(1), *weights(n.head))


def published_pfedpm_cnn(n, x):
    x = F.relu(F.max_pool2d(F.conv2d(x, *weights(n.encoder.conv1)), 2))
    x = F.relu(F.max_pool2d(F.conv2d(x, *weights(n.encoder.conv2)), 2)).flatten(1)
    return F.linear(F.relu(F.linear(x, *weights(n.encoder.fc1))), *weights(n.head.fc2))


def published_pfl_cnn(n, x):
    x = F.relu(F.conv2d(x, *weights(n.encoder.conv1)))
    x = F.max_pool2d(F.relu(F.conv2d(x, *weights(n.encoder.conv2))), 2).flatten(1)
    return F.linear(F.relu(F.linear(x, *weights(n.encoder.fc1))), *weights(n.head.fc2))


def published_mlp(n, x):
    x = F.relu(F.linear(x.flatten(1), *weights(n.encoder.fc1)))
    return F.linear(F.relu(F.linear(x, *weights(n.encoder.fc2))), *weights(n.head))


def published_logistic(n, x):
    return F.linear(x.flatten(1), *weights(n.head))


def weights(layer):
    return layer.weight, layer.bias


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("convnet", published_convnet),
        ("pfllib-cnn", published_pfllib_cnn),
        ("fedrir-cnn", published_fedrir_cnn),
        ("fedcrc-cnn", published_fedcrc_cnn),
        ("pfedpm-cnn", published_pfedpm_cnn),
        ("pfl-cnn", published_pfl_cnn),
        ("mlp:20+10", published_mlp),
        ("logistic", published_logistic),
    ],
)
def test_the_network_computes_what_the_paper_draws(text, published):
    network = model(text).build(COLOUR, 10).eval()
    x = torch.randn(4, *COLOUR)

    z = network(x)

    assert torch.allclose(z, published(network, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "encoder", "head"),
    [
        ("pfedpm-cnn", [0.5], [0.5]),
        ("pfedpm-cnn:2", [0.5], [0.5]),
        ("pfl-cnn", [0.25], [0.5]),
        ("convnet", [], []),
    ],
)
def test_dropout_stands_where_the_paper_has_it(text, encoder, head):
    network = model(text).build(GREY, 10)

    def rates(part):
        return [m.p for m in part.modules() if isinstance(m, nn.Dropout | nn.Dropout2d)]

    assert (rates(network.encoder), rates(network.head)) == (encoder, head)


def test_pfedpm_drops_whole_channels_and_keeps_its_prototypes_free_of_the_last_dropout():
    network = PFedPMCNN().build(GREY, 10)

    names = [name for name, _ in network.encoder.named_children()]

    assert isinstance(network.encoder.dropout1, nn.Dropout2d)
    assert names.index("dropout1") == names.index("conv2") + 1
    assert names[-1] == "relu3"
    assert [name for name, _ in network.head.named_children()] == ["dropout2", "fc2"]


def test_different_clients_of_pfedpm_have_features_of_one_size():
    small, large = (PFedPMCNN(channels=c).build(GREY, 10) for c in (18, 22))
    slow, fast = (ResNet18(strides=s).build(COLOUR, 10) for s in ((1, 4), (2, 2)))

    assert small.features == large.features == 50
    assert slow.features == fast.features == 512


def test_fedrir_features_may_be_negative():
    network = model("fedrir-cnn").build(GREY, 10)

    z = network.encoder(torch.randn(8, *GREY))

    assert bool((z < 0).any())


def test_fedrir_keeps_running_statistics_of_both_normalisations():
    network = model("fedrir-cnn").build(GREY, 10)

    names = [name for name, _ in network.named_buffers() if name.endswith("running_var")]

    assert names == ["encoder.bn1.running_var", "encoder.bn2.running_var"]


def test_batch_statistics_make_a_prediction_depend_on_its_batch_and_leave_nothing_to_average():
    network = model("fedcrc-cnn").build(COLOUR, 10).eval()
    x = torch.randn(4, *COLOUR)

    alone, together = network(x[:2]), network(x)[:2]

    assert not torch.allclose(alone, together, rtol=1e-3)
    assert not list(network.buffers())


@pytest.mark.parametrize("norm", ["gn", "none"])
def test_without_batch_statistics_a_prediction_stands_alone(norm):
    network = model(f"fedcrc-cnn:{norm}").build(COLOUR, 10)
    x = torch.randn(4, *COLOUR)

    assert torch.allclose(network(x[:2]), network(x)[:2], rtol=1e-4, atol=1e-5)


def test_group_norm_has_sixteen_channels_a_group():
    network = model("fedcrc-cnn:gn").build(COLOUR, 10)

    groups = [m.num_groups for m in network.modules() if isinstance(m, nn.GroupNorm)]

    assert groups == [4] * 4


def test_pfl_weights_begin_uniformly_within_glorots_bound():
    """Between 12,544 inputs and 128 outputs the bound is √(6 / 12,672) = 0.021760."""
    network = model("pfl-cnn").build(COLOUR, 10)

    largest = float(network.encoder.fc1.weight.detach().abs().max())

    assert 0.9999 * 0.021760 < largest <= 0.021760 * 1.0001
    assert float(network.encoder.conv1.weight.detach().abs().max()) <= math.sqrt(6 / (27 + 288))


def test_the_state_names_layers_by_part_and_layer():
    network = ConvNet(head_layers=2).build(GREY, 10)

    names = {name.removesuffix(".weight").removesuffix(".bias") for name in network.state_dict()}

    assert names == {"encoder.conv1", "encoder.conv2", "encoder.fc1", "head.fc2", "head.fc3"}


def test_every_setting_is_a_plain_value_from_python_too():
    for build in (lambda: ConvNet(head_layers=9), lambda: MLP(hidden=()), lambda: ResNet18(strides=(2,))):
        with pytest.raises(PluribusError):
            build()


def test_every_model_can_be_had_by_its_name_alone():
    assert {type(model(name)) for name in MODELS} == set(MODELS.values())
