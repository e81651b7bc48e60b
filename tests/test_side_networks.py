"""Networks beside a model's: their sizes, and what they begin with."""

import pytest
import torch
from torch import nn

from pluribus.side_networks import generator, twice_as_wide, two_layers


@pytest.mark.parametrize("shape", [(6,), (1, 8, 8), (3, 30, 30), (1, 28, 32), (3, 2, 40), (3, 96, 96)])
def test_there_is_a_generator_for_any_shape(shape: tuple[int, ...]) -> None:
    made = generator(shape, 5)

    assert made(torch.zeros(2, 5)).shape == (2, *shape)
    assert any(isinstance(m, nn.ConvTranspose2d) for m in made) == (shape == (3, 96, 96))


def test_two_layers_give_as_many_features_as_they_take() -> None:
    """7 · 128 + 128 and 128 · 7 + 7 parameters."""
    made = two_layers(7)

    assert made(torch.zeros(2, 7)).shape == (2, 7)
    assert sum(p.numel() for p in made.parameters()) == 1_024 + 903


def test_a_body_that_ends_in_a_linear_layer_gets_a_wider_one_in_its_place() -> None:
    body = [nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, 5)]

    made = twice_as_wide(body, 5)

    assert [type(layer) for layer in made] == [nn.Linear, nn.ReLU, nn.Linear]
    assert made(torch.zeros(2, 3)).shape == (2, 10)
    assert torch.equal(made[0].weight, body[0][0].weight)
    assert made[0].weight is not body[0][0].weight


def test_a_body_that_ends_in_something_else_gets_one_behind() -> None:
    made = twice_as_wide([nn.Conv2d(1, 2, 3), nn.ReLU()], 8)

    assert [type(layer) for layer in made] == [nn.Conv2d, nn.ReLU, nn.Flatten, nn.Linear]
    assert made(torch.zeros(2, 1, 4, 4)).shape == (2, 16)
