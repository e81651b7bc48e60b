"""Labelled examples as positions in arrays that live once."""

import torch

from pluribus.examples import Examples, Scale

IMAGES = torch.tensor([0, 51, 255, 102], dtype=torch.uint8).view(4, 1, 1, 1)
LABELS = torch.tensor([0, 1, 1, 3])
SOME = Examples(IMAGES, LABELS, torch.tensor([2, 0, 3]), 5, Scale((0.5,), (0.25,)))


def test_bytes_are_scaled_by_hand() -> None:
    """(255/255 - 0.5) / 0.25 = 2,  (0 - 0.5) / 0.25 = -2,  (102/255 - 0.5) / 0.25 = -0.4."""
    x, y = SOME.batch(torch.tensor([0, 1, 2]))

    assert torch.allclose(x.flatten(), torch.tensor([2.0, -2.0, -0.4]))
    assert (x.dtype, x.shape, y.tolist()) == (torch.float32, (3, 1, 1, 1), [1, 0, 3])


def test_each_channel_has_its_own_scale() -> None:
    images = torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)

    x = Scale((0.0, 0.5, 0.5), (1.0, 0.5, 0.25))(images)

    assert torch.allclose(x[0, :, 0, 0], torch.tensor([1.0, 1.0, 2.0]))


def test_floats_are_taken_as_they_are() -> None:
    inputs = torch.tensor([[1.5], [2.5]], dtype=torch.float64)
    data = Examples(inputs, torch.tensor([0, 1]), torch.tensor([1, 0]), 2)

    assert torch.equal(data.x, inputs.flip(0))


def test_positions_count_within_the_list_and_not_within_the_arrays() -> None:
    assert SOME.batch(torch.tensor([1]))[1].tolist() == [0]
    assert SOME.y.tolist() == [1, 0, 3]
    assert len(SOME) == 3


def test_counts_name_every_class_also_those_without_an_example() -> None:
    assert SOME.counts.tolist() == [1, 1, 0, 1, 0]


def test_take_may_repeat_and_shares_the_arrays() -> None:
    taken = SOME.take(torch.tensor([2, 2, 0]))

    assert taken.y.tolist() == [3, 3, 1]
    assert taken.inputs is IMAGES
    assert len(SOME.take(torch.arange(0))) == 0
