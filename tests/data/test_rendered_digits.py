"""Digits rendered from fonts: always the same, and to be told apart from what is behind them."""

import numpy as np
import pytest

from pluribus import data
from pluribus.data import places, rendered_digits
from pluribus.data.rendered_digits import RENDERED_DIGITS
from pluribus.errors import DataDamaged
from pluribus.seeds import numpy_generator

FONTS = places.find(RENDERED_DIGITS).paths


def test_the_same_number_gives_the_same_image_and_another_another():
    first, again, other = (rendered_digits.rendered(FONTS, 5, row) for row in (7, 7, 8))

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.shape, first.dtype) == ((3, 32, 32), np.uint8)


def test_digits_take_turns_and_the_training_rows_come_first():
    arrays = rendered_digits.read(FONTS, train=30, test=20)

    assert arrays.official == 30
    assert np.bincount(arrays.labels[:30]).tolist() == [3] * 10
    assert np.bincount(arrays.labels[30:]).tolist() == [2] * 10
    assert np.array_equal(arrays.inputs[31], rendered_digits.rendered(FONTS, 1, 31))


def test_a_digit_is_drawn_in_the_middle_and_its_shape_is_the_digits():
    """On average a one is near the middle and has less ink than an eight."""
    ones, eights = (
        np.mean([rendered_digits.mask(FONTS[0], digit, numpy_generator(row)) for row in range(40)], 0)
        for digit in (1, 8)
    )

    assert ones[:4].max() < 0.2
    assert ones[12:20, 12:20].mean() > 2 * ones.mean()
    assert eights.sum() > ones.sum()


def test_the_digits_colour_is_easy_to_tell_from_what_is_behind():
    behind = np.array([120.0, 130.0, 125.0])

    colours = [rendered_digits.colour_unlike(behind, numpy_generator(row)) for row in range(50)]

    assert min(np.abs(colour - behind).sum() for colour in colours) >= rendered_digits.CONTRAST


def test_every_font_is_used_and_none_is_there_twice():
    drawn = [numpy_generator("rendered-digits", row) for row in range(300)]
    for rng in drawn:
        rendered_digits.colour_unlike(rendered_digits.blotches(rng).mean((0, 1)), rng)

    assert {int(rng.integers(len(FONTS))) for rng in drawn} == set(range(len(FONTS)))
    assert len({path.read_bytes() for path in FONTS}) == len(FONTS) == 14


def test_a_file_that_is_no_font_is_refused(tmp_path):
    (tmp_path / "a.ttf").write_bytes(b"<html>")

    with pytest.raises(DataDamaged, match=r"a.ttf: expected a font"):
        rendered_digits.read([tmp_path / "a.ttf"], train=1, test=0)


def test_it_says_what_it_is_and_what_it_is_not():
    entry = data.entry("rendered-digits")

    assert "no published set" in entry.title
    assert data.describe("rendered-digits").here
