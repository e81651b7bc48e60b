"""Randomness by name."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from pluribus.seeds import generator, lent, number, numpy_generator


def test_the_scheme_of_keys_has_not_moved() -> None:
    """Golden: if this changes, every number of every run changes."""
    assert number(0, "cohort", 1) == 60839922842544382
    assert number(0, "round", 3, "c1", "all") == 56855297726651162
    assert torch.randperm(5, generator=generator(0, "cohort", 1)).tolist() == [3, 1, 4, 0, 2]
    assert numpy_generator(0, "cohort", 1).integers(0, 1000, 5).tolist() == [62, 684, 308, 667, 819]


@pytest.mark.parametrize(
    "key",
    [
        (0, "cohort", 2),
        (1, "cohort", 1),
        (0, "drop", 1),
        (0, "cohort"),
        ("0", "cohort", 1),
        (0, "cohort", 1, ""),
        ((0, "cohort"), 1),
    ],
)
def test_every_part_of_a_key_matters(key: tuple[object, ...]) -> None:
    assert number(*key) != number(0, "cohort", 1)


def test_a_number_fits_both_generators() -> None:
    numbers = [number("fits", i) for i in range(200)]

    assert len(set(numbers)) == 200
    assert all(0 <= n < 2**56 for n in numbers)
    assert max(numbers) > 2**54


def test_another_process_gets_the_same_numbers() -> None:
    """Whatever its hash seed: `hash` of a string differs from process to process."""
    script = "from pluribus.seeds import number; print(number(0, 'cohort', 1))"

    out = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(out.stdout) == number(0, "cohort", 1)


def test_the_global_generators_are_neither_read_nor_moved() -> None:
    torch.manual_seed(3)
    before, numpy_before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002

    one = torch.rand(3, generator=generator("a"))
    numpy_generator("a").random(3)
    torch.manual_seed(4)

    assert torch.equal(one, torch.rand(3, generator=generator("a")))
    torch.manual_seed(3)
    assert torch.equal(before, torch.get_rng_state())
    assert numpy_before == str(np.random.get_state())  # noqa: NPY002


def test_a_lent_generator_is_ours_and_the_global_one_comes_back() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    drawn = []
    for _ in range(2):
        with lent(0, "network"):
            drawn.append(torch.rand(2))

    assert torch.equal(*drawn)
    assert torch.equal(before, torch.get_rng_state())


def test_the_global_generator_comes_back_after_an_error_too() -> None:
    before = torch.get_rng_state()

    with pytest.raises(RuntimeError, match="negative"), lent(0, "network"):
        torch.rand(-1)

    assert torch.equal(before, torch.get_rng_state())
