"""Networks beside a model's: their sizes, and what they begin with."""

import pytest
import torch
from torch import Tensor, nn

from pluribus.errors import MethodError
from pluribus.seeds import generator as seeded
from pluribus.side_networks import (
    generator,
    relate,
    relation_module,
    say_nothing,
    twice_as_wide,
    two_layers,
    usual_projector,
)


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


@pytest.mark.parametrize(
    ("features", "map_", "parameters"), [(50, (), 13_393), (320, (20, 4, 4), 25_297), (2, (), 1_105)]
)
def test_the_relation_is_as_large_as_the_sheet_says(
    features: int, map_: tuple[int, ...], parameters: int
) -> None:
    assert sum(p.numel() for p in relation_module(features, map_).parameters()) == parameters


def test_the_relation_of_maps_sees_the_channels_of_feature_and_prototype() -> None:
    seen: list[Tensor] = []
    relation = relation_module(320, (20, 4, 4))
    relation[2].register_forward_hook(lambda module, pairs, out: seen.append(pairs[0]))
    f, c = torch.randn(3, 320, generator=seeded(1)), torch.randn(2, 320, generator=seeded(2))

    scores = relate(relation, f, c)

    assert scores.shape == (3, 2)
    assert seen[0].shape == (6, 40, 4, 4)
    assert torch.equal(seen[0][3, :20], f[1].view(20, 4, 4))
    assert torch.equal(seen[0][3, 20:], c[1].view(20, 4, 4))


@pytest.mark.parametrize(("features", "map_"), [(50, (20, 4, 4)), (320, (20, 16)), (1, ()), (20, (20, 1, 1))])
def test_a_map_that_does_not_fit_is_said(features: int, map_: tuple[int, ...]) -> None:
    with pytest.raises(MethodError, match=f"{features} numbers reach the head"):
        relation_module(features, map_)


@pytest.mark.parametrize("behind", [nn.Identity(), nn.ReLU()])
def test_a_head_that_says_nothing_has_zeros_in_its_last_layer_and_no_other(behind: nn.Module) -> None:
    head = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), behind)

    say_nothing(head)

    assert not head(torch.randn(5, 3, generator=seeded("x"))).any()
    assert {n for n, t in head.state_dict().items() if not t.any()} == {"2.weight", "2.bias"}


@pytest.mark.parametrize(("features", "inner"), [(512, 256), (9, 4), (1, 1)])
def test_a_projector_is_half_as_wide_inside_and_gives_what_it_takes(features: int, inner: int) -> None:
    made = usual_projector(features)

    widths = [(m.in_features, m.out_features) for m in made if isinstance(m, nn.Linear)]
    assert widths == [(features, inner), (inner, features)]
    assert made(torch.zeros(2, features, 1, 1)).shape == (2, features)


def test_the_papers_projector_is_as_large_as_the_paper_counts() -> None:
    """3b: 264,448 behind ResNet-18."""
    assert sum(p.numel() for p in usual_projector(512).parameters()) == 264_448
