"""Augmentation: the same generator gives the same bytes, and each image has a change of its own."""

import pytest
import torch

from pluribus.augment import AUGMENTATIONS, CropFlip, DualFed, Flips, Simple, augmentation, spelled
from pluribus.errors import SettingError, UnknownName
from pluribus.seeds import generator


def images(number=16, channels=3, side=12):
    return torch.randint(0, 256, (number, channels, side, side), generator=generator("x"), dtype=torch.uint8)


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_generator_gives_the_same_bytes(name, channels):
    change, x = augmentation(name), images(channels=channels)
    before = x.clone()

    once, again, other = (change(x, generator("c07", 3 if i < 2 else 4)) for i in range(3))

    assert once.dtype == torch.uint8
    assert once.shape == x.shape
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert not torch.equal(once, x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_global_generator_is_neither_read_nor_moved(name):
    change, x = augmentation(name), images()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = change(x, generator("a"))
    same = torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)

    assert same
    assert torch.equal(change(x, generator("a")), first)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_image_is_changed_for_itself(name):
    x = images(1).expand(32, -1, -1, -1)

    out = augmentation(name)(x, generator("each"))

    assert len({bytes(image.flatten().tolist()) for image in out}) > 1


def test_a_flip_mirrors_about_half_and_leaves_the_others():
    x = images(200)

    out = Flips()(x, generator("flips"))

    mirrored = (out == x.flip(3)).flatten(1).all(1)
    assert ((out == x).flatten(1).all(1) | mirrored).all()
    assert 70 < mirrored.sum() < 130


def test_a_crop_is_the_image_moved_by_at_most_the_border_with_black_behind():
    x = torch.full((60, 1, 6, 6), 200, dtype=torch.uint8)

    out = CropFlip(border=2)(x, generator("crop"))

    rows, columns = (out.amax(dim).squeeze(1) > 0 for dim in (3, 2))
    assert set(out.unique().tolist()) == {0, 200}
    assert {4, 5, 6} == set(rows.sum(1).tolist()) == set(columns.sum(1).tolist())


def test_no_turn_leaves_the_image_or_its_mirror():
    x = images()

    out = DualFed(degrees=0)(x, generator("turn"))

    assert ((out == x).flatten(1).all(1) | (out == x.flip(3)).flatten(1).all(1)).all()


def test_a_turn_is_no_larger_than_its_limit():
    """A bright line from the centre to the top stays within 30 degrees of where it was."""
    x = torch.zeros(40, 1, 41, 41, dtype=torch.uint8)
    x[:, :, :6, 20] = 255

    out = DualFed(degrees=30)(x, generator("turn"))

    _, _, rows, columns = out.nonzero(as_tuple=True)
    angles = torch.atan2((columns - 20).abs().float(), (20 - rows).float()).rad2deg()
    assert 15 < angles.max() <= 32


def test_simple_leaves_grey_images_their_tones_until_they_are_moved():
    x = torch.full((20, 1, 16, 16), 100, dtype=torch.uint8)

    out = Simple()(x, generator("grey"))

    assert (out[:, 0, 8, 8] == 100).all()


def test_a_spelling_is_read_and_written():
    assert augmentation("none") is None
    assert augmentation("dualfed:20") == DualFed(20.0)
    assert spelled(" dualfed:degrees=30 ") == "dualfed"
    assert spelled("auto:imagenet") == "auto:policy=imagenet"
    assert spelled("none") == "none"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("flipp", UnknownName),
        ("auto:mnist", SettingError),
        ("flips:2", SettingError),
        ("dualfed:-1", SettingError),
        ("crop-flip:-1", SettingError),
        ("simple:degrees=200", SettingError),
    ],
)
def test_what_cannot_be_is_refused(text, error):
    with pytest.raises(error):
        augmentation(text)
