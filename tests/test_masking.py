"""What is hidden of an input: how much, where, and as what."""

import pytest
import torch
from torch.nn import functional as F

from pluribus.masking import masked
from pluribus.seeds import generator


@pytest.mark.parametrize(("side", "hidden"), [(28, 29), (32, 38), (64, 153)])
def test_exactly_so_many_patches_are_hidden_as_a_whole(side: int, hidden: int) -> None:
    """1g.1: ⌊0.6 · 49⌋ = 29, ⌊0.6 · 64⌋ = 38, ⌊0.6 · 256⌋ = 153 patches of 4 x 4, over all channels."""
    x = 1 + torch.rand(3, 2, side, side, generator=generator("images"))

    seen = masked(x, 0.6, generator("mask"))

    zero = seen == 0
    patches = zero.unfold(2, 4, 4).unfold(3, 4, 4).movedim(1, 3).flatten(3)
    assert bool((patches.all(3) | ~patches.any(3)).all())
    assert patches.all(3).flatten(1).sum(1).tolist() == [hidden] * 3
    assert not torch.equal(zero[0], zero[1])
    assert torch.equal(seen[~zero], x[~zero])


def test_no_mask_is_the_identity_and_a_whole_one_hides_all() -> None:
    """1g.1."""
    x = torch.randn(2, 1, 28, 28, generator=generator("images"))

    assert torch.equal(masked(x, 0.0, generator("mask")), x)
    assert not masked(x, 1.0, generator("mask")).any()


@pytest.mark.parametrize(
    ("ratio", "numbers", "hidden"), [(0.55, 10, 5), (0.29, 100, 29), (1e-5, 10, 0), (0.999, 10, 9)]
)
def test_of_what_is_no_image_numbers_are_hidden_one_by_one(ratio: float, numbers: int, hidden: int) -> None:
    """⌊0.55 · 10⌋ = 5; 0.29 · 100 is 29, although floats make 28.999999999999996 of it."""
    seen = masked(torch.ones(4, numbers), ratio, generator("mask"))

    assert (seen == 0).sum(1).tolist() == [hidden] * 4


def test_sides_that_four_does_not_divide_have_smaller_patches_at_the_end() -> None:
    """30 x 26: 8 · 7 = 56 patches, ⌊0.5 · 56⌋ = 28 of them."""
    hidden = masked(torch.ones(2, 1, 30, 26), 0.5, generator("mask")) == 0

    whole = F.pad(hidden[:, 0].float(), (0, 2, 0, 2), value=-1).unfold(1, 4, 4).unfold(2, 4, 4).flatten(3)
    assert (whole.amax(3) == 1).flatten(1).sum(1).tolist() == [28, 28]
