"""A dataset agrees with itself, and knows how its bytes become inputs."""

import pytest
import torch

from pluribus.data.dataset import ROWS_AT_A_TIME, Dataset, from_tensors, measured
from pluribus.errors import DataError, UnknownName
from pluribus.examples import Scale


def small(**changes):
    values = {
        "inputs": torch.tensor([0, 255, 51, 102], dtype=torch.uint8).reshape(2, 2, 1, 1),
        "labels": torch.tensor([0, 1]),
        "classes": ("no", "yes"),
        "official": 1,
        "groups": {"writer": torch.tensor([7, 8])},
    }
    return from_tensors("small", **{**values, **changes})


def test_the_digest_depends_on_inputs_labels_and_groups():
    digests = {
        small().digest,
        small(inputs=small().inputs + 1).digest,
        small(labels=torch.tensor([1, 0])).digest,
        small(groups={"writer": torch.tensor([7, 7])}).digest,
        small(groups={"domain": torch.tensor([7, 8])}).digest,
        small(groups={}).digest,
    }

    assert len(digests) == 6


def test_equal_contents_have_equal_digests():
    assert small().digest == small(classes=("a", "b"), official=2).digest


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"inputs": torch.zeros(2, 2, 1, 1)}, "they should be uint8"),
        ({"inputs": torch.zeros(2, 4, dtype=torch.uint8)}, "they should be uint8"),
        (
            {
                "inputs": torch.zeros(0, 1, 1, 1, dtype=torch.uint8),
                "labels": torch.zeros(0, dtype=torch.int64),
            },
            "N > 0",
        ),
        ({"labels": torch.tensor([0, 1, 1])}, r"labels are torch.int64 \(3,\); they should be int64 \(2,\)"),
        ({"labels": torch.tensor([0.0, 1.0])}, "labels are torch.float32"),
        ({"labels": torch.tensor([0, 2])}, "labels go from 0 to 2, but there are 2 classes"),
        ({"labels": torch.tensor([-1, 1])}, "labels go from -1 to 1"),
        ({"official": 3}, "official is 3, but there are 2 rows"),
        ({"official": -1}, "official is -1"),
        ({"groups": {"writer": torch.tensor([1])}}, "groups without one int64 per row: writer"),
    ],
)
def test_what_does_not_fit_together_is_no_dataset(changes, says):
    with pytest.raises(DataError, match=says):
        small(**changes)


def test_half_goes_from_minus_one_to_one_and_none_from_zero_to_one():
    dataset = small()

    half = dataset.scale("half")(dataset.inputs)
    none = dataset.scale("none")(dataset.inputs)

    assert torch.allclose(half.flatten(), torch.tensor([-1.0, 1.0, -0.6, -0.2]))
    assert torch.allclose(none.flatten(), torch.tensor([0.0, 1.0, 0.2, 0.4]))


def test_an_unknown_scale_is_an_error():
    with pytest.raises(UnknownName, match="did you mean 'half'"):
        small().scale("hal")


def test_statistics_are_of_the_official_training_rows():
    """
    Values 0, 51, 102, 51 of a channel are 0, 0.2, 0.4, 0.2: mean 0.2, deviation √(0.08/4) = √0.02.
    The test row of 255 does not count.
    """
    inputs = torch.tensor([0, 51, 102, 51, 255], dtype=torch.uint8).reshape(5, 1, 1, 1)
    dataset = small(inputs=inputs, labels=torch.zeros(5, dtype=torch.int64), official=4, groups={})

    scale = dataset.scale("statistics")

    assert scale.mean == pytest.approx((0.2,))
    assert scale.std == pytest.approx((0.02**0.5,))


def test_statistics_are_those_of_torch_for_each_channel():
    inputs = torch.randint(
        0, 256, (ROWS_AT_A_TIME + 9, 3, 2, 2), dtype=torch.uint8, generator=torch.Generator()
    )
    values = inputs.double() / 255

    scale = measured(inputs, len(inputs))

    assert scale.mean == pytest.approx(values.mean((0, 2, 3)).tolist())
    assert scale.std == pytest.approx(values.std((0, 2, 3), correction=0).tolist())


def test_a_channel_of_one_value_is_only_shifted():
    assert measured(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), 3) == Scale((0.0,), (1.0,))


def test_known_statistics_are_not_measured_again():
    known = Scale((0.25, 0.25), (0.5, 0.5))
    dataset = small()
    told = Dataset("told", dataset.inputs, dataset.labels, dataset.classes, 1, {}, dataset.digest, known)

    assert told.scale("statistics") is known


def test_shape_and_length():
    dataset = small()

    assert dataset.shape == (2, 1, 1)
    assert len(dataset) == 2
