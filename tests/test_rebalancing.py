"""As many examples of each class: which are drawn, and what becomes of copies."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pluribus.examples import Examples
from pluribus.rebalancing import balanced, with_copies
from pluribus.seeds import generator


def test_three_of_each_class_by_hand() -> None:
    """Class 7, at 0, 1, 3, 4, 5, has three of five originals; class 9, at 2, itself and two copies."""
    originals, copied = balanced(torch.tensor([7, 7, 9, 7, 7, 7]), 3, generator("draw"))

    assert originals[-1] == 2
    assert len(set(originals[:-1].tolist()) & {0, 1, 3, 4, 5}) == 3
    assert copied.tolist() == [2, 2]


@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=30), each=st.integers(1, 12))
def test_every_class_there_is_has_as_many_and_no_original_stands_twice(labels: list[int], each: int) -> None:
    counts = Counter(labels)

    originals, copied = (found.tolist() for found in balanced(torch.tensor(labels), each, generator("draw")))

    assert Counter(labels[i] for i in originals + copied) == dict.fromkeys(counts, each)
    assert len(set(originals)) == len(originals) == sum(min(n, each) for n in counts.values())
    assert {labels[i] for i in copied} == {c for c, n in counts.items() if n < each}


def test_the_same_generator_draws_the_same_and_another_something_else() -> None:
    y = torch.zeros(40, dtype=torch.long)

    one, two, other = (balanced(y, 20, generator(name))[0].tolist() for name in ("a", "a", "b"))

    assert one == two != other
    assert sorted(one) != list(range(20))


def photos(dtype: torch.dtype) -> Examples:
    """Four inputs of value 0, 10, 20, 30, of which the client has the last three, backwards."""
    inputs = torch.arange(0, 40, 10).view(4, 1, 1, 1).to(dtype)
    return Examples(inputs, torch.tensor([0, 1, 2, 3]), torch.tensor([3, 2, 1]), 4)


def add_one(images: Tensor) -> Tensor:
    return images + 1


@pytest.mark.parametrize(
    ("dtype", "change", "expected"),
    [
        (torch.uint8, add_one, [20, 30, 11, 11]),
        (torch.uint8, None, [20, 30, 10, 10]),
        (torch.float32, add_one, [20, 30, 10, 10]),
    ],
)
def test_copies_of_images_are_changed_and_stand_last(
    dtype: torch.dtype, change: object, expected: object
) -> None:
    """Originals at positions 1 and 0, two copies of position 2."""
    data = photos(dtype)

    found = with_copies(data, torch.tensor([1, 0]), torch.tensor([2, 2]), change)  # type: ignore[arg-type]

    assert found.inputs[found.index].flatten().tolist() == expected
    assert found.y.tolist() == [2, 3, 1, 1]
    assert data.inputs.flatten().tolist() == [0, 10, 20, 30]


def test_without_copies_nothing_is_changed() -> None:
    def never(images: Tensor) -> Tensor:
        raise AssertionError(images)

    found = with_copies(photos(torch.uint8), torch.tensor([0, 1, 2]), torch.arange(0), never)

    assert found.y.tolist() == [3, 2, 1]
