"""Class means of features, and their means over clients, worked out."""

import pytest
import torch
from torch import nn

from pluribus import prototypes
from pluribus.errors import MethodError
from pluribus.losses import prototype_distance
from pluribus.methods.local import Local
from pluribus.stage import PERSONAL
from pluribus.turn import Turn
from toy import PEOPLE, place


def rows(classes, vectors, counts=None):
    made = {"class": torch.tensor(classes), "prototype": torch.tensor(vectors)}
    return made | ({} if counts is None else {"count": torch.tensor(counts)})


def as_dict(found, name="prototype"):
    return dict(zip(found["class"].tolist(), found[name].tolist(), strict=True))


def test_a_prototype_is_the_mean_feature_of_its_class():
    """Class 3: (1 + 5) / 2 = 3 and (2 + 0) / 2 = 1; class 0 has one example."""
    found = prototypes.of_features(
        torch.tensor([[1.0, 2.0], [7.0, 7.0], [5.0, 0.0]]), torch.tensor([3, 0, 3])
    )

    assert as_dict(found) == {0: [7.0, 7.0], 3: [3.0, 1.0]}
    assert as_dict(found, "count") == {0: 1, 3: 2}


def test_a_feature_that_is_a_map_is_a_row_of_numbers():
    found = prototypes.of_features(torch.arange(8.0).view(1, 2, 2, 2), torch.tensor([1]))

    assert as_dict(found) == {1: list(range(8))}


def test_prototypes_of_bfloat16_are_float32():
    assert (
        prototypes.of_features(torch.ones(1, 2).bfloat16(), torch.tensor([0]))["prototype"].dtype
        == torch.float32
    )


def test_over_all_data_there_is_no_dropout():
    client = place(Local()).seat(Turn(0, PERSONAL, "c0", {}, 0, {}))
    features = client.parts.eval().features(client.data.x).detach()
    client.parts["encoder"] = nn.Sequential(client.parts["encoder"], nn.Dropout(0.5))
    client.parts.train()

    found = prototypes.of_data(client)

    for c, mean in as_dict(found).items():
        assert torch.allclose(torch.tensor(mean), features[PEOPLE["c0"].train.y == c].mean(0), atol=1e-6)
    assert not found["prototype"].requires_grad


def test_of_the_last_epoch_is_of_the_last_batches():
    """Two epochs of two batches each; class 0 of the last two: (3 + 5) / 2."""
    seen = [(torch.full((1, 1), float(f)), torch.tensor([y])) for f, y in ((9, 0), (9, 1), (3, 0), (5, 0))]

    assert as_dict(prototypes.of_last_epoch(seen, 2)) == {0: [4.0]}


@pytest.mark.parametrize(("weights", "mean"), [("sample", 3.0), ("uniform", 2.0), ("literal", 1.5)])
def test_the_mean_over_owners_by_hand(weights, mean):
    """Class 2: 0 of one example and 4 of three: (0 + 12) / 4, (0 + 4) / 2, and 3 / 2; class 5: one owner."""
    sent = [rows([2], [[0.0]], [1]), rows([2, 5], [[4.0], [7.0]], [3, 9])]

    found = prototypes.mean_by_class(sent, {}, weights)

    assert as_dict(found) == {2: [mean], 5: [7.0]}
    assert as_dict(found, "count") == {2: 4, 5: 9}


def test_a_class_nobody_sent_is_as_it_was():
    before = rows([2, 5], [[1.0], [9.0]], [8, 6])

    found = prototypes.mean_by_class([rows([2, 3], [[0.0], [4.0]], [1, 2])], before, "sample")

    assert as_dict(found) == {2: [0.0], 3: [4.0], 5: [9.0]}
    assert as_dict(found, "count") == {2: 1, 3: 2, 5: 6}


def test_without_counts_none_come_out():
    found = prototypes.mean_by_class([rows([2], [[0.0]]), rows([2], [[4.0]])], rows([5], [[9.0]]), "uniform")

    assert as_dict(found) == {2: [2.0], 5: [9.0]}
    assert found.keys() == {"class", "prototype"}


@pytest.mark.parametrize("before", [{}, rows([0], [[1.0]])])
def test_features_of_different_sizes_are_said(before):
    sent = [rows([0], [[0.0, 1.0]])] + ([] if before else [rows([0], [[0.0]])])

    with pytest.raises(MethodError, match=r"one size from everybody; there are \[1, 2\]"):
        prototypes.mean_by_class(sent, before, "uniform")


def test_rows_of_labels():
    there, row = prototypes.rows_of(torch.tensor([7, 1, 2]), torch.tensor([2, 7]))

    assert there.tolist() == [True, False, True]
    assert row[there].tolist() == [1, 0]


def test_the_distance_is_a_mean_over_batch_and_features_and_its_slope_too():
    """f = (1, 2), (5, 5), (9, 9), the last without target: (1 + 4 + 1 + 1) / (3 · 2); slope 2 (f - C) / 6."""
    f = torch.tensor([[1.0, 2.0], [5.0, 5.0], [9.0, 9.0]], requires_grad=True)
    target, there = torch.tensor([[0.0, 0.0], [4.0, 4.0], [0.0, 0.0]]), torch.tensor([True, True, False])

    r = prototype_distance(f, target, there)
    r.backward()

    assert r.item() == pytest.approx(7 / 6)
    assert f.grad is not None
    assert torch.allclose(f.grad, 2 * (f.detach() - target) * there[:, None] / 6)
