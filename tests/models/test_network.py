"""Networks: parts in order, the head last, and everything else refused."""

import copy
import pickle

import pytest
import torch
from torch import nn

from pluribus.errors import ModelError
from pluribus.models import Network


def linear_parts(**changed):
    parts = {"encoder": nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), "head": nn.Linear(3, 2)}
    return {name: module for name, module in (parts | changed).items() if module is not None}


def small(**changed):
    return Network(linear_parts(**changed), shape=(1, 2, 2), classes=2)


def test_the_parts_are_applied_in_order():
    network = small()
    x = torch.randn(5, 1, 2, 2)

    z = network(x)

    assert torch.equal(z, network.head(network.encoder(x)))


def test_a_part_may_stand_between_encoder_and_head():
    parts = {"encoder": nn.Flatten(), "projector": nn.Linear(4, 7), "head": nn.Linear(7, 2)}

    network = Network(parts, shape=(1, 2, 2), classes=2)

    assert list(network.parts) == ["encoder", "projector", "head"]
    assert network.features == 7


def test_tensors_are_named_by_their_part():
    names = list(small().state_dict())

    assert names == ["encoder.1.weight", "encoder.1.bias", "head.weight", "head.bias"]


def test_features_are_counted_flattened():
    parts = {"encoder": nn.Conv2d(1, 6, 2), "head": nn.Sequential(nn.Flatten(), nn.Linear(6 * 3 * 4, 2))}

    network = Network(parts, shape=(1, 4, 5), classes=2)

    assert network.features == 72


def test_counting_features_moves_no_statistics_and_no_mode():
    norm = nn.BatchNorm1d(3)
    half = nn.Dropout().eval()

    network = small(encoder=nn.Sequential(nn.Flatten(), nn.Linear(4, 3), norm, half))

    assert norm.num_batches_tracked == 0
    assert (network.training, norm.training, half.training) == (True, True, False)


def test_making_a_network_draws_no_random_number():
    parts = linear_parts(encoder=nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout()))
    before = torch.get_rng_state()

    Network(parts, shape=(1, 2, 2), classes=2)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_of_another_precision_works():
    parts = {"encoder": nn.Flatten(), "head": nn.Linear(4, 2).double()}

    assert Network(parts, shape=(1, 2, 2), classes=2).features == 4


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_a_copy_has_the_same_numbers_and_sizes(clone):
    network = small()

    twin = clone(network)

    assert (twin.features, twin.classes, twin.shape) == (3, 2, (1, 2, 2))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), twin.parameters(), strict=True))


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 0), (1, 2.0, 2), (True, 2, 2), ()])
def test_an_impossible_shape_is_refused(shape):
    with pytest.raises(ModelError, match="channels, height, width"):
        Network(linear_parts(), shape=shape, classes=2)


@pytest.mark.parametrize("classes", [1, 0, -3, 2.0, True])
def test_fewer_than_two_classes_are_refused(classes):
    with pytest.raises(ModelError, match="at least 2 classes"):
        Network(linear_parts(), shape=(1, 2, 2), classes=classes)


@pytest.mark.parametrize(
    "names", [[], ["head"], ["body", "head"], ["head", "encoder"], ["encoder", "classifier"]]
)
def test_parts_that_methods_would_not_find_are_refused(names):
    with pytest.raises(ModelError, match="begin with 'encoder' and end with 'head'"):
        Network({name: nn.Identity() for name in names}, shape=(1, 2, 2), classes=2)


@pytest.mark.parametrize("name", ["shape", "parts", "a.b", "", "forward"])
def test_a_part_with_an_impossible_name_is_refused(name):
    parts = {"encoder": nn.Flatten(), name: nn.Identity(), "head": nn.Linear(4, 2)}

    with pytest.raises(ModelError, match=f"a part cannot be called '{name}'"):
        Network(parts, shape=(1, 2, 2), classes=2)


def test_something_that_is_no_module_is_refused():
    with pytest.raises(ModelError, match="cannot be called 'head'"):
        small(head="linear")


def test_a_head_for_other_classes_is_refused():
    with pytest.raises(ModelError, match=r"the head gives \(5,\) numbers an example; it should give \(2,\)"):
        small(head=nn.Linear(3, 5))


def test_a_part_that_does_not_fit_is_named():
    with pytest.raises(ModelError, match=r"the part 'head' cannot take what reaches it, \(3,\) an example"):
        small(head=nn.Linear(4, 2))


def test_a_part_that_gives_several_tensors_is_refused():
    with pytest.raises(ModelError, match="the part 'encoder' gives a tuple"):
        small(encoder=nn.Sequential(nn.Flatten(2), nn.LSTM(4, 3)))


def test_a_tensor_in_two_parts_is_refused():
    tied = nn.Linear(4, 4)
    parts = {"encoder": nn.Sequential(nn.Flatten(), tied), "projector": tied, "head": nn.Linear(4, 2)}

    with pytest.raises(ModelError, match=r"'projector.weight' is in the part 'encoder' too"):
        Network(parts, shape=(1, 2, 2), classes=2)


def test_a_module_that_is_two_parts_is_refused():
    same = nn.Identity()
    parts = {"encoder": nn.Flatten(), "projector": same, "again": same, "head": nn.Linear(4, 2)}

    with pytest.raises(ModelError, match="are the same module"):
        Network(parts, shape=(1, 2, 2), classes=2)
