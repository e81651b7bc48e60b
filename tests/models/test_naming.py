"""Naming the parts of a network of one's own: everything once, and nothing lost between."""

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pluribus.errors import ModelError
from pluribus.models import parts

SHAPE = (3, 8, 8)


class Own(nn.Module):
    """A user's network; `how` is what its forward does between its modules."""

    def __init__(self, how="modules"):
        super().__init__()
        self.how = how
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.drop = nn.Dropout()
        self.fc = nn.Linear(36, 5)

    def forward(self, x):
        z = self.pool(self.features(x))
        z = F.relu(z - 0.5) if self.how == "relu" else z
        z = self.flatten(z)
        z = F.dropout(z, training=self.training) if self.how == "dropout" else self.drop(z)
        logits = self.fc(z)
        return (logits, z) if self.how == "pair" else logits


ENCODER = ["features", "pool", "flatten"]


def named(network, encoder=ENCODER, head=("drop", "fc"), **more):
    return parts(network, encoder=encoder, head=head, shape=SHAPE, classes=5, **more)


def test_the_parts_compute_what_the_network_computed():
    own = Own()

    network = named(own)

    x = torch.randn(6, *SHAPE)
    assert torch.equal(network.eval()(x), own.eval()(x))
    assert (network.features, network.classes, list(network.parts)) == (36, 5, ["encoder", "head"])


def test_the_modules_are_the_networks_own():
    own = Own()

    network = named(own)

    assert {id(p) for p in network.parameters()} == {id(p) for p in own.parameters()}


def test_several_modules_keep_their_names_and_one_alone_stands_for_itself():
    own = nn.Sequential(OrderedDict(flat=nn.Flatten(), a=nn.Linear(192, 6), fc=nn.Linear(6, 5)))

    names = list(parts(own, encoder=["flat", "a"], head="fc", shape=SHAPE, classes=5).state_dict())

    assert names == ["encoder.a.weight", "encoder.a.bias", "head.weight", "head.bias"]


def test_paths_may_lead_inside_and_a_module_without_tensors_may_stand_twice():
    own = nn.Module()
    own.trunk = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Linear(6, 5))
    own.relu = nn.ReLU()
    own.forward = lambda x: own.relu(own.trunk[2](own.relu(own.trunk[1](own.trunk[0](x)))))
    encoder = ["trunk.0", "trunk.1", "relu"]

    network = parts(own, encoder=encoder, head=["trunk.2", "relu"], shape=SHAPE, classes=5)
    twice = parts(
        own, encoder=["trunk.0"], head=["trunk.1", "relu", "trunk.2", "relu"], shape=SHAPE, classes=5
    )

    assert [name for name, _ in network.encoder.named_children()] == ["trunk_0", "trunk_1", "relu"]
    assert list(dict(twice.named_modules(remove_duplicate=False)))[3:] == [
        "head.trunk_1", "head.relu_1", "head.trunk_2", "head.relu_3",
    ]  # fmt: skip


def test_a_network_can_be_put_together_from_modules():
    encoder, head = nn.Flatten(), nn.Linear(192, 5)

    network = parts(encoder=encoder, head=head, shape=SHAPE, classes=5)

    assert network.head is head
    assert network.features == 192


def test_naming_leaves_the_network_as_it_was():
    own = Own()
    own.drop.eval()
    state = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    generator = torch.get_rng_state()

    named(own)

    assert all(torch.equal(tensor, state[name]) for name, tensor in own.state_dict().items())
    assert (own.training, own.features.training, own.drop.training) == (True, True, False)
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_module_left_out_is_named():
    with pytest.raises(ModelError, match=r"no part has 'features.0.weight', 'features.0.bias'.* and 3 more"):
        named(Own(), encoder=["pool", "flatten"])


def test_statistics_left_out_are_named():
    own = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192, affine=False), nn.Linear(192, 5))

    with pytest.raises(ModelError, match=r"no part has '1.running_mean'"):
        parts(own, encoder=["0"], head=["2"], shape=SHAPE, classes=5)


@pytest.mark.parametrize("encoder", [["features", "features", *ENCODER[1:]], ["features.0", *ENCODER]])
def test_a_module_named_twice_is_refused(encoder):
    with pytest.raises(ModelError, match="more than once"):
        named(Own(), encoder=encoder)


def test_a_module_in_two_parts_is_refused():
    with pytest.raises(ModelError, match=r"'fc.weight', 'fc.bias' would be in the parts more than once"):
        named(Own(), projector=["fc"])


def test_an_unknown_path_is_named_with_what_there_is():
    with pytest.raises(ModelError, match=r"no module 'fetures'\s+its modules are: 'features', 'pool'"):
        named(Own(), encoder=["fetures"])


def test_a_relu_between_the_modules_is_missed():
    with pytest.raises(ModelError, match="when predicting, the parts in order do not compute"):
        named(Own("relu"))


def test_a_dropout_between_the_modules_is_missed():
    with pytest.raises(ModelError, match="when training, the parts in order do not compute"):
        named(Own("dropout"), head=["fc"])


def test_a_flatten_left_out_is_missed():
    with pytest.raises(ModelError, match="the part 'head' cannot take what reaches it"):
        named(Own(), encoder=["features", "pool"])


def test_another_order_is_missed():
    square = nn.Sequential(
        OrderedDict(f=nn.Flatten(), a=nn.Linear(192, 192), b=nn.Linear(192, 192), c=nn.Linear(192, 5))
    )

    with pytest.raises(ModelError, match="or the order differs"):
        parts(square, encoder=["f", "b", "a"], head=["c"], shape=SHAPE, classes=5)


def test_a_network_that_gives_more_than_one_tensor_is_refused():
    with pytest.raises(ModelError, match="the network gives a tuple"):
        named(Own("pair"))


@pytest.mark.parametrize("wrong", [[], 3, None, [1], nn.Linear(1, 1)])
def test_paths_of_a_wrong_type_are_refused(wrong):
    with pytest.raises(ModelError, match=r"the part 'encoder' is .* it should list paths"):
        named(Own(), encoder=wrong)


def test_paths_without_a_network_are_refused():
    with pytest.raises(ModelError, match=r"without a network it should be a module"):
        parts(encoder=["features"], head=["fc"], shape=SHAPE, classes=5)


def test_a_network_of_another_precision_can_be_named():
    assert named(Own().double()).head.fc.weight.dtype == torch.float64
