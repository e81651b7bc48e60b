"""Named tensors: chosen, renamed, averaged, told apart."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from pluribus.state import (
    add,
    average,
    copied,
    digest,
    mix,
    not_finite,
    num_bytes,
    num_scalars,
    of_parts,
    part_of,
    select,
    square_distance,
    under,
    within,
    zeros_like,
)

MIXED = {
    "encoder.w": torch.ones(2),
    "encoder2.w": torch.ones(1),
    "head.w": torch.zeros(3),
    "own/head.w": torch.ones(1),
}


def one(*numbers: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor(numbers, dtype=torch.float32)}


def test_a_part_is_what_stands_before_the_first_dot() -> None:
    assert part_of("encoder.conv.weight") == "encoder"
    assert part_of("head") == "head"


def test_select_takes_whole_part_names_and_nothing_of_the_methods_own() -> None:
    assert set(select(MIXED, "encoder")) == {"encoder.w"}
    assert set(select(MIXED, "head", "encoder2")) == {"head.w", "encoder2.w"}
    assert select(MIXED) == {}


def test_names_with_a_slash_belong_to_the_method() -> None:
    assert set(of_parts(MIXED)) == {"encoder.w", "encoder2.w", "head.w"}


def test_within_undoes_under() -> None:
    named = under("own", MIXED)

    assert set(named) == {"own/encoder.w", "own/encoder2.w", "own/head.w", "own/own/head.w"}
    assert within("own", named) == MIXED
    assert within("other", named) == {}


def test_within_does_not_take_a_longer_prefix_for_its_own() -> None:
    assert within("own", {"owner/w": torch.ones(1)}) == {}


def test_three_identical_tensors_average_to_that_tensor_to_the_bit() -> None:
    """In float32 they do not: that is why sums are float64."""
    state = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0))}
    in_float32 = (state["w"] * 3 + state["w"] * 7 + state["w"] * 11) / 21

    mean = average([state] * 3, [3, 7, 11])

    assert torch.equal(mean["w"], state["w"])
    assert not torch.equal(in_float32, state["w"])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.floats(-1e6, 1e6, width=32))
def test_whatever_the_weights_identical_tensors_average_to_themselves(
    weights: list[int], value: float
) -> None:
    assert average([one(value)] * len(weights), weights)["w"].item() == value


def test_an_average_by_hand() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5 and (1 · 0 + 3 · 1) / 4 = 0.75."""
    mean = average([one(2, 0), one(6, 1)], [1, 3])

    assert mean["w"].tolist() == [5, 0.75]
    assert mean["w"].dtype == torch.float32


def test_a_mix_is_exact_at_both_ends() -> None:
    a, b = one(0.1, 1e30), one(0.7, -3.0)

    assert torch.equal(mix(a, b, 0.0)["w"], a["w"])
    assert torch.equal(mix(a, b, 1.0)["w"], b["w"])
    assert torch.allclose(mix(one(2), one(6), 0.25)["w"], torch.tensor([3.0]))


def test_sums_and_distances_by_hand() -> None:
    assert add(one(1, 2), one(10, 20), 0.5)["w"].tolist() == [6, 12]
    assert add(one(1), one(10))["w"].tolist() == [11]
    assert square_distance(one(1, 2), one(4, 6)) == 25
    assert zeros_like(one(1, 2))["w"].tolist() == [0, 0]


def test_a_copy_has_memory_of_its_own() -> None:
    state = one(1)

    copied(state)["w"].add_(1)

    assert state["w"].item() == 1


def test_bytes_are_counted_by_type() -> None:
    tensors = {"a": torch.zeros(3), "b": torch.zeros(2, dtype=torch.int64), "c": torch.tensor(True)}

    assert num_bytes(tensors) == 3 * 4 + 2 * 8 + 1
    assert num_scalars(tensors) == 6


def test_what_is_not_finite_is_named() -> None:
    tensors = {
        "a": torch.ones(2),
        "b": torch.tensor([1, math.nan]),
        "c": torch.tensor([-math.inf]),
        "d": torch.tensor([7]),
    }

    assert not_finite(tensors) == ["b", "c"]


def test_a_digest_depends_on_names_types_shapes_and_every_bit() -> None:
    base = {"w": torch.tensor([1.0, 2.0])}
    others = [
        {"v": torch.tensor([1.0, 2.0])},
        {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)},
        {"w": torch.tensor([[1.0, 2.0]])},
        {"w": torch.tensor([1.0, 2.0 + 2**-22])},
        {"w": torch.tensor([2.0, 1.0])},
        {**base, "empty": torch.zeros(0)},
        {},
    ]

    digests = {digest(t) for t in [base, *others]}

    assert len(digests) == 1 + len(others)


def test_a_digest_tells_types_of_the_same_bytes_apart() -> None:
    assert digest({"w": torch.zeros(2)}) != digest({"w": torch.zeros(2, dtype=torch.int32)})


def test_a_digest_tells_minus_zero_from_zero() -> None:
    assert digest({"w": torch.tensor(0.0)}) != digest({"w": torch.tensor(-0.0)})


def test_a_digest_does_not_depend_on_order_or_memory_layout() -> None:
    a, b = torch.randn(2, 3, 4, 4), torch.tensor(3)

    assert digest({"a": a, "b": b}) == digest({"b": b, "a": a.to(memory_format=torch.channels_last)})
    assert digest({"a": a, "b": b}) == digest({"a": a.clone().requires_grad_(), "b": b})
